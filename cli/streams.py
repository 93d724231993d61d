"""Prepare the standard streams, read lines from a file or stdin, and write lines to a file or stdout."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from specs import ZooError

if TYPE_CHECKING:
    from zoo.text.lines import LineStream


def prepare_standard_streams() -> None:
    r"""Make the standard streams safe to use.

    Output is UTF-8 in every locale. File names that are not UTF-8 are written to stdout as their bytes, and to stderr
    with escapes. A closed stdin or stdout is replaced by a `ClosedStream`, and a closed stderr by the
    null device.
    """
    _reserve_descriptors()
    if sys.stdin is None:
        sys.stdin = ClosedStream("input", "redirect it, for example with `</dev/null`")
    if sys.stdout is None:
        sys.stdout = ClosedStream("output", "redirect it, for example with `>/dev/null`")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (until the process ends)
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors=errors)


class ClosedStream(io.TextIOBase):
    """Stand-in for a closed standard stream. It raises ZooError when it is first used."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__()
        self._name, self._remedy = name, remedy

    @property
    def buffer(self) -> ClosedStream:
        """This object itself, so that the use of the binary buffer raises ZooError, too."""
        return self

    def readline(self, *_: object) -> NoReturn:
        """Raise ZooError, because the stream is closed."""
        raise ZooError(f"standard {self._name} is closed", hint=self._remedy)

    read = write = __next__ = readline


def _reserve_descriptors() -> None:
    """Open the null device for those of the file descriptors 0 to 2 that are closed.

    Otherwise, the next file that is opened would get one of these descriptors, and libraries would print to that file.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def is_typed(path: Path | None) -> bool:
    """Return whether a user types the input lines: there is no input file (`path`), and stdin is a terminal."""
    return path is None and sys.stdin.isatty()


@contextmanager
def open_lines(path: Path | None) -> Iterator[LineStream]:
    """Open a file, or stdin if `path` is None, and yield its lines.

    Raises:
        ZooError: The file cannot be opened, or a line that is read from the iterator is not UTF-8.
    """
    from zoo.text.lines import LineStream

    if path is None:
        yield LineStream(sys.stdin.buffer, "<stdin>")
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        hint = "check the path and the permissions of the file"
        raise ZooError(f"cannot read `{path}`: {error.strerror or error}", hint=hint) from None
    with stream:
        yield LineStream(stream, str(path))


@contextmanager
def open_output(
    path: Path | None, inputs: Iterable[Path | None] = (), *, flush: bool = False
) -> Iterator[Callable[[str], None]]:
    """Open a file, or stdout if `path` is None, and yield a function that writes a line.

    A regular file appears when the context ends without an error. After an error, the lines written so far are in a
    file of the same name with the suffix `.partial`.

    Args:
        path: The file to write.
        inputs: Files that are read at the same time. None means stdin.
        flush: Whether to write each line immediately, instead of buffering.

    Raises:
        ZooError: The output is one of the inputs.
    """
    from zoo.files.output import open_output, require_different_files
    from zoo.text.lines import descriptor_of

    target = descriptor_of(sys.stdout) if path is None else path
    sources = [descriptor_of(sys.stdin) if source is None else source for source in inputs]
    if target is not None:
        require_different_files(target, [source for source in sources if source is not None])
    if path is None:
        yield lambda line: print(line, flush=flush)
        return
    lines = 0
    with open_output(path) as file:

        def write(line: str) -> None:
            nonlocal lines
            print(line, file=file, flush=flush)
            lines += 1

        try:
            yield write
        except BaseException:  # also if the user interrupts the command
            if lines:
                _keep_partial(path, file, lines)
            raise


def _keep_partial(path: Path, file: TextIO, lines: int) -> None:
    """Copy the lines of an unfinished output file to `PATH.partial`. Do nothing if `path` is a pipe or device."""
    from cli.console import report

    file.flush()
    if not isinstance(file.name, str) or not Path(file.name).is_file():
        return
    partial = path.with_name(f"{path.name}.partial")
    with suppress(OSError):  # the first error matters more
        shutil.copyfile(file.name, partial)
        written = f"{lines:,} line{'s' * (lines > 1)}"
        report().warn(
            f"`{path}` was not written: the command failed or was stopped; `{partial}` has the first {written}"
        )

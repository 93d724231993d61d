"""Read lines from files or stdin, print lines, tables and JSON to stdout, and print messages to stderr."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from specs import ZooError
from zoo.report import PlainReport, Report, Table, escape_control_characters

if TYPE_CHECKING:
    from zoo.text.lines import LineStream


_UNLIMITED_WIDTH = 10_000  # columns, if stdout is not a terminal
_TERMINAL_VARIABLES = {"FORCE_COLOR", "TTY_COMPATIBLE"}
"""Environment variables that make rich treat a file as a terminal."""


def prepare_standard_streams() -> None:
    r"""Set the encoding of the standard streams, and replace closed streams.

    Output is UTF-8 in every locale. File names that are not UTF-8 are written to stdout as raw bytes, and to stderr
    with escapes. A closed stdin or stdout is replaced by a `ClosedStream`, and a closed stderr by the null device.
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
    """Replacement for a closed standard stream. Reading from it or writing to it raises ZooError."""

    def __init__(self, name: str, remedy: str) -> None:
        super().__init__()
        self._name, self._remedy = name, remedy

    @property
    def buffer(self) -> ClosedStream:
        """This object itself, so that using the binary buffer also raises ZooError."""
        return self

    def readline(self, *_: object) -> NoReturn:
        """Raise ZooError, because the stream is closed."""
        raise ZooError(f"standard {self._name} is closed", hint=self._remedy)

    read = write = __next__ = readline


def _reserve_descriptors() -> None:
    """Open the null device on each of the file descriptors 0, 1 and 2 that is closed.

    Otherwise, the next file that is opened would get one of these descriptors, and libraries would print to that file.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def is_typed(path: Path | None) -> bool:
    """Return whether the user types the input: `path` is None (no input file), and stdin is a terminal."""
    return path is None and sys.stdin.isatty()


@contextmanager
def open_lines(path: Path | None) -> Iterator[LineStream]:
    """Open a file, or stdin if `path` is None, and yield its lines.

    Raises:
        ZooError: The file cannot be opened, or a line that is read from the iterator is not valid UTF-8.
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
def open_output(path: Path | None, inputs: Iterable[Path | None]) -> Iterator[Callable[[str], None]]:
    """Open a file, or stdout if `path` is None, and yield a function that writes and flushes a line.

    A regular file is created only if the context ends without an error. After an error, the lines written so far are
    in `PATH.partial`, and a warning is printed.

    Args:
        path: The file to write.
        inputs: Files that are read at the same time. None means stdin.

    Raises:
        ZooError: The output file is also an input file.
    """
    from zoo.files.output import open_output, require_different_files
    from zoo.text.lines import descriptor_of

    target = descriptor_of(sys.stdout) if path is None else path
    sources = [descriptor_of(sys.stdin) if source is None else source for source in inputs]
    if target is not None:
        require_different_files(target, [source for source in sources if source is not None])
    if path is None:
        yield lambda line: print(line, flush=True)
        return
    with open_output(path, report()) as file:
        yield lambda line: print(line, file=file, flush=True)


def report(*, yes: bool = False) -> Report:
    """Return a report that shows progress bars if stderr is a terminal, and plain lines otherwise.

    Args:
        yes: Whether to answer all questions with yes, without asking.
    """
    ask = None if yes else confirm
    if sys.stderr.isatty() or _TERMINAL_VARIABLES & os.environ.keys():  # otherwise, rich is not imported
        from rich.console import Console

        from cli.progress_bars import BarReport

        console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        if console.is_terminal and not console.is_dumb_terminal:
            return BarReport(console, ask)
    return PlainReport(ask)


def confirm(question: str, otherwise: str, hint: str = "add `--yes` to skip the confirmation") -> bool:
    """Ask the user a yes-or-no question.

    Args:
        question: The question, without its choices.
        otherwise: Beginning of the error message if stdin is not a terminal, such as "nothing was removed".
        hint: Hint to print with this error, such as how to skip the question.

    Returns:
        Whether the answer is yes.

    Raises:
        ZooError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ZooError(f"{otherwise}, because stdin is not a terminal", hint=hint)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def show_json(value: object) -> None:
    """Print a value as one line of JSON. Escape characters that are unsafe in terminals or not valid in UTF-8."""
    text = json.dumps(value, ensure_ascii=False)
    is_safe = text == escape_control_characters(text) and not any("\ud800" <= char <= "\udfff" for char in text)
    print(text if is_safe else json.dumps(value))


def show_tables(*tables: Table) -> None:
    """Print tables to stdout, separated by empty lines, and their notes to stderr. Escape control characters."""
    for number, table in enumerate(tables):
        print("\n" * bool(number), end="")
        _show_table(table)
        for note in table.notes:
            report().info(note)


def _show_table(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    grid.show_header = any(column.rstrip(">…") for column in table.columns)
    for column in table.columns:
        justify, wraps = "right" if column.endswith(">") else "left", column.endswith("…")
        grid.add_column(column.rstrip(">…"), justify=justify, no_wrap=not wraps)  # type: ignore[arg-type]
    for row in table.rows:
        grid.add_row(*(Text(escape_control_characters(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _UNLIMITED_WIDTH
    console = Console(markup=False, emoji=False, highlight=False, width=width)
    with console.capture() as capture:
        if table.title:
            console.print(Text(table.title, "bold"))
        console.print(grid)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in capture.get().splitlines()))

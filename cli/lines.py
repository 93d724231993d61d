"""Lines in from a file or stdin, lines out to a file or stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from zoo.text.arriving import Arriving


def typed(path: Path | None) -> bool:
    """Whether a person types the lines."""
    return path is None and sys.stdin.isatty()


@contextmanager
def reading(path: Path | None) -> Iterator[Arriving]:
    """The lines of a file, or of stdin where there is no path.

    Raises ZooError where the file cannot be opened, and, with the line, for what is not UTF-8.
    """
    from specs import ZooError
    from zoo.text.arriving import Arriving

    if path is None:
        yield Arriving(sys.stdin.buffer, "<stdin>")
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from None
    with stream:
        yield Arriving(stream, str(path))


@contextmanager
def writing(
    path: Path | None, read: Iterable[Path | None] = (), *, at_once: bool = False
) -> Iterator[Callable[[str], None]]:
    """What writes a line to a file, as `zoo.files.output` does it, or to stdout; `at_once` holds no line back.

    Raises ZooError where it is one of the files that are read (None: stdin).
    """
    from zoo.files.output import open_output, require_different_files

    written = _number(sys.stdout) if path is None else path
    known = [_number(sys.stdin) if each is None else each for each in read]
    if written is not None:
        require_different_files(written, [each for each in known if each is not None])
    if path is None:
        yield lambda line: print(line, flush=at_once)
        return
    with open_output(path) as file:
        yield lambda line: print(line, file=file, flush=at_once)


def _number(stream: TextIO) -> int | None:
    """The descriptor of a standard stream, where it has one."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None

"""Lines in from a file or stdin, lines out to a file or stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def typed(path: Path | None) -> bool:
    """Whether a person types the lines."""
    return path is None and sys.stdin.isatty()


@contextmanager
def reading(path: Path | None) -> Iterator[Iterator[str]]:
    """The lines of a file, or of stdin where there is no path.

    Raises ZooError where the file cannot be opened, and, with the line, for what is not UTF-8.
    """
    from specs import ZooError
    from zoo.text.lines import decoded_lines

    if path is None:
        yield decoded_lines(sys.stdin.buffer, "<stdin>")
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from None
    with stream:
        yield decoded_lines(stream, str(path))


@contextmanager
def writing(path: Path | None, *, at_once: bool = False) -> Iterator[Callable[[str], None]]:
    """What writes a line to a file, which appears when all is done, or to stdout; `at_once` holds no line back."""
    from zoo.storage.files import writing as whole

    if path is None:
        yield lambda line: print(line, flush=at_once)
        return
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="\n") as file:
        yield lambda line: print(line, file=file)

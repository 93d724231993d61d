"""Text as lines: UTF-8, one sentence a line."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from specs import ZooError

# What ends lines somewhere, or is no text: C0 and C1 (tab, carriage return, next line ...), line and paragraph
# separators, byte order marks.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]+")


def without_control(text: str) -> str:
    """The text without control characters, which become spaces."""
    return _CONTROL.sub(" ", text)


def clean(line: str) -> str:
    """The line as all text is taken, whatever it is for: without control characters and white space around it."""
    return without_control(line).strip()


def read_lines(path: Path | str) -> list[str]:
    """The lines of a text file, without their ends. Raises ZooError if it cannot be read or is not UTF-8."""
    path = Path(path)
    try:
        with path.open("rb") as stream:
            return list(decoded_lines(stream, str(path)))
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from error


def decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    r"""Lines of bytes as text, for instance those of sys.stdin.buffer.

    Only \n ends a line (Unicode knows a dozen more, which stand inside sentences of real corpora); a \r
    before it goes, and so does a byte order mark at the start. Raises ZooError with the number of a line that
    is not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ZooError(
                f"byte {error.start + 1} of the line, {line[error.start]:#04x}, is not UTF-8",
                where=f"{name}:{number}",
                hint="convert the text first, for instance with `iconv -f latin1 -t utf-8`",
            ) from error
        if number == 1:
            text = text.removeprefix("\ufeff")
        yield text.removesuffix("\n").removesuffix("\r")

"""Functions that read UTF-8 text, one sentence per line, from text files, SGML files and streams such as stdin."""

from __future__ import annotations

import gzip
import html
import os
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from select import select
from typing import IO, Any, BinaryIO, Self, TypeVar

from specs import ZooError
from zoo.files.archive import open_gzip
from zoo.files.reading import open_file
from zoo.report import size

PAUSE_SECONDS = 0.02
"""Number of seconds without a new line after which a stream counts as paused. Programs usually write faster."""
MAX_LINE_BYTES = 4_000_000
"""Maximum length of a line in bytes: the maximum number of characters, times 4 bytes per character in UTF-8."""
MAX_CORPUS_LINE_BYTES = 1_000_000
"""Maximum length of a line in a corpus file, in bytes. Encoding a line takes fifty times as much memory as the line."""
_READ_BYTES = 1 << 16
_SEGMENT_START = re.compile(r"<seg[\s>]", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg(?:\s[^<>]*)?>((?:[^<]|<(?!/?seg[\s>]))*+)</seg\s*>", re.IGNORECASE)
# Control characters and line ends of any kind: C0 and C1 controls (tab, carriage return, next line), line and paragraph
# separators.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# Characters inside and around words that have no width: soft hyphen, word joiner and its old code, the byte order mark,
# marks for the writing direction and for annotations, and invisible operators.
INVISIBLE = re.compile("[\u00ad\u061c\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")

Item = TypeVar("Item")


def without_control(text: str) -> str:
    """Replace each run of control characters with a space, and drop invisible characters in and around words."""
    return _CONTROL.sub(" ", INVISIBLE.sub("", text))


def clean(line: str) -> str:
    """Apply `without_control` to a line, and strip white space at both ends. All input text is cleaned this way."""
    return without_control(line).strip()


def clean_with_positions(line: str) -> tuple[str, list[int]]:
    """Clean a line (see `clean`), and find the position of each remaining character in the original line.

    Returns:
        The cleaned line, and the original positions of its characters, followed by the end of the last character.
    """
    kept = [position for position, character in enumerate(line) if not INVISIBLE.match(character)]
    is_control = [_CONTROL.match(line[position]) is not None for position in kept]
    kept = [position for position, *run in zip(kept, is_control, [False, *is_control], strict=False) if not all(run)]
    replaced = without_control(line)
    cleaned = replaced.strip()
    start = len(replaced) - len(replaced.lstrip())
    positions = kept[start : start + len(cleaned)]
    return cleaned, [*positions, *(position + 1 for position in positions[-1:])]


def read_lines(path: Path | str) -> list[str]:
    """Return the lines of a text file, without the line endings.

    Raises:
        ZooError: The file cannot be read, is not UTF-8, or has a line longer than MAX_LINE_BYTES.
    """
    path = Path(path)
    with file_errors(path), path.open("rb") as stream:
        return list(decoded_lines(bounded_lines(stream, str(path), MAX_LINE_BYTES), str(path)))


def read_sentences(path: Path) -> Iterator[str]:
    """Yield the sentences in a file: its lines or, for SGML, its segments. `.gz` files are decompressed.

    Raises:
        ZooError: The file is missing, damaged, or implausibly large after decompression, or a line is not UTF-8 or
            longer than MAX_CORPUS_LINE_BYTES.
    """
    with file_errors(path), open_gzip(path) if path.suffix == ".gz" else path.open("rb") as stream:
        lines = decoded_lines(bounded_lines(stream, str(path), MAX_CORPUS_LINE_BYTES), str(path))
        yield from _segments(lines, path) if is_sgml(path) else lines


def is_sgml(path: Path) -> bool:
    """Return whether the name of a file has an SGML suffix, as in `test.sgm` or `test.sgm.gz`."""
    return path.name.removesuffix(".gz").lower().endswith((".sgm", ".sgml"))


def _segments(lines: Iterable[str], path: Path) -> Iterator[str]:
    """Yield the text of the `<seg>` elements of an SGML file, the format of WMT's test sets.

    Raises:
        ZooError: A segment does not end on the line where it begins.
    """
    for number, line in enumerate(lines, start=1):
        found = _SEGMENT.findall(line)
        if len(found) != len(_SEGMENT_START.findall(line)):
            hint = "write each segment on one line: `<seg ...> text </seg>`"
            raise ZooError("a `<seg>` has no `</seg>` on the same line", where=f"{path}:{number}", hint=hint)
        yield from (" ".join(html.unescape(text).split()) for text in found)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert read errors in a `with` block to ZooErrors whose messages contain the path of the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        hint = "download it again, or remove `.gz` from its name if it is not compressed; to check it, run `gzip -t`"
        raise ZooError(f"`{path}` is truncated or damaged: {error}", hint=hint) from error
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from error


def count_lines(path: Path) -> int:
    """Count the lines in a text file without decoding them.

    Raises:
        ZooError: The file cannot be read.
    """
    with open_file(path) as stream:
        return sum(1 for _ in stream)


def bounded_lines(stream: IO[bytes], name: str, max_bytes: int) -> Iterator[bytes]:
    """Yield the lines of a stream. To limit memory use, raise an error if a line is too long.

    Args:
        stream: Binary stream to read.
        name: Name of the stream in error messages.
        max_bytes: Maximum length of a line, in bytes.

    Raises:
        ZooError: A line is too long. The error contains the line number.
    """
    number = 0
    while line := stream.readline(max_bytes + 1):
        number += 1
        if len(line) > max_bytes:
            raise _line_too_long(max_bytes, name, number)
        yield line


def _line_too_long(max_bytes: int, name: str, number: int) -> ZooError:
    problem = f"a line is longer than the limit of {size(max_bytes)}"
    return ZooError(problem, where=f"{name}:{number}", hint="write one sentence per line: split or delete this line")


def decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    r"""Decode lines of bytes, such as sys.stdin.buffer, and yield them without line endings.

    Only \n ends a line, because Unicode's other line separators occur inside sentences in real corpora. A \r before the
    \n and a byte order mark at the start are removed.

    Args:
        stream: Lines of bytes.
        name: Name of the stream in error messages.

    Raises:
        ZooError: A line is not UTF-8. The error contains the line number.
    """
    beginning, has_utf8 = b"", False
    for number, line in enumerate(stream, start=1):
        beginning = beginning or line[:8]
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"byte {error.start + 1} of the line, {line[error.start]:#04x}, is not UTF-8"
            hint = _MIXED if has_utf8 else _encoding_hint(beginning, line)
            raise ZooError(problem, hint=hint, where=f"{name}:{number}") from error
        has_utf8 = has_utf8 or not line.isascii()
        if number == 1:
            text = text.removeprefix("\ufeff")
            if text.count("\0") > len(text) // _MIN_CHARACTERS_PER_NUL:
                problem = "the line contains NUL characters, as text in UTF-16 does"
                raise ZooError(problem, where=f"{name}:{number}", hint="convert the text: `iconv -f utf-16le -t utf-8`")
        yield text.removesuffix("\n").removesuffix("\r")


_CONVERT = "convert the text first, for instance with `iconv -f {} -t utf-8`"
_MIXED = "correct this line, or remove all non-UTF-8 bytes with `iconv -c -f utf-8 -t utf-8` (earlier lines are UTF-8)"
_MIN_CHARACTERS_PER_NUL = 4  # in UTF-16, about every second character of Western text is NUL
_NEEDS_RECOGNITION = (
    "it is audio or an image: use a model with the `recognition` task. In a corpus, write a list of file names"
)
_OTHER_FILES = {
    b"PK": "it is an Office document or a ZIP archive: save its text as plain text in UTF-8",
    b"%PDF": "it is a PDF document: save its text as plain text in UTF-8",
    bytes.fromhex("d0cf11e0"): "it is an Office document: save its text as plain text in UTF-8",
    bytes.fromhex("1f8b"): "it is compressed: write `zcat FILE | zoo ...`; in a corpus, its name must end in `.gz`",
    # WAV, FLAC, OGG, MP3 with and without tags, PNG and JPEG
    **dict.fromkeys((b"RIFF", b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\x89PNG", b"\xff\xd8\xff"), _NEEDS_RECOGNITION),
    **dict.fromkeys((b"\xff\xfe", b"\xfe\xff"), "convert the text: `iconv -f utf-16 -t utf-8`"),
}
"""Hints for files that are not plain text, by the first bytes of the file."""


def _encoding_hint(beginning: bytes, line: bytes) -> str:
    # In Latin-1, these bytes are control characters. In Windows-1252, they are quotation marks, dashes and the euro.
    is_utf16 = line.count(0) > len(line) // _MIN_CHARACTERS_PER_NUL
    encoding = "utf-16le" if is_utf16 else "cp1252" if any(0x80 <= byte <= 0x9F for byte in line) else "latin1"
    hints = (hint for start, hint in _OTHER_FILES.items() if beginning.startswith(start))
    return next(hints, _CONVERT.format(encoding))


class LineStream:
    """Iterator over the lines of a stream. `paused` returns whether the next line has not arrived yet.

    No other code may read the stream at the same time.

    Raises:
        ZooError: A line is not UTF-8 (see `decoded_lines`), or is longer than MAX_LINE_BYTES.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        """Read from a binary stream. `name` is the name of the stream in error messages."""
        self._stream, self._descriptor = stream, descriptor_of(stream)  # garbage collection would close the stream
        self._complete: deque[bytes] = deque()
        self._partial, self._partial_bytes = list[bytes](), 0
        self._name, self._number = name, 0  # number of complete lines that have been received
        self._ended = False
        lines = bounded_lines(stream, name, MAX_LINE_BYTES) if self._descriptor is None else self._received()
        self._lines = decoded_lines(lines, name)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return next(self._lines)

    def paused(self) -> bool:
        """Return whether the next line has not arrived yet, even after a wait of PAUSE_SECONDS.

        Return False at the end of the stream. A stream without a file descriptor, such as BytesIO, never pauses.
        """
        while self._descriptor is not None and not (self._complete or self._ended):
            if not select([self._descriptor], [], [], PAUSE_SECONDS)[0]:
                return True
            self._receive(self._descriptor)
        return False

    def _received(self) -> Iterator[bytes]:
        assert self._descriptor is not None
        while True:
            while self._complete:
                yield self._complete.popleft()
            if self._ended:
                return
            self._receive(self._descriptor)

    def _receive(self, descriptor: int) -> None:
        if self._partial_bytes > MAX_LINE_BYTES:
            raise _line_too_long(MAX_LINE_BYTES, self._name, self._number + 1)
        select([descriptor], [], [])  # blocks even if the descriptor was opened in non-blocking mode
        first, *others = os.read(descriptor, _READ_BYTES).split(b"\n")
        self._partial.append(first)
        self._partial_bytes += len(first)
        self._ended = not first and not others
        for other in others:
            self._complete.append(b"".join(self._partial) + b"\n")
            self._partial, self._partial_bytes = [other], len(other)
        self._number += len(others)
        if self._ended and (last := b"".join(self._partial)):
            self._complete.append(last)


def available_chunks(
    items: Iterator[Item], max_items: int, paused: Callable[[], bool], first_items: int | None = None
) -> Iterator[tuple[list[Item], bool]]:
    """Group items into chunks. Yield each chunk, and whether it ended because of a pause in the input.

    A chunk ends at its maximum size, or if the next item has not arrived yet (a pause). If `items` raises an error, the
    items before the error are yielded first.

    Args:
        items: Items, for instance a `LineStream`.
        max_items: Maximum number of items per chunk.
        paused: Function that returns whether the next item has not arrived yet.
        first_items: Maximum number of items in the first chunk, and in the first chunk after a pause. The maximum then
            doubles with each chunk. If None, the maximum is always `max_items`.
    """
    smallest = min(max_items, first_items or max_items)
    size, is_paused, error = smallest, False, None
    while error is None:
        chunk: list[Item] = []
        try:
            for item in islice(items, size):
                chunk.append(item)
                if is_paused := paused():
                    break
        except Exception as raised:
            error = raised
        if chunk:
            yield chunk, is_paused
        elif error is None:
            return
        size = smallest if is_paused else min(2 * size, max_items)
    raise error


def never_paused() -> bool:
    """Return False. Pass this function as `paused` for input that is always available, such as a file."""
    return False


def descriptor_of(stream: IO[Any]) -> int | None:
    """Return the stream's file descriptor, or None for a stream without a descriptor, such as BytesIO."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None

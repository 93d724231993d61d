"""Functions that read corpus files (plain text or SGML, compressed or not) and compute their hashes."""

from __future__ import annotations

import gzip
import html
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from specs import ZooError
from zoo.files.archive import open_gzip
from zoo.files.manifest import sha256
from zoo.report import size
from zoo.text.lines import bounded_lines, decoded_lines

MAX_LINE_BYTES = 1_000_000
"""Maximum length of a line in a corpus file, in bytes. Encoding a line takes fifty times as much memory."""
_MAX_TAG_LENGTH = 4_096
# A tag cannot contain "<", so that the search does not scan the text repeatedly if a tag is never closed.
_SEGMENT_TAG = re.compile(r"<(/?)seg(?:\s[^<>]*)?>", re.IGNORECASE)
_INCOMPLETE_TAG = re.compile(r"</?seg(?:\s[^<>]*)?$", re.IGNORECASE)


def read_sentences(path: Path) -> Iterator[str]:
    """Yield the sentences of a file: its lines or, for SGML, its segments. `.gz` files are decompressed.

    Raises:
        ZooError: The file is missing, damaged, or implausibly large after decompression, or a line is not UTF-8 or
            longer than MAX_LINE_BYTES.
    """
    with file_errors(path), open_gzip(path) if path.suffix == ".gz" else path.open("rb") as stream:
        lines = decoded_lines(bounded_lines(stream, str(path), MAX_LINE_BYTES), str(path))
        yield from _segments(lines, path) if is_sgml(path) else lines


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Convert errors that occur while a file is read into ZooErrors that name the file."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        hint = "download the file again; `gzip -t` checks whether it is complete"
        raise ZooError(f"`{path}` is truncated or damaged: {error}", hint=hint) from error
    except OSError as error:
        raise ZooError(f"`{path}` cannot be read: {error.strerror or error}") from error


def is_sgml(path: Path) -> bool:
    """Return whether a file has the name of an SGML file, such as `test.sgm` or `test.sgm.gz`."""
    return path.name.removesuffix(".gz").lower().endswith((".sgm", ".sgml"))


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        ZooError: The file cannot be read, or parts of its content are missing.
    """
    with file_errors(path):
        _check_complete(path)
        return sha256(path)


def _check_complete(path: Path) -> None:
    """Raise ZooError if a file has a hole (a range without content, see lseek), as after an interrupted copy."""
    with path.open("rb") as file:
        descriptor, end = file.fileno(), path.stat().st_size
        hole = os.lseek(descriptor, 0, os.SEEK_HOLE) if end and hasattr(os, "SEEK_HOLE") else end
        if hole < end and os.pread(descriptor, 1, hole) == b"\0":  # some file systems report holes where there is text
            problem = f"`{path}` is incomplete: the file has no content from byte {hole:,} of {end:,} on"
            raise ZooError(problem, hint="copy or download the file again: the copy was interrupted")


def _segments(lines: Iterable[str], path: Path) -> Iterator[str]:
    """Yield the text of the `<seg>` elements of an SGML file, the format of WMT's test sets.

    Raises:
        ZooError: A segment is not closed within MAX_LINE_BYTES characters.
    """
    segment: list[str] | None = None  # text of the open segment
    first_line = length = 0
    for number, part in _split_at_tags(lines):
        tag = _SEGMENT_TAG.fullmatch(part)
        if tag and not tag[1]:
            if segment is not None:
                raise _unclosed_segment(path, first_line, "before the next one")
            segment, first_line, length = [], number, 0
        elif segment is not None and tag:
            yield " ".join(html.unescape("".join(segment)).split())
            segment = None
        elif segment is not None:
            segment.append(part)
            length += len(part)
            if length > MAX_LINE_BYTES:
                raise _unclosed_segment(path, first_line, f"within {size(MAX_LINE_BYTES)}")
    if segment is not None:
        raise _unclosed_segment(path, first_line, "before the end of the file")


def _split_at_tags(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the segment tags and the text between them, with line numbers. A tag may continue on the next line."""
    incomplete = ""
    for number, line in enumerate(lines, start=1):
        text, end = f"{incomplete}{line}\n", 0
        for tag in _SEGMENT_TAG.finditer(text):
            yield number, text[end : tag.start()]
            yield number, tag[0]
            end = tag.end()
        last = max(text.rfind("<", end), end)
        continues = len(text) - last <= _MAX_TAG_LENGTH and _INCOMPLETE_TAG.match(text, last)
        incomplete = text[last:] if continues else ""
        yield number, text[end : len(text) - len(incomplete)]


def _unclosed_segment(path: Path, line: int, where: str) -> ZooError:
    hint = "fix the file: each segment is `<seg ...> text </seg>`"
    return ZooError(f"a `<seg>` has no `</seg>` {where}", where=f"{path}:{line}", hint=hint)

"""Functions that read corpus files: plain text or SGML, compressed or not."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from specs import ZooError
from zoo.files.archive import open_gzip
from zoo.text.lines import bounded_lines, decoded_lines, file_errors

MAX_LINE_BYTES = 1_000_000
"""Maximum length of a line in a corpus file, in bytes. Encoding a line takes fifty times as much memory as the line."""
_SEGMENT_START = re.compile(r"<seg[\s>]", re.IGNORECASE)
_SEGMENT = re.compile(r"<seg(?:\s[^<>]*)?>((?:[^<]|<(?!/?seg[\s>]))*+)</seg\s*>", re.IGNORECASE)


def read_sentences(path: Path) -> Iterator[str]:
    """Yield the sentences of a file: its lines or, for SGML, its segments. `.gz` files are decompressed.

    Raises:
        ZooError: The file is missing, damaged, or implausibly large after decompression, or a line is not UTF-8 or
            longer than MAX_LINE_BYTES.
    """
    with file_errors(path), open_gzip(path) if path.suffix == ".gz" else path.open("rb") as stream:
        lines = decoded_lines(bounded_lines(stream, str(path), MAX_LINE_BYTES), str(path))
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

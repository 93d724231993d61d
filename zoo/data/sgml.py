"""The segments of SGML in the way of WMT's test sets, each on a line of its own."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from specs import ZooError
from zoo.report import size

# No tag has another in it, so that one which is never closed is looked at once.
_TAG = re.compile(r"<(/?)seg(?:\s[^<>]*)?>", re.IGNORECASE)
_BEGUN = re.compile(r"</?seg(?:\s[^<>]*)?$", re.IGNORECASE)
_LONGEST_TAG = 4_096


def is_sgml(path: Path) -> bool:
    """By its name; whether it is compressed does not matter to what is in it."""
    return path.name.removesuffix(".gz").lower().endswith((".sgm", ".sgml"))


def segments(lines: Iterable[str], path: Path, longest: int) -> Iterator[str]:
    """The segments, as they are read. Raises ZooError for one that is not closed within `longest` characters."""
    inside: list[str] | None = None  # the text of the open segment
    begun = length = 0
    for number, word in _words(lines):
        tag = _TAG.fullmatch(word)
        if tag and not tag[1]:
            if inside is not None:
                raise _unclosed(path, begun, "before the next one")
            inside, begun, length = [], number, 0
        elif inside is not None and tag:
            yield " ".join(html.unescape("".join(inside)).split())
            inside = None
        elif inside is not None:
            inside.append(word)
            length += len(word)
            if length > longest:
                raise _unclosed(path, begun, f"in {size(longest)}")
    if inside is not None:
        raise _unclosed(path, begun, "to the end")


def _words(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Tags of segments, and what lies between them, each with the number of its line. A tag may go on in the next."""
    held = ""
    for number, line in enumerate(lines, start=1):
        text, done = f"{held}{line}\n", 0
        for tag in _TAG.finditer(text):
            yield number, text[done : tag.start()]
            yield number, tag[0]
            done = tag.end()
        last = max(text.rfind("<", done), done)
        held = text[last:] if len(text) - last <= _LONGEST_TAG and _BEGUN.match(text, last) else ""
        yield number, text[done : len(text) - len(held)]


def _unclosed(path: Path, line: int, how: str) -> ZooError:
    hint = "mend the file: each segment is `<seg ...> text </seg>`"
    return ZooError(f"a `<seg>` has no `</seg>` {how}", where=f"{path}:{line}", hint=hint)

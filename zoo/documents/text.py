"""Plain text (.txt). Each line is a segment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zoo.documents.fragments import Fragment, Kind, Syntax, View

_LINE_BREAK = re.compile(r"[\r\n]+")


def _parse(text: str) -> list[Fragment]:
    """Return the fragments of plain text. Each line is a segment."""
    return list(_split(text, _LINE_BREAK))


def _text(raw: str) -> Fragment:
    return Fragment(Kind.TEXT, raw, raw)


def _split(text: str, boundary: re.Pattern[str]) -> Iterator[Fragment]:
    end = 0
    for match in boundary.finditer(text):
        yield _text(text[end : match.start()])
        yield Fragment(Kind.BREAK, match[0])
        end = match.end()
    yield _text(text[end:])


FORMAT = (View(_parse, Syntax(str)),)

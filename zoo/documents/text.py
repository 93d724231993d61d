"""Plain text (.txt). Lines, and parts of a line between tabs or runs of spaces, are segments."""

from __future__ import annotations

import re

from zoo.documents.fragments import Fragment, Kind, Syntax, View

_GAP = re.compile(r"([\r\n\v\f\x85\u2028\u2029]+|\t+|[ \u00a0]{2,})")


def _parse(text: str) -> list[Fragment]:
    kinds = Kind.TEXT, Kind.BREAK
    parts = enumerate(_GAP.split(text))
    return [Fragment(kinds[index % 2], part, "" if index % 2 else part) for index, part in parts]


FORMAT = (View(_parse, Syntax(str)),)

"""Tags of HTML and XML, and their attributes. Each character is read once, even in malformed tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from zoo.documents.fragments import unescape

_VALUE = r"""(?:"[^"]*+"|'[^']*+'|[^\s>]*+)"""
_NAME = r"[a-zA-Z][^\s/>]*+"
TAG = re.compile(rf"<(/?)({_NAME})(?:[\s/=]++|[^\s/>=]++(?:\s*+=\s*+{_VALUE})?+)*+>")
"""Tag with its attributes. A quotation mark without a partner is part of a value."""
TAG_START = re.compile(f"</?{_NAME}")
_ATTRIBUTE = re.compile(rf"[\s/=]++|([^\s/>=]++)(?:\s*+=\s*+({_VALUE}))?+")
_MAYBE_ID = re.compile(r"(?:id|name)\s*+=", re.IGNORECASE)


class Attribute(NamedTuple):
    """Attribute of a tag.

    Attributes:
        name: The name in lower case.
        value: The value without entities.
        quote: The quotation mark around the value, or "".
        start: Position of the name in the tag.
        value_start: Position of the value, without quotation mark.
        value_end: Position after the value.
    """

    name: str
    value: str
    quote: str
    start: int
    value_start: int
    value_end: int


def attributes(tag: str) -> Iterator[Attribute]:
    """Yield the attributes of a start tag."""
    start = TAG_START.match(tag)
    for match in _ATTRIBUTE.finditer(tag, start.end() if start else 0, len(tag) - 1):
        if match[1]:
            value = match[2] or ""
            is_quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
            quote = value[0] if is_quoted else ""
            first, last = (match.end() - len(value) + is_quoted, match.end() - is_quoted)
            yield Attribute(match[1].lower(), unescape(tag[first:last]), quote, match.start(), first, last)


def values(tag: str) -> dict[str, str]:
    """Return the values of a start tag's attributes. If several have the same name, the first is used."""
    return {each.name: each.value for each in reversed(list(attributes(tag)))}


def without_id(tag: str, name: str) -> str | None:
    """Return a start tag without the attributes that identify its element. None if it has no such attribute."""
    if not _MAYBE_ID.search(tag):
        return None
    identity = ("id", "xml:id", *(("name",) if name == "a" else ()))
    kept, position = "", 0
    for each in attributes(tag):
        if each.name in identity:
            position, before = each.value_end + len(each.quote), tag[position : each.start].rstrip()
            kept += before + " " * (tag[position] not in " \t\r\n\f/>")
    return kept + tag[position:] if position else None

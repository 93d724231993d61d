"""Tags of HTML and XML, and their attributes. Each character is read once, even in malformed tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from xml.sax.saxutils import escape

from zoo.documents.fragments import Fragment, Kind, Syntax, View, unescape

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


def attribute_view(
    find_tags: Callable[[str], Iterable[tuple[int, str, str]]], is_text: Callable[[str, str, Attribute], bool]
) -> View:
    """Return a view of the attributes that readers see. Translated ones are written in double quotation marks.

    Args:
        find_tags: Function that returns the position, the name and the spelling of the start tags of a file.
        is_text: Function that returns whether to translate an attribute, from the name and the spelling of its tag.
    """

    def parse(text: str) -> list[Fragment]:
        found, position = list[Fragment](), 0
        for start, name, tag in find_tags(text):
            for each in attributes(tag):
                if is_text(name, tag, each):
                    value, mark = tag[each.value_start : each.value_end], Fragment(Kind.BREAK, each.quote, output='"')
                    output = None if each.quote == '"' else _escape(each.value)
                    before = text[position : start + each.value_start - len(each.quote)]
                    found += [
                        Fragment(Kind.BREAK, before),
                        mark,
                        Fragment(Kind.TEXT, value, each.value, output=output),
                        mark,
                    ]
                    position = start + each.value_end + len(each.quote)
        return [*found, Fragment(Kind.BREAK, text[position:])]

    return View(parse, Syntax(_escape))


def _escape(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def pattern_view(pattern: re.Pattern[str]) -> View:
    """Return a view of the parts of XML that a pattern finds: its group `text`, or its groups for language codes."""

    def parse(text: str) -> list[Fragment]:
        found, position = list[Fragment](), 0
        for match in pattern.finditer(text):
            group = match.lastgroup
            if group is None or (group == "text" and "<" in unescape(match[group])):  # descriptions may have markup
                continue
            raw = match[group]
            found.append(Fragment(Kind.BREAK, text[position : match.start(group)]))
            found.append(Fragment(Kind.TEXT, raw, unescape(raw)) if group == "text" else Fragment(Kind.LANGUAGE, raw))
            position = match.end(group)
        return [*found, Fragment(Kind.BREAK, text[position:])]

    return View(parse, Syntax(escape))


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

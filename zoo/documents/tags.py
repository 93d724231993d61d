"""Start tags of HTML and XML, their attributes, and template code.

Each character of a tag is read once, even in malformed tags. Template code is copied. It separates segments, or becomes
a placeholder in a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from html.entities import html5
from typing import NamedTuple
from xml.sax.saxutils import escape

from zoo.documents.fragments import Fragment, Kind, View, add_boundaries, unescape
from zoo.documents.segments import PLACEHOLDER

CODE = (
    r"(?s:\{\{(?:(?!\{\{|\}\}|</?[a-zA-Z]).)*+\}\}\}?+|\{%(?:(?!\{%|%\}|</?[a-zA-Z]).)*+%\}"
    r"|\{#(?:(?!\{#|#\}|</(?:p|h[1-6]|li|td|th|div|code|pre|kbd|samp|body)\b).)*+#\}|<%(?:(?!<%|%>).)*+%>|<\?(?:php|=)(?:(?!<\?|\?>).)*+\?>)"
)
"""Template code in HTML, as in Jinja, Handlebars, ERB and PHP."""
_SEPARATOR = r"(?<=</a>)(?:\s|&nbsp;)*+[|·•](?:\s|&nbsp;)*+\Z"
HTML_CODE = re.compile(
    rf"(?P<alone>^[ \t]*+(?:{CODE}[ \t]*+)++(?=\r?\n))|(?P<between>{_SEPARATOR})|{CODE}", re.MULTILINE
)
"""Template code, or a separator between two links. Code in a line of its own is in the group `alone`."""
XML_CODE = re.compile(r"&[a-zA-Z_][\w.-]*+;")
"""Entity. If HTML does not define it, the document does."""
_DIVIDING = re.compile(r"\{[%#]|\{\{\{?\s*(?:[#/^!]|else\b)|<%(?![=-])|<\?php\s+(?:\}|else|end)|(?s:<\?.*[:{]\s*\?>)")
"""Template code that divides text, such as a condition or a comment."""
_VARIABLE = re.compile(r'\{\{(?!\s*(?:[#/^!]|else\b))[^{}<>&"]*+\}\}')
"""Template code that stays in the text, because the translator keeps such placeholders."""

_CHARACTERS = r"(?:(?!\{[{%#]|<[%?])[^\s/>=])++"
_VALUE = rf"""(?:"(?:[^"{{<]++|{CODE}|[{{<])*+"|'(?:[^'{{<]++|{CODE}|[{{<])*+'|(?:[^\s>{{<]++|{CODE}|[{{<])*+)"""
_NAME = rf"[a-zA-Z](?:{_CHARACTERS}|=)*+"
TAG = re.compile(rf"<(/?)({_NAME})(?:[\s/=]++|{CODE}|{_CHARACTERS}(?:\s*+=\s*+{_VALUE})?+|[{{<])*+>")
"""Tag with its attributes. An unpaired quotation mark is part of a value."""
TAG_START = re.compile(f"</?{_NAME}")
_ATTRIBUTE = re.compile(rf"[\s/=]++|{CODE}|({_CHARACTERS})(?:\s*+=\s*+({_VALUE}))?+")
_escape = partial(escape, entities={'"': "&quot;"})
_MAYBE_ID = re.compile(r"(?:id|name)\s*+=", re.IGNORECASE)


class Attribute(NamedTuple):
    """Attribute of a tag.

    Attributes:
        name: The name in lower case.
        value: The value, with entities decoded.
        quote: The quotation mark around the value, or "".
        start: Position of the name in the tag.
        value_start: Position of the value, after the opening quotation mark if there is one.
        value_end: Position after the last character of the value.
    """

    name: str
    value: str
    quote: str
    start: int
    value_start: int
    value_end: int


class StartTag(NamedTuple):
    """Start tag of an element, or the tag of an empty element.

    Attributes:
        start: Position of the tag in its file.
        name: Name of the element, as normalised by the parser, for instance in lower case.
        raw: The tag as it is written in the file.
    """

    start: int
    name: str
    raw: str

    def attributes(self) -> Iterator[Attribute]:
        """Yield the attributes. Their positions are relative to the start of the tag."""
        name = TAG_START.match(self.raw)
        for match in _ATTRIBUTE.finditer(self.raw, name.end() if name else 0, len(self.raw) - 1):
            if match[1]:
                value = match[2] or ""
                is_quoted = len(value) > 1 and value[0] in "\"'" and value[0] == value[-1]
                quote = value[0] if is_quoted else ""
                start, end = match.end() - len(value) + is_quoted, match.end() - is_quoted
                yield Attribute(match[1].lower(), unescape(self.raw[start:end]), quote, match.start(), start, end)

    def values(self) -> dict[str, str]:
        """Return the values of the attributes, keyed by name. If a name occurs twice, return the first value."""
        return {each.name: each.value for each in reversed(list(self.attributes()))}

    def without_id(self) -> str | None:
        """Return the tag without the attributes that identify its element, or None if it has no such attributes."""
        if not _MAYBE_ID.search(self.raw):
            return None
        identity = ("id", "xml:id", *(("name",) if self.name == "a" else ()))
        kept, position = "", 0
        for each in self.attributes():
            if each.name in identity:
                position, before = each.value_end + len(each.quote), self.raw[position : each.start].rstrip()
                kept += before + " " * (self.raw[position] not in " \t\r\n\f/>")
        return kept + self.raw[position:] if position else None


def xml_tag(names: str) -> str:
    """Return a regular expression for XML start tags, with any prefix. `names` are element names, separated by `|`."""
    return rf"""<(?:[\w.-]++:)?(?:{names})(?:\s(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+)?+>"""


def local_attributes(raw: str) -> dict[str, str]:
    """Return the attributes of the tag that begins `raw`, keyed by lower-case names without namespace prefixes."""
    tag = TAG.match(raw)
    found = StartTag(0, tag[2], tag[0]).attributes() if tag else ()
    return {each.name.rpartition(":")[2]: each.value for each in found}


def attribute_view(
    find_tags: Callable[[str], Iterable[StartTag]], is_text: Callable[[StartTag, Attribute], bool]
) -> View:
    """Return a view of the attributes to translate, such as `alt`. Translations are written in double quotation marks.

    Args:
        find_tags: Function that returns the start tags in a file.
        is_text: Function that returns whether to translate an attribute of a tag.
    """

    def find(text: str) -> Iterator[tuple[int, Fragment]]:
        for tag in find_tags(text):
            for each in tag.attributes():
                # Between other quotation marks, the code may contain `"`.
                if is_text(tag, each) and (each.quote == '"' or has_only_variables(each.value)):
                    mark = Fragment(Kind.BREAK, each.quote, output='"')
                    yield tag.start + each.value_start - len(each.quote), mark
                    for position, part in split_code(HTML_CODE, tag.raw, each.value_start, each.value_end):
                        part = part if each.quote == '"' else replace(part, output=_escape(part.text))
                        yield tag.start + position, part
                    yield tag.start + each.value_end, mark

    return View(lambda text: add_boundaries(text, find(text)), _escape)


def has_only_variables(text: str) -> bool:
    """Return whether the template code in a text consists only of variables, which stay in the text."""
    return all(_VARIABLE.fullmatch(code[0]) for code in HTML_CODE.finditer(text))


def split_code(pattern: re.Pattern[str], text: str, start: int, end: int) -> Iterator[tuple[int, Fragment]]:
    """Split `text[start:end]` into text and template code. Yield the position and the fragment of each part.

    Code on a line of its own, and code such as `{% if %}`, becomes a BREAK fragment. Other code becomes a UNIT.
    """
    for code in pattern.finditer(text, start, end):
        is_last = code.lastgroup == "between" and not text.startswith("<a", code.end())  # no link follows
        if is_last or code[0][1:] in html5 or _VARIABLE.fullmatch(code[0].strip()):
            continue
        if start < code.start():
            yield start, Fragment(Kind.TEXT, text[start : code.start()], unescape(text[start : code.start()]))
        continues = text[max(start, code.start() - 50) : code.start()].rstrip()[-1:].isalnum()
        is_alone = code.lastgroup == "between" or (code.lastgroup and not continues)
        kind = Kind.BREAK if is_alone or _DIVIDING.match(code[0].lstrip()) else Kind.UNIT
        yield code.start(), Fragment(kind, code[0], PLACEHOLDER if kind is Kind.UNIT else "")
        start = code.end()
    if start < end:
        yield start, Fragment(Kind.TEXT, text[start:end], unescape(text[start:end]))

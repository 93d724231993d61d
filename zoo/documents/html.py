"""HTML: its tags, texts and comments as fragments. Malformed HTML is read as far as possible, and nothing is lost."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

from zoo.documents.markup import Fragment, Kind, Syntax

SYNTAX = Syntax(lambda text: html.escape(text, quote=False))
_INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins"),
        *("label", "mark", "q", "s", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u"),
    )
)
_COPIED = frozenset(("canvas", "code", "kbd", "math", "samp", "svg", "var"))
"""Inline elements that are copied with their content."""
_COPIED_BLOCKS = frozenset(("iframe", "noscript", "pre", "script", "style", "template", "textarea", "xmp"))
_VOID_INLINE = frozenset(("img", "input", "wbr"))
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "link", "meta", "param", "source", "track", *_VOID_INLINE)
)
_Attributes = Sequence[tuple[str, str | None]]


def parse(text: str) -> list[Fragment]:
    """Return the fragments of an HTML document or fragment."""
    parser = _Parser(text)
    parser.feed(text)
    parser.close()
    return parser.fragments(text)


@dataclass(frozen=True)
class XmlTags:
    """Roles of the elements of XML. The names are in lower case.

    Attributes:
        splitting: Names of elements that are segments of their own.
        non_splitting: Names of elements that are part of the sentence around them.
        copied: Names of elements that are copied with their content.
        outline: Whether an element is also a segment if its parent is a segment that contains only elements.
    """

    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    outline: bool = True


def parse_xml(text: str, tags: XmlTags = XmlTags()) -> list[Fragment]:
    """Return the fragments of an XML text."""
    parser = _XmlParser(text, tags)
    parser.feed(text)
    parser.close()
    return parser.fragments(text)


class _Parser(HTMLParser):
    """Parser that records where each fragment starts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._line_starts = [0]
        for line in text.split("\n"):
            self._line_starts.append(self._line_starts[-1] + len(line) + 1)
        self._found: list[tuple[int, Kind, str]] = []
        self._copied: list[str] = []
        """Names of the open elements that are copied, from the outermost one on."""
        self._copied_kind = Kind.BREAK

    def fragments(self, text: str) -> list[Fragment]:
        """Return the fragments. Adjacent texts are one fragment, also if the parser found entities between them."""
        result: list[Fragment] = []
        for (start, kind, name), (end, *_) in pairwise(
            [(0, Kind.BREAK, ""), *self._found, (len(text), Kind.BREAK, "")]
        ):
            raw = text[start:end]
            previous = result[-1] if result else None
            if previous and previous.kind is kind and (kind is Kind.TEXT or name == previous.name == "copied"):
                result[-1] = Fragment(kind, previous.raw + raw, name=name)
            else:
                result.append(Fragment(kind, raw, name=name))
        return [
            Fragment(Kind.TEXT, each.raw, html.unescape(each.raw)) if each.kind is Kind.TEXT else each
            for each in result
        ]

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        if self._copied:
            if tag == self._copied[0]:
                self._copied.append(tag)
            return self._add(self._copied_kind, "copied")
        values = dict(attrs)
        untranslated = values.get("translate") == "no" or "notranslate" in (values.get("class") or "").split()
        if tag in _VOID:
            return self._add(Kind.UNIT if tag in _VOID_INLINE else Kind.BREAK)
        if untranslated or tag in _COPIED or tag in _COPIED_BLOCKS:
            self._copied = [tag]
            self._copied_kind = Kind.UNIT if tag in _INLINE | _COPIED else Kind.BREAK
            return self._add(self._copied_kind, "copied")
        return self._add(Kind.OPEN if tag in _INLINE else Kind.BREAK, tag)

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        if self._copied:
            return self._add(self._copied_kind, "copied")
        return self._add(Kind.UNIT if tag in _INLINE | _COPIED | _VOID_INLINE else Kind.BREAK)

    def handle_endtag(self, tag: str) -> None:
        if self._copied:
            if tag == self._copied[0]:
                self._copied.pop()
            return self._add(self._copied_kind, "copied")
        return self._add(Kind.CLOSE if tag in _INLINE else Kind.BREAK, tag)

    def handle_data(self, data: str) -> None:
        self._add_text()

    def handle_entityref(self, name: str) -> None:
        self._add_text()

    def handle_charref(self, name: str) -> None:
        self._add_text()

    def handle_comment(self, data: str) -> None:
        self._add(self._copied_kind if self._copied else Kind.UNIT, "copied" if self._copied else "")

    def handle_decl(self, decl: str) -> None:
        self._add(Kind.BREAK)

    def handle_pi(self, data: str) -> None:
        self._add(Kind.BREAK)

    def unknown_decl(self, data: str) -> None:
        self._add(Kind.BREAK)

    def _add_text(self) -> None:
        self._add(self._copied_kind if self._copied else Kind.TEXT, "copied" if self._copied else "")

    def _add(self, kind: Kind, name: str = "") -> None:
        line, column = self.getpos()
        self._found.append((self._line_starts[line - 1] + column, kind, name))


@dataclass
class _XmlElement:
    """Element of XML, or the root that all elements are in.

    Attributes:
        name: Name in lower case.
        parent: The element around it. None for the root.
        tags: Indices of its tags among the fragments that the parser found.
        has_text: Whether it has text outside of the elements in it.
        splits: Whether it is a segment of its own.
    """

    name: str
    parent: _XmlElement | None
    tags: list[int] = field(default_factory=list)
    has_text: bool = False
    splits: bool = False


class _XmlParser(_Parser):
    def __init__(self, text: str, tags: XmlTags) -> None:
        super().__init__(text)
        self._tags = tags
        self._current = _XmlElement("", None, splits=True)
        self._elements: list[_XmlElement] = []
        self._open = Counter[str]()
        """Number of open elements with each name."""

    def fragments(self, text: str) -> list[Fragment]:
        """Return the fragments. The tags of the elements that split are boundaries."""
        for element in self._elements:  # a parent precedes the elements in it
            parent = element.parent
            in_outline = self._tags.outline and parent is not None and parent.splits and not parent.has_text
            element.splits = element.name in self._tags.splitting or (
                in_outline and element.name not in self._tags.non_splitting
            )
            for index in element.tags if element.splits else ():
                start, _, name = self._found[index]
                self._found[index] = (start, Kind.BREAK, name)
        return super().fragments(text)

    def set_cdata_mode(self, elem: str, **_: object) -> None:
        """Do nothing, because no element of XML has raw text."""

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        if self._copied:
            return super().handle_starttag(tag, attrs)
        if tag in self._tags.copied:
            self._copied, self._copied_kind = [tag], Kind.UNIT
            return self._add(Kind.UNIT, "copied")
        self._current = _XmlElement(tag, self._current, [len(self._found)])
        self._elements.append(self._current)
        self._open[tag] += 1
        return self._add(Kind.OPEN, tag)

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        if self._copied:
            return super().handle_startendtag(tag, attrs)
        return self._add(Kind.BREAK if tag in self._tags.splitting else Kind.UNIT)

    def handle_endtag(self, tag: str) -> None:
        if self._copied:
            return super().handle_endtag(tag)
        closed = None
        while self._open[tag] and (closed is None or closed.name != tag) and self._current.parent is not None:
            closed, self._current = self._current, self._current.parent
            self._open[closed.name] -= 1
        if closed is not None:
            closed.tags.append(len(self._found))
        return self._add(Kind.CLOSE, tag)

    def handle_data(self, data: str) -> None:
        self._current.has_text |= bool(data.strip()) and not self._copied
        super().handle_data(data)

    def handle_entityref(self, name: str) -> None:
        self.handle_data(name)

    def handle_charref(self, name: str) -> None:
        self.handle_data(name)

"""HTML: its tags, texts and comments as fragments. Malformed HTML is read as far as possible, and nothing is lost."""

from __future__ import annotations

import html
from collections.abc import Sequence
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


def parse_xml(text: str) -> list[Fragment]:
    """Return the fragments of a fragment of XML. All elements are inline."""
    parser = _XmlParser(text)
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


class _XmlParser(_Parser):
    def set_cdata_mode(self, elem: str, **_: object) -> None:
        """Do nothing, because no element of XML has raw text."""

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        self._add(Kind.OPEN, tag)

    def handle_startendtag(self, tag: str, attrs: _Attributes) -> None:
        self._add(Kind.UNIT)

    def handle_endtag(self, tag: str) -> None:
        self._add(Kind.CLOSE, tag)

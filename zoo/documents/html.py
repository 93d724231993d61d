"""HTML: its tags, texts and comments as fragments. Malformed HTML is read as far as possible, and nothing is lost."""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

from zoo.documents.fragments import Format, Fragment, Kind, Syntax, View, unescape

_SYNTAX = Syntax(lambda text: html.escape(text, quote=False))
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
_VALUE = r"""(?:"[^"]*+"|'[^']*+'|[^\s>]*+)"""
_TAG = re.compile(rf"<(/?)([a-zA-Z][^\s/>]*+)(?:[\s/=]++|[^\s/>=]++(?:\s*+=\s*+{_VALUE})?+)*+>")
"""Tag with its attributes. A quotation mark without a partner is part of a value. Nothing is read twice."""
_TAG_START = re.compile("</?[a-zA-Z]")
_DECLARATIONS = (
    *(("<!--", "-->", Kind.UNIT), ("<![cdata[", "]]>", Kind.BREAK), ("<!doctype", ">", Kind.BREAK)),
    *(("<!", ">", Kind.UNIT), ("<?", ">", Kind.BREAK), ("</", ">", Kind.UNIT)),
)
"""Beginning, end and kind of markup that is no tag."""
_ATTRIBUTE = re.compile(rf"(?<=[\s/])([^\s/>=]++)\s*+=\s*+({_VALUE})")


def parse(text: str) -> list[Fragment]:
    """Return the fragments of an HTML document or fragment."""
    return _Parser(text).fragments()


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
    return _XmlParser(text, tags).fragments()


class _Parser:
    """Parser that records where each fragment starts. It reads each character once, however malformed the text is.

    Comments, declarations and elements with raw text that have no end extend to the end of the text, as in browsers.
    """

    raw_text: tuple[str, ...] = ("script", "style")
    """Elements whose content has no tags."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found: list[tuple[int, Kind, str]] = []
        self._copied: list[str] = []
        """Names of the open elements that are copied, from the outermost one on."""
        self._copied_kind = Kind.BREAK

    def fragments(self) -> list[Fragment]:
        """Return the fragments. Adjacent texts are one fragment, and so are adjacent parts of copied elements."""
        self._parse()
        return self._joined()

    def _parse(self) -> None:
        text, position = self._text, 0
        while (start := text.find("<", position)) >= 0:
            if start > position:
                self._read_text(position, start)
            position = self._read_markup(start)
        if position < len(text):
            self._read_text(position, len(text))

    def _joined(self) -> list[Fragment]:
        starts: list[tuple[int, Kind, str]] = [(0, Kind.BREAK, "")]
        for start, kind, name in self._found:
            is_continued = kind is starts[-1][1] and (kind is Kind.TEXT or name == starts[-1][2] == "copied")
            if not is_continued:
                starts.append((start, kind, name))
        found = []
        for (start, kind, name), (end, *_) in pairwise([*starts, (len(self._text), Kind.BREAK, "")]):
            raw = self._text[start:end]
            found.append(Fragment(kind, raw, unescape(raw) if kind is Kind.TEXT else "", name))
        return found

    def _read_markup(self, start: int) -> int:
        """Read the markup that begins with `<` at a position, and return its end."""
        text = self._text
        if match := _TAG.match(text, start):
            return self._read_tag(match)
        is_tag = _TAG_START.match(text, start) is not None  # and no later tag has an end, either
        for beginning, mark, kind in () if is_tag else _DECLARATIONS:
            if text[start : start + len(beginning)].lower() == beginning:
                self._add(start, kind)
                end = text.find(mark, start + 2)  # `<!-->` is a whole comment
                return len(text) if end < 0 else end + len(mark)
        end = len(text) if is_tag else start + 1
        self._read_text(start, end)
        return end

    def _read_tag(self, match: re.Match[str]) -> int:
        name = match[2].lower()
        if match[1]:
            self._read_end_tag(match.start(), name)
        elif match[0].endswith("/>") and ("=" not in (last := match[0].rsplit(None, 1)[-1]) or last[-3] in "\"'"):
            self._read_empty_tag(match.start(), name)
        else:
            self._read_start_tag(match.start(), name, match[0])
            if name in self.raw_text:
                end = re.compile(f"</{name}[\\s/>]", re.IGNORECASE).search(self._text, match.end())
                position = end.start() if end else len(self._text)
                if position > match.end():
                    self._read_text(match.end(), position)
                return position
        return match.end()

    def _read_start_tag(self, start: int, name: str, raw: str) -> None:
        if self._copied:
            if name == self._copied[0]:
                self._copied.append(name)
            self._add(start, Kind.UNIT)
        elif name in _VOID:
            self._add(start, Kind.UNIT if name in _VOID_INLINE else Kind.BREAK)
        elif name in _COPIED or name in _COPIED_BLOCKS or _is_untranslated(raw):
            self._copied = [name]
            self._copied_kind = Kind.UNIT if name in _INLINE | _COPIED else Kind.BREAK
            self._add(start, self._copied_kind)
        else:
            self._add(start, Kind.OPEN if name in _INLINE else Kind.BREAK, name)

    def _read_empty_tag(self, start: int, name: str) -> None:
        self._add(start, Kind.UNIT if name in _INLINE | _COPIED | _VOID_INLINE else Kind.BREAK)

    def _read_end_tag(self, start: int, name: str) -> None:
        self._add(start, Kind.CLOSE if name in _INLINE else Kind.BREAK, name)
        if self._copied and name == self._copied[0]:
            self._copied.pop()

    def _read_text(self, start: int, end: int) -> None:
        self._add(start, Kind.TEXT)

    def _add(self, start: int, kind: Kind, name: str = "") -> None:
        self._found.append((start, self._copied_kind, "copied") if self._copied else (start, kind, name))


def _is_untranslated(tag: str) -> bool:
    """Return whether a start tag has `translate="no"` or the class `notranslate`."""
    values = {name.lower(): value.strip("\"'") for name, value in _ATTRIBUTE.findall(tag[1:-1])}
    return values.get("translate") == "no" or "notranslate" in values.get("class", "").split()


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
    raw_text = ()

    def __init__(self, text: str, tags: XmlTags) -> None:
        super().__init__(text)
        self._tags = tags
        self._current = _XmlElement("", None, splits=True)
        self._elements: list[_XmlElement] = []
        self._open = Counter[str]()
        """Number of open elements with each name."""

    def fragments(self) -> list[Fragment]:
        """Return the fragments. The tags of the elements that split are boundaries."""
        self._parse()
        for element in self._elements:  # a parent precedes the elements in it
            parent = element.parent
            in_outline = self._tags.outline and parent is not None and parent.splits and not parent.has_text
            element.splits = element.name in self._tags.splitting or (
                in_outline and element.name not in self._tags.non_splitting
            )
            for index in element.tags if element.splits else ():
                start, _, name = self._found[index]
                self._found[index] = (start, Kind.BREAK, name)
        return self._joined()

    def _read_start_tag(self, start: int, name: str, raw: str) -> None:
        if self._copied:
            return super()._read_start_tag(start, name, raw)
        if name in self._tags.copied:
            self._copied, self._copied_kind = [name], Kind.UNIT
            return self._add(start, Kind.UNIT)
        self._current = _XmlElement(name, self._current, [len(self._found)])
        self._elements.append(self._current)
        self._open[name] += 1
        return self._add(start, Kind.OPEN, name)

    def _read_empty_tag(self, start: int, name: str) -> None:
        self._add(start, Kind.BREAK if name in self._tags.splitting else Kind.UNIT)

    def _read_end_tag(self, start: int, name: str) -> None:
        if self._copied:
            return super()._read_end_tag(start, name)
        closed = None
        while self._open[name] and (closed is None or closed.name != name) and self._current.parent is not None:
            closed, self._current = self._current, self._current.parent
            self._open[closed.name] -= 1
        if closed is not None:
            closed.tags.append(len(self._found))
        return self._add(start, Kind.CLOSE, name)

    def _read_text(self, start: int, end: int) -> None:
        self._current.has_text |= not self._copied and bool(self._text[start:end].strip())
        super()._read_text(start, end)


FORMAT: Format = (View(parse, _SYNTAX),)


def xml_format(tags: XmlTags) -> Format:
    """Return the format of XML whose elements have these roles."""
    return (View(partial(parse_xml, tags=tags), _SYNTAX),)

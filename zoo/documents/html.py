"""HTML and XML: tags, text and comments as fragments. Malformed HTML is parsed as in browsers, without losing text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, Self
from xml.sax.saxutils import escape

from zoo.documents.fragments import Format, Fragment, Kind, View, add_boundaries, unescape
from zoo.documents.segments import PLACEHOLDER
from zoo.documents.tags import (
    CODE,
    HTML_CODE,
    TAG,
    TAG_START,
    XML_CODE,
    Attribute,
    StartTag,
    attribute_view,
    split_code,
)

_BLOCKS = {
    *("address", "area", "article", "aside", "audio", "blockquote", "body", "br", "button", "caption", "center"),
    *("col", "colgroup", "datalist", "dd", "details", "dialog", "dir", "div", "dl", "dt", "embed", "fieldset"),
    *("figcaption", "figure", "footer", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head"),
    *("header", "hgroup", "hr", "html", "iframe", "input", "legend", "li", "listing", "main", "map", "menu", "nav"),
    *("noembed", "noframes", "noscript", "object", "ol", "optgroup", "option", "p", "plaintext", "pre", "search"),
    *("section", "select", "summary", "table", "tbody", "td", "textarea", "tfoot", "th", "thead", "title", "tr"),
    *("ul", "video", "xmp"),
}
"""Elements that divide text. All other elements, known or unknown, are part of the sentence around them."""
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "ins"),
    *("label", "mark", "meter", "nobr", "output", "picture", "progress", "q", "rb", "ruby", "s", "slot", "small"),
    *("span", "strike", "strong", "sub", "sup", "time", "tt", "u"),
}
"""Elements that the translator does not read as a placeholder if they are empty."""
_UNREADABLE = {"canvas", "rp", "rt", "rtc", "script", "style", "svg", "template"}
"""Elements that are copied with their content, and are not part of the text."""
_READABLE = {"code", "kbd", "math", "samp", "var"}
"""Inline elements that are copied with their content."""
_COPIED_BLOCKS = {"iframe", "listing", "noembed", "noframes", "plaintext", "pre", "textarea", "xmp"}
_COPIED = _UNREADABLE | _READABLE | _COPIED_BLOCKS
_VOID = {
    *("area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link"),
    *("meta", "param", "source", "track", "wbr"),
}
_RAW_TEXT = {"iframe", "noembed", "noframes", "plaintext", "script", "style", "textarea", "title", "xmp"}
"""HTML elements whose content has no tags."""
_PHRASING = {
    *("area", "audio", "br", "button", "datalist", "embed", "iframe", "input", "map", "noscript", "object", "optgroup"),
    *("option", "select", "textarea", "video"),
}
"""Blocks that may occur in a paragraph."""
_ENDED_BY = {"p": _BLOCKS - _PHRASING, **dict.fromkeys(("rt", "rp"), frozenset(("rb", "rp", "rt", "rtc", "ruby")))}
"""Tags that end a copied element that has no end tag."""
_HTML_COMMENT_END = re.compile("(?<=<!--)-?>|--!?>")
"""End of an HTML comment. `<!-->` and `<!--->` are whole comments."""
_QUOTED = r"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))"""
_COMMENT = r"<!--(?:[^-]|-(?!->))*+(?:-->|\Z)"
_XML_DOCTYPE = re.compile(
    rf"""<!doctype(?:[^\[>"']|{_QUOTED})*+(?:\[(?:{_COMMENT}|{_QUOTED}|[^\]"'])*+[^>]*+)?+>?+""", re.IGNORECASE
)
"""Document type declaration. If it has no end, it extends to the end of the text."""
_PAGE_NUMBER = re.compile(r"""\s(?:epub:type|role|class)\s*+=\s*+["']?(?:doc-)?page(?:break|num)["'\s>]""")
"""Attribute of e-book elements that contain a page number of the printed book."""
_ADJACENT_LINK = re.compile(r"(?<=[a-zß-öø-ÿ]</a>)<a\b[^<>]*>[A-ZÀ-ÖØ-Þ]")
"""Link directly after another link, as in a menu. It begins with a capital, so it does not continue a word."""
_HIDDEN_INPUT = re.compile(r"""<input\b[^<>]*?\stype=["']?hidden\b""", re.IGNORECASE)
_TEXT = re.compile(rf"(?:[^<{{]++|{CODE}|\{{)*+")
_PAGE_LIST = re.compile(r"""\s(?:epub:type|role)=["'](?:page-list|doc-pagelist)["'](?!.*<(?:ol|/nav))""", re.DOTALL)
"""Start of an e-book element that lists the page numbers of the printed book, after its heading."""
_MAYBE_TEXT = re.compile(r"(?:alt|title|label|placeholder|description|value|content)\s*+=", re.IGNORECASE)
_DESCRIPTIONS = ("description", "og:title", "og:description", "twitter:title", "twitter:description")
_ATTRIBUTES = {"alt", "aria-description", "aria-label", "aria-placeholder", "placeholder", "title"}


@dataclass(frozen=True)
class ElementRoles:
    """Roles that a client assigns to XML or HTML elements in translation. Element names are in lower case.

    Attributes:
        splitting: Names of elements that are separate segments.
        non_splitting: Names of elements that are part of the sentence around them.
        copied: Names of elements that are copied with their content.
        outline: Whether an XML element is also a separate segment if its parent is a separate segment that has no text
            outside its child elements.
        is_html: Whether the text is HTML. Elements without an assigned role then have their usual role in HTML.
    """

    splitting: frozenset[str] = frozenset()
    non_splitting: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    outline: bool = True
    is_html: bool = False


class _Part(NamedTuple):
    """Start position and attributes of a `Fragment` that the parser has found."""

    start: int
    kind: Kind
    name: str = ""
    text: str | None = None
    again: str | None = None


@dataclass
class _CopiedElement:
    """Element that is copied with its content, and whose end tag has not been read yet.

    Attributes:
        name: Name of the element.
        is_unread: Whether the translator reads nothing in its place, as for a script or a page number.
        depth: Number of open elements with this name, including this element.
        texts: The text in the element.
    """

    name: str
    is_unread: bool
    depth: int = 1
    texts: list[str] = field(default_factory=list)


class Parser:
    """HTML parser that records where each fragment starts. It reads each character once, even in malformed HTML.

    Unclosed comments, declarations and raw text elements extend to the end of the text, as in browsers.

    Attributes:
        tags: The start tags that are not inside copied content.
    """

    is_xml = False

    def __init__(self, text: str, roles: ElementRoles) -> None:
        self._text, self._roles = text, roles
        self._found: list[_Part] = []
        self.tags: list[StartTag] = []
        self._language = ""
        """The document's language, if a start tag specifies it."""
        self._copied: _CopiedElement | None = None
        self._endless = {"plaintext"}
        """Names of elements with raw text that have no further end tag."""

    def fragments(self) -> Iterator[Fragment]:
        """Yield the fragments of the document. Adjacent texts are joined, and each copied element is one fragment."""
        for part, end in pairwise([*self._found, _Part(len(self._text), Kind.BREAK)]):
            raw = self._text[part.start : end.start]
            if part.kind is Kind.LANGUAGE:
                yield from _with_language(raw)
                continue
            text = part.text
            if text is None:
                text = unescape(raw) if part.kind is Kind.TEXT else ""
            output = "" if part.name == "wbr" else None  # it marks where a word of the source may be broken
            is_raised, is_link = part.name in ("sub", "sup"), part.kind is Kind.OPEN and part.name == "a"
            yield Fragment(part.kind, raw, text, part.name, output, part.again, is_raised, is_link)

    def read(self) -> Self:
        """Parse the text, and return this parser."""
        text, position = self._text, 0
        while position < len(text):
            found = (re.compile("[^<]*+") if self.is_xml else _TEXT).match(text, position)
            start = found.end() if found else position
            if start > position:
                self._read_text(position, start)
            position = self._read_markup(start) if start < len(text) else start
        if self._copied:  # the copied element has no end, so it must remain the last fragment
            self._found[-1] = self._found[-1]._replace(kind=Kind.BREAK)
        return self

    def _read_markup(self, start: int) -> int:
        """Read the markup whose `<` is at `start`. Return the position after the markup."""
        text = self._text
        if match := TAG.match(text, start):
            return self._read_tag(match)
        if text.startswith(("<!", "<?", "</"), start) and not TAG_START.match(text, start):
            return self._read_declaration(start)
        end = len(text) if TAG_START.match(text, start) else start + 1  # if this tag does not end, no later tag ends
        self._read_text(start, end)
        return end

    def _read_declaration(self, start: int) -> int:
        """Read a comment, a declaration or another construct that is not a tag. Return the position after it."""
        text = self._text
        beginning = text[start : start + 9].lower()
        if beginning == "<![cdata[" and (self.is_xml or self._is_foreign()):
            last = text.find("]]>", start)
            end = len(text) if last < 0 else last + 3
            self._read_text(start, end, text[start + 9 : end].removesuffix("]]>"))
            return end
        kind = Kind.BREAK if beginning == "<!doctype" else Kind.UNIT
        self._add(start, kind)
        if beginning.startswith("<!--"):
            comment_end = re.compile("-->") if self.is_xml else _HTML_COMMENT_END
            found = comment_end.search(text, start + 4)
        elif self.is_xml and kind is Kind.BREAK:
            found = _XML_DOCTYPE.match(text, start)
        else:
            is_instruction = self.is_xml and beginning.startswith("<?")
            found = re.compile(r"\?>" if is_instruction else ">").search(text, start + 2)
        return found.end() if found else len(text)

    def _read_tag(self, match: re.Match[str]) -> int:
        tag, raw = StartTag(match.start(), self._name(match[2]), match[0]), match[0]
        if match[1]:
            self._read_end_tag(tag.start, tag.name)
            return match.end()
        is_empty = raw.endswith("/>") and ("=" not in (last := raw.rsplit(None, 1)[-1]) or last[-3] in "\"'")
        end = self._raw_text_end(match.end(), tag.name)
        if is_empty and end in (match.end(), len(self._text)):
            if not (self._copied or self._is_untranslated(tag) or _PAGE_NUMBER.search(raw)):
                self.tags.append(tag)
            self._add_empty(tag.start, tag.name)
            return match.end()
        self._read_start_tag(tag)
        if end == len(self._text) > match.end():
            self._add(match.end(), Kind.BREAK)
        elif end > match.end():
            self._read_text(match.end(), end)
        return end

    def _raw_text_end(self, start: int, name: str) -> int:
        """Return the position of the end tag of a raw text element such as `script`, or `start` for other elements."""
        if self.is_xml or name not in _RAW_TEXT or self._is_foreign():
            return start
        end = None
        if name not in self._endless:
            end = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(self._text, start)
        if end is None:
            self._endless.add(name)
        return end.start() if end else len(self._text)

    def _read_start_tag(self, tag: StartTag) -> None:
        name = tag.name
        if copied := self._copied_around(name):
            copied.depth += name == copied.name
            return None
        # A heading may precede a list of pages.
        before = self._text[max(tag.start - 300, 0) : tag.start] if name == "ol" else ""
        is_hidden = _PAGE_NUMBER.search(tag.raw) is not None or _PAGE_LIST.search(before) is not None
        if is_hidden or self._is_untranslated(tag):
            return self._read_copied(tag, is_hidden=is_hidden)
        self.tags.append(tag)
        if name in _VOID:
            return self._add_empty(tag.start, name)
        if name in _COPIED and name not in self._roles.splitting | self._roles.non_splitting:
            return self._read_copied(tag)
        kind = Kind.OPEN if self._is_inline(name) else Kind.BREAK
        if name in ("html", "body") and kind is Kind.BREAK and self._read_language(tag):
            kind = Kind.LANGUAGE
        elif name == "a" and _ADJACENT_LINK.match(self._text, tag.start):
            self._add(tag.start, Kind.BREAK)
        return self._add(tag.start, kind, name, again=tag.without_id())

    def _read_language(self, tag: StartTag) -> bool:
        """Return whether an `html` or `body` tag has the document's language. The first tag with `lang` sets it."""
        given = tag.values()
        language = (given.get("lang") or given.get("xml:lang", ""))[:2].lower()
        self._language = self._language or language
        return self._language == language

    def _read_copied(self, tag: StartTag, *, is_hidden: bool = False) -> None:
        """Begin an element that is copied with its content. A void element, such as `img`, ends immediately."""
        self._add(tag.start, Kind.UNIT if self._is_inline(tag.name) else Kind.BREAK, tag.name)
        if self.is_xml or tag.name not in _VOID:
            self._copied = _CopiedElement(tag.name, is_hidden or tag.name in _UNREADABLE)

    def _add_empty(self, start: int, name: str) -> None:
        is_hidden = name == "input" and _HIDDEN_INPUT.match(self._text, start)
        if not (is_hidden or self._is_inline(name)):
            self._add(start, Kind.BREAK)
        elif name == "br":
            self._add(start, Kind.LINE, text=" ")
        else:
            self._add(start, Kind.UNIT, name, self._text_of_empty(name))

    def _read_end_tag(self, start: int, name: str) -> None:
        copied = self._copied
        if copied and name == copied.name:
            copied.depth -= 1
            if not copied.depth:
                self._end_copied(copied)
        elif not self._copied_around(name):
            inline = Kind.UNIT if name in _VOID else Kind.CLOSE
            self._add(start, inline if self._is_inline(name) else Kind.BREAK, name)

    def _read_text(self, start: int, end: int, text: str | None = None) -> None:
        """Read the text from `start` to `end`. For a CDATA section, `text` is its content."""
        if self._copied:
            self._copied.texts.append(unescape(self._text[start:end]) if text is None else text)
        elif text is not None:
            self._add(start, Kind.TEXT, text=text)
        else:
            for position, part in split_code(XML_CODE if self.is_xml else HTML_CODE, self._text, start, end):
                if part.kind is not Kind.TEXT or [each[1:4] for each in self._found[-1:]] != [(Kind.TEXT, "", None)]:
                    self._add(position, part.kind, text=None if part.kind is Kind.TEXT else part.text)

    def _copied_around(self, name: str) -> _CopiedElement | None:
        """Return the open copied element, or None. If a tag with this name implies the element's end, end it first."""
        if self._copied and not self.is_xml and name in _ENDED_BY.get(self._copied.name, ()):
            self._end_copied(self._copied)
        return self._copied

    def _end_copied(self, element: _CopiedElement) -> None:
        """End a copied element, and set the text that the translation model reads in its place."""
        text = " ".join("".join(element.texts).split())
        text = "" if element.is_unread else text or self._text_of_empty(element.name)
        self._found[-1] = self._found[-1]._replace(text=text)
        self._copied = None

    def _is_untranslated(self, tag: StartTag) -> bool:
        """Return whether the client, or an attribute such as `translate="no"`, excludes an element from translation."""
        if tag.name in self._roles.copied or "translate" not in tag.raw.lower():
            return tag.name in self._roles.copied
        found = tag.values()
        return found.get("translate", "").lower() == "no" or "notranslate" in found.get("class", "").split()

    def _text_of_empty(self, name: str) -> str:
        """Return the text that the translator reads in place of an element without content.

        For unknown elements and elements in `ElementRoles.copied`, the text is a placeholder. Otherwise, it is empty.
        """
        is_known = name in _INLINE or name in _COPIED or name in _VOID or name in _BLOCKS
        return PLACEHOLDER if name in self._roles.copied or not is_known else ""

    def _is_foreign(self) -> bool:
        """Return whether the parser is inside a copied SVG or MathML element."""
        return self._copied is not None and self._copied.name in ("svg", "math")

    def _is_inline(self, name: str) -> bool:
        roles = self._roles
        return name in roles.non_splitting or (name not in roles.splitting and name not in _BLOCKS)

    def _name(self, tag: str) -> str:
        return tag.lower()

    def _add(self, start: int, kind: Kind, name: str = "", text: str | None = None, again: str | None = None) -> None:
        if not self._copied:
            self._found.append(_Part(start, kind, name, text, again))


def _with_language(tag: str) -> list[Fragment]:
    """Return the fragments of a start tag, with the language code as a separate fragment."""
    codes = (
        (each.value_start, Fragment(Kind.LANGUAGE, tag[each.value_start : each.value_end]))
        for each in StartTag(0, "", tag).attributes()
        if each.name in ("lang", "xml:lang") and (each.quote or each.value.replace("-", "").isalnum())
        if not HTML_CODE.search(each.value)
    )
    return add_boundaries(tag, codes)


class XhtmlParser(Parser):
    """Parser for XHTML."""

    is_xml = True

    def _name(self, tag: str) -> str:
        return tag.lower().rpartition(":")[2]


@dataclass
class _XmlElement:
    """XML element, or the root that contains all elements.

    Attributes:
        name: Name in lower case.
        parent: The element around it. None for the root.
        tags: Indices of its tags among the fragments that the parser found.
        has_text: Whether it has text outside its child elements.
        splits: Whether it is a separate segment.
    """

    name: str
    parent: _XmlElement | None
    tags: list[int] = field(default_factory=list)
    has_text: bool = False
    splits: bool = False


class _XmlParser(Parser):
    """Parser for XML from clients. The client chooses which elements divide the text, and which elements are copied."""

    is_xml = True

    def __init__(self, text: str, roles: ElementRoles) -> None:
        super().__init__(text, roles)
        self._current = _XmlElement("", None, splits=True)
        self._elements: list[_XmlElement] = []
        self._open = Counter[str]()
        """Number of open elements with each name."""

    def read(self) -> Self:
        """Parse the text, and return this parser."""
        super().read()
        # The tags of elements that are separate segments become boundaries. A parent precedes the elements in it.
        for element in self._elements:
            parent = element.parent
            in_outline = self._roles.outline and parent is not None and parent.splits and not parent.has_text
            element.splits = element.name in self._roles.splitting or (
                in_outline and element.name not in self._roles.non_splitting
            )
            for index in element.tags if element.splits else ():
                self._found[index] = self._found[index]._replace(kind=Kind.BREAK)
        if self._elements and self._elements[0].splits:
            root = self._elements[0].tags[0]
            self._found[root] = self._found[root]._replace(kind=Kind.LANGUAGE)
        return self

    def _read_start_tag(self, tag: StartTag) -> None:
        if self._copied or self._is_untranslated(tag):
            return super()._read_start_tag(tag)
        self._current = _XmlElement(tag.name, self._current, [len(self._found)])
        self._elements.append(self._current)
        self._open[tag.name] += 1
        return self._add(tag.start, Kind.OPEN, tag.name, again=tag.without_id())

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

    def _read_text(self, start: int, end: int, text: str | None = None) -> None:
        self._current.has_text |= not self._copied and bool((text or self._text[start:end]).strip())
        super()._read_text(start, end, text)

    def _is_inline(self, name: str) -> bool:
        return name not in self._roles.splitting


def _is_text(tag: StartTag, attribute: Attribute) -> bool:
    """Return whether an attribute of an element contains text to translate, such as `alt`."""
    match attribute.name:
        case "value":
            return tag.name == "input" and tag.values().get("type", "").lower() in ("button", "reset", "submit")
        case "content":
            given = tag.values()
            return tag.name == "meta" and given.get("name", given.get("property", "")).lower() in _DESCRIPTIONS
        case "label":
            return tag.name in ("optgroup", "option", "track")
    return attribute.name in _ATTRIBUTES and tag.name not in ("link", "style")


def _text_view(roles: ElementRoles, parser: type[Parser]) -> View:
    splits_menus = "a" not in roles.non_splitting
    return View(lambda text: list(parser(text, roles).read().fragments()), escape, splits_menus=splits_menus)


def _html_format(roles: ElementRoles, parser: type[Parser]) -> Format:
    """Return a format for HTML. `parser` reads the HTML, and `roles` are the roles of its elements.

    Attributes are translated before text. If a translated text then repeats a tag, the attributes in each copy are
    already translated.
    """

    def find_tags(text: str) -> Iterator[StartTag]:
        if _MAYBE_TEXT.search(text):
            yield from (tag for tag in parser(text, roles).read().tags if _MAYBE_TEXT.search(tag.raw))

    return (attribute_view(find_tags, _is_text), _text_view(roles, parser))


FORMAT = _html_format(ElementRoles(), Parser)
XHTML_FORMAT = _html_format(ElementRoles(), XhtmlParser)


def format_with(roles: ElementRoles) -> Format:
    """Return the format for XML or HTML in which elements have these roles."""
    return _html_format(roles, Parser) if roles.is_html else (_text_view(roles, _XmlParser),)

"""OpenDocument text documents (.odt). Everything but the text of paragraphs is copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from xml.sax.saxutils import escape

from zoo.documents.fragments import Archive, Format, Fragment, Kind, View, pattern_view
from zoo.documents.office import (
    InlineElement,
    ParagraphReader,
    Role,
    Token,
    code_styles,
    join_raw,
    join_text,
    read_tokens,
)
from zoo.documents.segments import PLACEHOLDER
from zoo.documents.tags import local_attributes

_NAMESPACES = {
    f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": prefix
    for name, prefix in (("text", "text"), ("office", "office"), ("drawing", "draw"))
} | {"urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext"}
_UNIQUE = InlineElement(is_unique=True)
_ELEMENTS = {
    "text:span": InlineElement(),
    "text:a": InlineElement(is_link=True),
    **dict.fromkeys(("text:meta", "text:placeholder", "text:text-input", "loext:content-control"), _UNIQUE),
    "text:ruby": InlineElement(is_unique=True, child="text:ruby-base"),
}
_RANGE = re.compile("text:(.+)-(start|end)|office:(annotation)(-end)?")
_DESCRIPTION = re.compile(r"<svg:(?:title|desc)(?:\s[^<>]*+)?>(?P<text>[^<]*+)")
"""Description of an image."""
_INVISIBLE = ("text:note", "text:number", "text:script")
_NESTED = (
    *("text-box", "note-body", "annotation", "shape>", "rect>", "circle>", "ellipse>", "line>", "connector>"),
    *("polygon>", "path>", "caption>", "measure>"),
)
"""Parts of the tags of elements inside paragraphs that contain paragraphs themselves. A shape with text has an end
tag."""
_SYMBOL_STYLE = re.compile(
    r'<style:style style:name="([^"<]*+)" style:family="text"[^<>]*+>\s*+<style:text-properties\s'
    r'(?=[^<>]*?(?:style:font-name|fo:font-family)="(Wingdings|Webdings|Symbol)[\d ]*")'
)
"""Style with a symbol font."""


class _Reader(ParagraphReader):
    """Reader for the XML files in an OpenDocument text document (.odt)."""

    paragraphs, untranslated, elements = ("text:p", "text:h"), ("text:tracked-changes",), _ELEMENTS

    def __init__(self, roles: Mapping[str, Role]) -> None:
        """Create a reader. `roles` contains the roles of styles, keyed by the name of the style."""
        self._roles = roles

    def parse(self, text: str, level: int = 1) -> list[Fragment]:
        """Return the fragments of an XML file.

        A start mark without an end mark, such as a comment at a single point, becomes a UNIT fragment, which is copied.

        Args:
            text: Content of the XML file.
            level: Nesting level of the paragraphs (see `ParagraphReader.read`).

        Raises:
            ZooError: The XML is damaged, or declares entities.
        """
        if level > 1 and not any(name in text for name in _NESTED):
            return [Fragment(Kind.BREAK, text)]
        fragments = list(self.read([self._with_role(token) for token in read_tokens(text, _NAMESPACES)], level))
        ended = {fragment.key for fragment in fragments if fragment.kind is Kind.END}
        return [
            Fragment(Kind.UNIT, fragment.raw) if fragment.kind is Kind.START and fragment.key not in ended else fragment
            for fragment in fragments
        ]

    def _with_role(self, token: Token) -> Token:
        """Return a token. If it starts a paragraph or span, set its role to the role of its style."""
        if token.kind != "start" or token.name not in (*self.paragraphs, "text:span"):
            return token
        return token._replace(role=self._roles.get(local_attributes(token.raw).get("style-name", ""), Role.TEXT))

    def read_leaf(self, tokens: Sequence[Token]) -> Iterator[Fragment]:
        """Yield the fragment for a text node or element. Fields, such as page numbers, are copied as UNIT fragments."""
        first, raw = tokens[0], join_raw(tokens)
        mark = _RANGE.fullmatch(first.name)
        is_gap = first.name == "text:s" and local_attributes(raw).get("c", "1") not in ("0", "1")
        if first.kind == "text":
            yield Fragment(Kind.TEXT, raw, first.text)
        elif first.name == "text:tab" or is_gap or first.role is Role.ICON:
            yield Fragment(Kind.BREAK, raw)
        elif first.name == "text:line-break":
            yield Fragment(Kind.LINE, raw, " ")
        elif mark:
            found = local_attributes(raw)
            identity = found.get("name") or found.get("id") or found.get("change-id") or ""
            kind = Kind.END if mark[2] == "end" or mark[4] else Kind.START
            yield Fragment(kind, raw, key=(mark[1] or mark[3], identity))
        else:
            yield Fragment(Kind.UNIT, raw, _unit_text(tokens))


def _unit_text(tokens: Sequence[Token]) -> str:
    """Return the text that the translator reads in place of a copied element."""
    name = tokens[0].name
    if name == "draw:frame" and any(token.name == "draw:object" for token in tokens):  # a formula, for instance
        return PLACEHOLDER
    if name.startswith("text:") and name not in _INVISIBLE:
        return " " if name == "text:s" else join_text(tokens)
    return ""


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    """Return the format of each XML file that contains text in an OpenDocument archive.

    Notes are translated before the paragraphs that contain them, because translating a paragraph can move its notes.

    Args:
        names: Names of the files in the archive.
        read: Function that returns the content of a file, given its name.
    """
    files = [name for name in ("content.xml", "styles.xml") if name in names]
    roles = dict.fromkeys(code_styles(*map(read, files)), Role.COPIED)
    for style, font in (found for name in files for found in _SYMBOL_STYLE.findall(read(name))):
        roles[style] = Role.COPIED if font == "Symbol" else Role.ICON
    reader = _Reader(roles)
    levels = (View(partial(reader.parse, level=level), escape) for level in (3, 2, 1))
    return dict.fromkeys(files, (pattern_view(_DESCRIPTION), *levels))


FORMAT: Archive = _formats

"""OpenDocument texts (.odt). Everything but the text of paragraphs is copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from xml.sax.saxutils import escape

from zoo.documents.fragments import Archive, Format, Fragment, Kind, View
from zoo.documents.segments import PLACEHOLDER
from zoo.documents.tags import (
    Token,
    code_styles,
    join_raw,
    join_text,
    local_attributes,
    paragraph_fragments,
    pattern_view,
    read_tokens,
)

_NAMESPACES = {
    f"urn:oasis:names:tc:opendocument:xmlns:{name}:1.0": prefix
    for name, prefix in (("text", "text"), ("office", "office"), ("drawing", "draw"))
} | {"urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext"}
_PARAGRAPHS = ("text:p", "text:h")
_STYLED = (*_PARAGRAPHS, "text:span")
_CODE, _ICON = "text:code", "text:icon"
_COPIED = ("text:tracked-changes", _CODE)
_ELEMENTS = {
    **dict.fromkeys(("text:span", "text:a")),
    **dict.fromkeys(("text:meta", "text:placeholder", "text:text-input", "loext:content-control"), ""),
    "text:ruby": "text:ruby-base",
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


def _parse(text: str, copied: Mapping[str, str], level: int = 1) -> list[Fragment]:
    """Return the fragments of an XML file in an OpenDocument text document (.odt).

    The start of a range without an end, such as a comment at a single point, becomes a UNIT fragment, which is copied.

    Args:
        text: The XML.
        copied: Token name for the elements with a certain style, keyed by this style. The name is `_CODE` or `_ICON`.
        level: Nesting level of the paragraphs (see `paragraph_fragments`).

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    if level > 1 and not any(name in text for name in _NESTED):
        return [Fragment(Kind.BREAK, text)]
    tokens = [
        token._replace(name=copied.get(local_attributes(token.raw).get("style-name", ""), token.name))
        if token.kind == "start" and token.name in _STYLED
        else token
        for token in read_tokens(text, _NAMESPACES)
    ]
    fragments = list(paragraph_fragments(tokens, _PARAGRAPHS, _COPIED, level, _ELEMENTS, _leaf))
    ended = {fragment.name for fragment in fragments if fragment.kind is Kind.END}
    return [
        Fragment(Kind.UNIT, fragment.raw) if fragment.kind is Kind.START and fragment.name not in ended else fragment
        for fragment in fragments
    ]


def _leaf(tokens: Sequence[Token]) -> Iterator[Fragment]:
    """Yield the fragment for a text node or element. Fields, such as page numbers, are copied as UNIT fragments."""
    name, raw = tokens[0].name, join_raw(tokens)
    mark = _RANGE.fullmatch(name)
    if tokens[0].kind == "text":
        yield Fragment(Kind.TEXT, raw, tokens[0].text)
    elif name in ("text:tab", _ICON) or (name == "text:s" and local_attributes(raw).get("c", "1") not in ("0", "1")):
        yield Fragment(Kind.BREAK, raw)
    elif name == "text:line-break":
        yield Fragment(Kind.LINE, raw, " ")
    elif mark:
        found = local_attributes(raw)
        identity = found.get("name") or found.get("id") or found.get("change-id") or ""
        kind = Kind.END if mark[2] == "end" or mark[4] else Kind.START
        yield Fragment(kind, raw, name=f"{mark[1] or mark[3]} {identity}")
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
    """Return the format of each XML file with text in an OpenDocument archive.

    Notes are translated before the paragraphs that contain them, because translating a paragraph can move its notes.
    """
    files = [name for name in ("content.xml", "styles.xml") if name in names]
    copied = dict.fromkeys(code_styles(*map(read, files)), _CODE)
    for style, font in (found for name in files for found in _SYMBOL_STYLE.findall(read(name))):
        copied[style] = _CODE if font == "Symbol" else _ICON
    levels = (View(partial(_parse, copied=copied, level=level), escape) for level in (3, 2, 1))
    return dict.fromkeys(files, (pattern_view(_DESCRIPTION), *levels))


FORMAT: Archive = _formats

"""E-books (.epub): the text of the pages and the table of contents, and the book's title and description."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath, splitext
from urllib.parse import unquote

from zoo.documents.fragments import Archive, Format, pattern_view
from zoo.documents.html import FORMAT as HTML_FORMAT
from zoo.documents.html import XHTML_FORMAT, ElementRoles, XhtmlParser
from zoo.documents.tags import xml_tag

_CONTAINER = "META-INF/container.xml"
_COMMENT = r"<!--(?:[^-]|-(?!->))*+"
_LANGUAGE = r"""<(?:[\w.-]++:)?(?:ncx|package)\s[^<>]*?xml:lang\s*+=\s*+["'](?P<code>[^"'<>]*+)"""
_PACKAGE_TEXT = re.compile(
    rf"{_COMMENT}|{_LANGUAGE}|{xml_tag('title|description')}(?P<text>[^<]*+)|{xml_tag('language')}(?P<language>[^<]*+)",
    re.IGNORECASE,
)
_CONTENTS_TEXT = re.compile(
    rf"{_COMMENT}|{_LANGUAGE}|{xml_tag('pageTarget')}\s*+{xml_tag('navLabel')}"
    rf"|{xml_tag('navLabel|docTitle')}\s*+{xml_tag('text')}(?P<text>[^<]*+)",
    re.IGNORECASE,
)
_PACKAGE, _CONTENTS = pattern_view(_PACKAGE_TEXT), pattern_view(_CONTENTS_TEXT)
_BY_TYPE = {
    "application/xhtml+xml": XHTML_FORMAT,
    "text/x-oeb1-document": XHTML_FORMAT,
    "text/html": HTML_FORMAT,
    "application/x-dtbncx+xml": (_CONTENTS,),
}
_BY_SUFFIX = {
    **dict.fromkeys((".xhtml", ".html", ".htm"), XHTML_FORMAT),
    ".ncx": (_CONTENTS,),
    ".opf": (_PACKAGE,),
}


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    """Return the format of each text file in an e-book, according to the media types in its package documents.

    If the package documents list no text files, file suffixes select the formats.

    Args:
        names: Names of the files in the e-book.
        read: Function that returns the content of a file, given its name.
    """
    known, formats = set(names), dict[str, Format]()
    roots = dict(_links(read(_CONTAINER), "", "rootfile", "full-path")) if _CONTAINER in known else {}
    for package in filter(known.__contains__, roots):
        links = _links(read(package), package, "item", "href")
        pages = {name: _BY_TYPE[kind] for name, kind in links if kind in _BY_TYPE and name in known}
        formats |= {**pages, package: (_PACKAGE,)} if pages else {}
    return formats or {name: _BY_SUFFIX[end] for name in names if (end := splitext(name)[1].lower()) in _BY_SUFFIX}


def _links(text: str, base: str, element: str, attribute: str) -> Iterator[tuple[str, str]]:
    """Yield the path and media type of each file that an XML file lists in `attribute` of its `element` tags."""
    for tag in XhtmlParser(text, ElementRoles()).read().tags:
        given = tag.values() if tag.name == element else {}
        if attribute in given:
            path = unquote(given[attribute].partition("#")[0])
            yield normpath(join(dirname(base), path)), given.get("media-type", "").strip().lower()


FORMAT: Archive = _formats

"""OpenDocument texts (.odt). Everything but the text of paragraphs is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from zoo.documents.fragments import Archive, Format, Fragment, Kind, Syntax, View
from zoo.documents.xml_tokens import Token, element_ends, join_raw, read_tokens

_PARAGRAPHS = ("text:p", "text:h")
_SPANS = ("text:span", "text:a")
_SPACES = ("text:s", "text:tab", "text:line-break")


def _parse(text: str) -> list[Fragment]:
    """Return the fragments of a file of an OpenDocument text (.odt).

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    return list(_open_document_fragments(read_tokens(text)))


def _open_document_fragments(tokens: Sequence[Token]) -> Iterator[Fragment]:
    index, inside, ends = 0, False, element_ends(tokens)
    while index < len(tokens):
        token, end = tokens[index], index + 1
        if token.name in _PARAGRAPHS:
            inside = token.kind == "start"
            yield Fragment(Kind.BREAK, token.raw)
        elif not inside:
            yield Fragment(Kind.BREAK, token.raw)
        elif token.name in _SPANS:
            yield Fragment(Kind.OPEN if token.kind == "start" else Kind.CLOSE, token.raw, name=token.name)
        elif token.kind == "start":
            end = ends[index]
            yield Fragment(Kind.UNIT, join_raw(tokens[index:end]), " " if token.name in _SPACES else "")
        else:
            yield Fragment(Kind.TEXT if token.kind == "text" else Kind.UNIT, token.raw, token.text)
        index = end


_FORMAT = (View(_parse, Syntax(escape)),)


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    return {name: _FORMAT for name in ("content.xml", "styles.xml") if name in names}


FORMAT = Archive(_formats)

"""XML of office documents as tags and texts, each with its spelling in the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.parsers import expat

from specs import ZooError


class Token(NamedTuple):
    """Tag or text of an XML document: the raw bytes as text, and the text that they represent."""

    kind: str
    name: str
    raw: str
    text: str


def read_tokens(text: str) -> list[Token]:
    """Return the tags and texts of XML.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    content = text.encode()
    parser = expat.ParserCreate("utf-8")
    found: list[tuple[int, str, str]] = []

    def refuse(*_: object) -> None:
        raise ZooError("it declares entities, which can make it very large", hint="save the document again")

    def record(kind: str, value: str) -> None:
        found.append((parser.CurrentByteIndex, kind, value))

    parser.StartElementHandler = lambda tag, _: record("start", tag)
    parser.EndElementHandler = lambda tag: record("end", tag)
    parser.CharacterDataHandler = lambda text: record("text", text)
    parser.DefaultHandler = lambda _: record("other", "")
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise ZooError(f"its XML is damaged: {error}", hint="open and save the document again") from None
    found = [(0, "other", ""), *found, (len(content), "other", "")]
    return [
        Token(kind, "" if kind == "text" else value, content[start:end].decode(), value if kind == "text" else "")
        for (start, kind, value), (end, *_) in pairwise(found)
    ]


def children(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield where each child of an element starts and ends among its tokens."""
    index, ends = 1, element_ends(tokens)
    while index < len(tokens) - 1:
        yield index, ends[index]
        index = ends[index]


def element_ends(tokens: Sequence[Token]) -> list[int]:
    """Return, for each token, the index after its element if it is a start tag, and otherwise the next index."""
    ends, opened = list(range(1, len(tokens) + 1)), list[int]()
    for index, token in enumerate(tokens):
        if token.kind == "start":
            opened.append(index)
        elif token.kind == "end" and opened:
            ends[opened.pop()] = index + 1
    for index in opened:
        ends[index] = len(tokens)
    return ends


def join_raw(tokens: Sequence[Token]) -> str:
    """Return the tokens as the file spells them."""
    return "".join(token.raw for token in tokens)

"""XML of Word and OpenDocument files as fragments. Everything but the text of paragraphs is copied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from specs import ZooError
from zoo.documents.markup import Fragment, Kind, Syntax

WORD_SYNTAX = Syntax(escape, needs_runs=True)
OPEN_DOCUMENT_SYNTAX = Syntax(escape)
_TEXT_START, _TEXT_END = '<w:t xml:space="preserve">', "</w:t>"
_WORD_INLINE = ("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:fldSimple")
_WORD_SPACES = ("w:tab", "w:br", "w:cr")
_WORD_COPIED = (
    *("w:del", "w:moveFrom", "w:proofErr", "w:bookmarkStart", "w:bookmarkEnd", "w:commentRangeStart"),
    *("w:commentRangeEnd", "w:permStart", "w:permEnd", "m:oMath"),
)
_PARAGRAPHS = ("text:p", "text:h")
_SPANS = ("text:span", "text:a")
_SPACES = ("text:s", "text:tab", "text:line-break")


class _Token(NamedTuple):
    """Tag or text of an XML document: the raw bytes as text, and the text that they represent."""

    kind: str
    name: str
    raw: str
    text: str


def parse_word(content: bytes, name: str) -> list[Fragment]:
    """Return the fragments of a part of a Word document (.docx). A run is an inline element.

    Raises:
        ZooError: The XML is damaged, is not UTF-8, or declares entities.
    """
    return list(_join_runs(list(_word_fragments(_read_tokens(content, name)))))


def parse_open_document(content: bytes, name: str) -> list[Fragment]:
    """Return the fragments of a part of an OpenDocument text (.odt).

    Raises:
        ZooError: The XML is damaged, is not UTF-8, or declares entities.
    """
    return list(_open_document_fragments(_read_tokens(content, name)))


def _read_tokens(content: bytes, name: str) -> list[_Token]:
    parser = expat.ParserCreate()
    found: list[tuple[int, str, str]] = []

    def refuse(*_: object) -> None:
        raise ZooError(f"`{name}` declares entities, which can make it very large", hint="save the document again")

    def record(kind: str, value: str) -> None:
        found.append((parser.CurrentByteIndex, kind, value))

    parser.StartElementHandler = lambda tag, _: record("start", tag)
    parser.EndElementHandler = lambda tag: record("end", tag)
    parser.CharacterDataHandler = lambda text: record("text", text)
    parser.DefaultHandler = lambda _: record("other", "")
    parser.EntityDeclHandler = refuse
    try:
        content.decode()
        parser.Parse(content, True)
    except (expat.ExpatError, UnicodeDecodeError) as error:
        raise ZooError(f"`{name}` is damaged: {error}", hint="open and save the document again") from None
    found = [(0, "other", ""), *found, (len(content), "other", "")]
    return [
        _Token(kind, "" if kind == "text" else value, content[start:end].decode(), value if kind == "text" else "")
        for (start, kind, value), (end, *_) in pairwise(found)
    ]


def _word_fragments(tokens: Sequence[_Token]) -> Iterator[Fragment]:
    index, ends = 0, _element_ends(tokens)
    while index < len(tokens):
        token, end = tokens[index], ends[index]
        if token.kind == "start" and token.name == "w:r":
            yield from _run_fragments(tokens[index:end])
        elif token.kind == "start" and token.name in _WORD_COPIED:
            yield Fragment(Kind.UNIT, _raw(tokens[index:end]))
        elif token.name in _WORD_INLINE:
            yield Fragment(Kind.OPEN if token.kind == "start" else Kind.CLOSE, token.raw, name=token.name)
            end = index + 1
        else:
            yield Fragment(Kind.BREAK, token.raw)
            end = index + 1
        index = end


def _run_fragments(tokens: Sequence[_Token]) -> Iterator[Fragment]:
    """Yield the fragments of a run. It is a unit if it has no text."""
    children = [tokens[start:end] for start, end in _children(tokens)]
    raws = [_raw(child) for child in children]
    if not any(child[0].name == "w:t" for child in children):
        yield Fragment(Kind.UNIT, _raw(tokens))
        return
    style = raws.pop(0) if children[0][0].name == "w:rPr" else ""
    if style:
        del children[0]
    start = tokens[0].raw + style
    yield Fragment(Kind.OPEN, start, name=f"w:r {style}", output=start + _TEXT_START)
    for child, raw in zip(children, raws, strict=True):
        kind = child[0].name
        if kind == "w:t":
            yield Fragment(Kind.TEXT, raw, "".join(token.text for token in child))
        else:
            text = " " if kind in _WORD_SPACES else ""
            yield Fragment(Kind.UNIT, raw, text, output=_TEXT_END + raw + _TEXT_START if raw.strip() else "")
    yield Fragment(Kind.CLOSE, tokens[-1].raw, name=f"w:r {style}", output=_TEXT_END + tokens[-1].raw)


def _join_runs(fragments: Sequence[Fragment]) -> Iterator[Fragment]:
    """Join neighbouring runs of the same style, into which Word splits text for its own purposes."""
    index = 0
    while index < len(fragments):
        fragment, following = fragments[index], fragments[index + 1] if index + 1 < len(fragments) else None
        is_run_end = fragment.kind is Kind.CLOSE and fragment.name.startswith("w:r ")
        if is_run_end and following and following.kind is Kind.OPEN and following.name == fragment.name:
            yield Fragment(Kind.UNIT, fragment.raw + following.raw, output="")
            index += 1
        else:
            yield fragment
        index += 1


def _open_document_fragments(tokens: Sequence[_Token]) -> Iterator[Fragment]:
    index, inside, ends = 0, False, _element_ends(tokens)
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
            yield Fragment(Kind.UNIT, _raw(tokens[index:end]), " " if token.name in _SPACES else "")
        else:
            yield Fragment(Kind.TEXT if token.kind == "text" else Kind.UNIT, token.raw, token.text)
        index = end


def _children(tokens: Sequence[_Token]) -> Iterator[tuple[int, int]]:
    """Yield where each child of an element starts and ends among its tokens."""
    index, ends = 1, _element_ends(tokens)
    while index < len(tokens) - 1:
        yield index, ends[index]
        index = ends[index]


def _element_ends(tokens: Sequence[_Token]) -> list[int]:
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


def _raw(tokens: Sequence[_Token]) -> str:
    return "".join(token.raw for token in tokens)

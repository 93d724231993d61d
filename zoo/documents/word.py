"""Word documents (.docx). Everything but the text of paragraphs is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from zoo.documents.fragments import Archive, Format, Fragment, Kind, Syntax, View
from zoo.documents.xml_tokens import Token, children, element_ends, join_raw, read_tokens

_PARTS = ("word/document", "word/header", "word/footer", "word/footnotes", "word/endnotes")
_WORD_INLINE = ("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:fldSimple")
_SPACES = ("w:tab", "w:br", "w:cr")
_WORD_COPIED = (
    *("w:del", "w:moveFrom", "w:proofErr", "w:bookmarkStart", "w:bookmarkEnd", "w:commentRangeStart"),
    *("w:commentRangeEnd", "w:permStart", "w:permEnd", "m:oMath"),
)


def _parse(text: str) -> list[Fragment]:
    """Return the fragments of a part of a Word document (.docx). A run is an inline element.

    Raises:
        ZooError: The XML is damaged, or declares entities.
    """
    return list(_join_runs(list(_word_fragments(read_tokens(text)))))


def _word_fragments(tokens: Sequence[Token]) -> Iterator[Fragment]:
    index, ends = 0, element_ends(tokens)
    while index < len(tokens):
        token, end = tokens[index], ends[index]
        if token.kind == "start" and token.name == "w:r":
            yield from _run_fragments(tokens[index:end])
        elif token.kind == "start" and token.name in _WORD_COPIED:
            yield Fragment(Kind.UNIT, join_raw(tokens[index:end]))
        elif token.name in _WORD_INLINE:
            yield Fragment(Kind.OPEN if token.kind == "start" else Kind.CLOSE, token.raw, name=token.name)
            end = index + 1
        else:
            yield Fragment(Kind.BREAK, token.raw)
            end = index + 1
        index = end


def _run_fragments(tokens: Sequence[Token]) -> Iterator[Fragment]:
    """Yield the fragments of a run. It is a unit if it has no text."""
    inside = [tokens[start:end] for start, end in children(tokens)]
    raws = [join_raw(child) for child in inside]
    if not any(child[0].name == "w:t" for child in inside):
        yield Fragment(Kind.UNIT, join_raw(tokens))
        return
    style = raws.pop(0) if inside[0][0].name == "w:rPr" else ""
    if style:
        del inside[0]
    yield Fragment(Kind.OPEN, tokens[0].raw + style, name=f"w:r {style}")
    for child, raw in zip(inside, raws, strict=True):
        kind = child[0].name
        if kind == "w:t":
            text = "".join(token.text for token in child)
            yield Fragment(Kind.UNIT, child[0].raw, output="")
            yield Fragment(Kind.TEXT, join_raw(child[1:-1]), text, output=_escape(text))
            yield Fragment(Kind.UNIT, child[-1].raw if len(child) > 1 else "", output="")
        elif kind in _SPACES:
            yield Fragment(Kind.LINE, raw, " " if kind != "w:tab" else "")
        else:
            yield Fragment(Kind.UNIT, raw, output=raw if raw.strip() else "")
    yield Fragment(Kind.CLOSE, tokens[-1].raw, name=f"w:r {style}")


def _escape(text: str) -> str:
    return f'<w:t xml:space="preserve">{escape(text)}</w:t>'


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


_FORMAT = (View(_parse, Syntax(_escape, needs_runs=True)),)


def _formats(names: Sequence[str], read: Callable[[str], str]) -> Mapping[str, Format]:
    return {name: _FORMAT for name in names if name.startswith(_PARTS) and name.endswith(".xml")}


FORMAT = Archive(_formats)

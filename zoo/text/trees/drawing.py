"""Trees as pictures: words at the bottom, each constituent over what it consists of."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from zoo.text.trees.symbols import XX
from zoo.text.trees.tree import Tree, unescaped

WORD, TAG, LABEL, SENTENCE = 15, 11, 13, 14
"""Sizes of letters: of words, of their parts of speech, of constituents, and of the sentence over a tree; in pixels."""
_GAP, _ROW, _MARGIN, _BETWEEN, _ROUND = 16, 40, 24, 48, 6
"""Between words, from one row of labels to the next, round it all, between trees; of a corner."""
_TO_WORD = 21
"""From a part of speech down to its word."""
_BOLD = 1.13
"""How much wider a bold letter is."""
_UNDRAWABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
"""What XML has no letter for, or what turns the letters after it round."""
_NARROW = frozenset("!'(),-./:;I[\\]fijlrt|")
_STYLE = f"""\
text {{ font-family: Helvetica, Arial, sans-serif; text-anchor: middle }}
.page {{ fill: #fff }}
.word {{ font-size: {WORD}px; fill: #111 }}
.tag {{ font-size: {TAG}px; fill: #666 }}
.label {{ font-size: {LABEL}px; font-weight: bold; fill: #1f5fa8 }}
.sentence {{ font-size: {SENTENCE}px; fill: #666; text-anchor: start }}
.edge {{ fill: none; stroke: #aaa; stroke-width: 1.3 }}
@media (prefers-color-scheme: dark) {{
.page {{ fill: #16181d }}
.word {{ fill: #eee }}
.tag, .sentence {{ fill: #9a9fa8 }}
.label {{ fill: #8ab8f0 }}
.edge {{ stroke: #5a606b }}
}}
"""


def drawing(*trees: Tree) -> str:
    """An SVG of trees, which needs no other file; of several, one under the other, each under its sentence.

    It has the colours of light or dark as its reader prefers them; its title is the bracketed trees. A bracket in a
    word, which a treebank writes `-LRB-`, is one, and `XX`, which stands for no part of speech, is not drawn.
    """
    parts: list[str] = []
    across, y = 0.0, float(_MARGIN)
    for number, tree in enumerate(trees):
        y += _BETWEEN if number else 0
        if len(trees) > 1:
            sentence = " ".join(map(_spoken, tree.leaves()))
            parts.append(_text("sentence", _MARGIN, y + SENTENCE, sentence))
            across = max(across, width(sentence, SENTENCE))
            y += 2 * SENTENCE
        picture = _Picture(tree)
        parts += [f'<g transform="translate({_MARGIN} {y:g})">', *picture.parts, "</g>"]
        across, y = max(across, picture.width), y + picture.height
    wide, high = (f"{each:.0f}" for each in (across + 2 * _MARGIN, y + _MARGIN))
    title = "\n".join(_drawable(str(tree)) for tree in trees)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}">',
            f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *parts,
            "</svg>\n",
        ]
    )


def width(text: str, size: float, *, bold: bool = False) -> float:
    """How wide a text is, in pixels, in letters of this size: about, and rather more than less.

    The fonts of readers differ; this has room for a wide one, such as DejaVu Sans.
    """
    return (_BOLD if bold else 1.0) * size * sum(map(_share, text))


def _share(letter: str) -> float:
    """How wide a letter is beside its height."""
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):  # stands on the letter before it, or is not seen
        return 0.0
    if letter in _NARROW:
        return 0.42
    if letter in "%@MWmw" or not (letter.isascii() or letter.isalnum()) or unicodedata.east_asian_width(letter) in "WF":
        return 1.02
    return 0.66 if letter.islower() or letter.isdigit() else 0.85


@dataclass(frozen=True)
class _Span:
    """A tree with the room that it takes across, and the row that it stands in: those of words are 0."""

    tree: Tree
    parts: tuple[_Span, ...]
    width: float
    row: int

    @classmethod
    def of(cls, tree: Tree) -> _Span:
        if tree.word:
            return cls(tree, (), _GAP + max(width(_label(tree), TAG), width(_spoken(tree.word), WORD)), 0)
        parts = tuple(map(_Span.of, tree.children))
        across = max(_GAP + width(_label(tree), LABEL, bold=True), sum(part.width for part in parts))
        return cls(tree, parts, across, 1 + max(part.row for part in parts))

    @property
    def over(self) -> float:
        """What is to be kept free over where its label stands; of a word without one, it is below."""
        return 2.0 + LABEL if self.parts else 2.0 + TAG if _label(self.tree) else WORD + 3 - _TO_WORD


class _Picture:
    """One tree, from its root at the top to its words. Nothing lies on anything else.

    What stands in one row has its own columns, lines go down through columns that are free, and across between rows.
    """

    def __init__(self, tree: Tree) -> None:
        span = _Span.of(tree)
        self._rows = span.row
        self.width, self.height = span.width, LABEL + span.row * _ROW + _TO_WORD + WORD / 2
        self._edges: list[str] = []
        self._texts: list[str] = []
        self._place(span, 0.0)
        self.parts = [*self._edges, *self._texts]

    def _place(self, span: _Span, left: float) -> float:
        """Draws what is in these columns, and says over what point of them the uppermost label is."""
        y, label = self._base(span), _label(span.tree)
        if span.tree.word:
            middle = left + span.width / 2
            self._texts += [_text("tag", middle, y, label)] if label else []
            self._texts.append(_text("word", middle, y + _TO_WORD, _spoken(span.tree.word)))
            return middle
        at = left + (span.width - sum(part.width for part in span.parts)) / 2
        middles = []
        for part in span.parts:
            middles.append(self._place(part, at))
            at += part.width
        half = width(label, LABEL, bold=True) / 2
        middle = min(max((middles[0] + middles[-1]) / 2, left + half), left + span.width - half)
        self._texts.append(_text("label", middle, y, label))
        way = _way(middle, y + 5, middles, [self._base(part) - part.over for part in span.parts])
        self._edges.append(f'<path class="edge" d="{way}"/>')
        return middle

    def _base(self, span: _Span) -> float:
        """Where its label stands."""
        return LABEL + (self._rows - span.row) * _ROW


def _way(x: float, y: float, middles: Sequence[float], tops: Sequence[float]) -> str:
    """Down from a label to a bar, and from that down to each part, round its corners at both ends."""
    bar, first, last, bend = y + 6, middles[0], middles[-1], _ROUND
    if len(middles) == 1:
        return f"M{x:g} {y:g} V{bar:g} H{first:g} V{tops[0]:g}"
    inner = "".join(f" M{at:g} {bar:g} V{top:g}" for at, top in zip(middles[1:-1], tops[1:-1], strict=True))
    return (
        f"M{first:g} {tops[0]:g} V{bar + bend:g} q0 {-bend:g} {bend:g} {-bend:g} "
        f"H{last - bend:g} q{bend:g} 0 {bend:g} {bend:g} V{tops[-1]:g} M{x:g} {y:g} V{bar:g}{inner}"
    )


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(text)}</text>'


def _spoken(word: str) -> str:
    """A word of a tree as its sentence has it."""
    return _drawable(unescaped(word))


def _label(tree: Tree) -> str:
    return "" if tree.word and tree.label == XX else _drawable(tree.label)


def _drawable(text: str) -> str:
    return _UNDRAWABLE.sub("\ufffd", text)

"""Drawing of constituency trees as SVG, with the words at the bottom and each constituent above its children."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zoo.text.trees.tree import XX, Tree, unescape_brackets
from zoo.visualization.page import FONT, element, image, replace_unprintable, text, text_width

WORD, TAG, LABEL, SENTENCE = 15, 11, 13, 14
"""Font sizes for words, parts of speech, constituent labels, and the sentence above a tree. Unit: pixels."""
_WORD_GAP, _ROW_HEIGHT, _MARGIN, _TREE_GAP, _CORNER_RADIUS = 16, 40, 24, 48, 6
_TAG_TO_WORD = 21  # pixels from the baseline of a part of speech down to the baseline of its word
_STYLE = f"""\
text {{ font-family: {FONT}; text-anchor: middle }}
.page {{ fill: var(--page) }}
.word {{ font-size: {WORD}px; fill: var(--ink) }}
.tag {{ font-size: {TAG}px; fill: var(--quiet) }}
.label {{ font-size: {LABEL}px; font-weight: bold; fill: var(--accent) }}
.sentence {{ font-size: {SENTENCE}px; fill: var(--quiet); text-anchor: start }}
.edge {{ fill: none; stroke: var(--line); stroke-width: 1.3 }}
"""


def draw_svg(*trees: Tree) -> str:
    """Return a self-contained SVG image of the trees.

    Several trees are drawn below one another, each under its sentence. The colours follow the browser's light or dark
    theme. The title of the image is the bracketed notation. `-LRB-` and `-RRB-` are drawn as round brackets. The tag
    `XX` (no part of speech) is not drawn.
    """
    parts: list[str] = []
    max_width, y = 0.0, float(_MARGIN)
    for number, tree in enumerate(trees):
        y += _TREE_GAP if number else 0
        if len(trees) > 1:
            sentence = " ".join(map(_display_word, tree.leaves()))
            parts.append(text("sentence", _MARGIN, y + SENTENCE, sentence))
            max_width = max(max_width, text_width(sentence, SENTENCE))
            y += 2 * SENTENCE
        picture = _TreePicture(tree)
        parts += [f'<g transform="translate({_MARGIN} {y:g})">', *picture.parts, "</g>"]
        max_width, y = max(max_width, picture.width), y + picture.height
    return image("\n".join(map(str, trees)), _STYLE, max_width + 2 * _MARGIN, y + _MARGIN, *parts)


@dataclass(frozen=True)
class _Box:
    """Node of a tree, with the width of its drawing in pixels, and its row in the drawing. Words are in row 0."""

    tree: Tree
    children: tuple[_Box, ...]
    width: float
    row: int

    @classmethod
    def measure(cls, tree: Tree) -> _Box:
        """Return the box of a tree, with the boxes of all its descendants."""
        if tree.word:
            widest = max(text_width(_display_label(tree), TAG), text_width(_display_word(tree.word), WORD))
            return cls(tree, (), _WORD_GAP + widest, 0)
        children = tuple(map(_Box.measure, tree.children))
        label_width = _WORD_GAP + text_width(_display_label(tree), LABEL, bold=True)
        total_width = max(label_width, sum(child.width for child in children))
        return cls(tree, children, total_width, 1 + max(child.row for child in children))

    @property
    def clearance(self) -> float:
        """Pixels from the lower end of the parent's edge to the label's baseline. Negative for untagged words."""
        if self.children:
            return 2.0 + LABEL
        return 2.0 + TAG if _display_label(self.tree) else WORD + 3 - _TAG_TO_WORD


class _TreePicture:
    """SVG elements of one tree, from the root at the top to the words. Elements do not overlap.

    Boxes of the same row occupy separate columns. Edges run down through free columns and across between rows.
    """

    def __init__(self, tree: Tree) -> None:
        box = _Box.measure(tree)
        self._rows = box.row
        self.width, self.height = box.width, LABEL + box.row * _ROW_HEIGHT + _TAG_TO_WORD + WORD / 2
        self._edges: list[str] = []
        self._texts: list[str] = []
        self._draw(box, 0.0)
        self.parts = [*self._edges, *self._texts]

    def _draw(self, box: _Box, left: float) -> float:
        """Draw a box and all its descendants. `left` is the x coordinate of its left side.

        Returns:
            The x coordinate of the centre of its label.
        """
        y, label = self._baseline(box), _display_label(box.tree)
        if box.tree.word:
            centre = left + box.width / 2
            self._texts += [text("tag", centre, y, label)] if label else []
            self._texts.append(text("word", centre, y + _TAG_TO_WORD, _display_word(box.tree.word)))
            return centre
        x = left + (box.width - sum(child.width for child in box.children)) / 2
        centres = []
        for child in box.children:
            centres.append(self._draw(child, x))
            x += child.width
        half = text_width(label, LABEL, bold=True) / 2
        centre = min(max((centres[0] + centres[-1]) / 2, left + half), left + box.width - half)
        self._texts.append(text("label", centre, y, label))
        path = _edge_path(centre, y + 5, centres, [self._baseline(child) - child.clearance for child in box.children])
        self._edges.append(element("path", kind="edge", d=path))
        return centre

    def _baseline(self, box: _Box) -> float:
        """Return the y coordinate of the baseline of a box's label."""
        return LABEL + (self._rows - box.row) * _ROW_HEIGHT


def _edge_path(x: float, y: float, centres: Sequence[float], tops: Sequence[float]) -> str:
    """Return an SVG path from a label down to a horizontal bar, and from the bar down to each child."""
    bar, first, last, radius = y + 6, centres[0], centres[-1], _CORNER_RADIUS
    if len(centres) == 1:
        return f"M{x:g} {y:g} V{bar:g} H{first:g} V{tops[0]:g}"
    inner = "".join(f" M{at:g} {bar:g} V{top:g}" for at, top in zip(centres[1:-1], tops[1:-1], strict=True))
    return (
        f"M{first:g} {tops[0]:g} V{bar + radius:g} q0 {-radius:g} {radius:g} {-radius:g} "
        f"H{last - radius:g} q{radius:g} 0 {radius:g} {radius:g} V{tops[-1]:g} M{x:g} {y:g} V{bar:g}{inner}"
    )


def _display_word(word: str) -> str:
    return replace_unprintable(unescape_brackets(word))


def _display_label(tree: Tree) -> str:
    return "" if tree.word and tree.label == XX else replace_unprintable(tree.label)

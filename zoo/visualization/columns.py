"""An attention as the paper's figures draw it: words in two columns, lines coloured by head, opacity by weight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from zoo.generation.attention import Attention
from zoo.text.trees.drawing import width
from zoo.visualization.page import text
from zoo.visualization.style import DARK, FONT, LIGHT, series
from zoo.visualization.view import KINDS, View

_WORD, _ROW, _BETWEEN, _MARGIN, _GAP = 15, 22, 260, 24, 8
"""Of letters; from a word to the next, between the columns, round it all, from a word to its lines; in pixels."""
_HEAD, _BOLD = 34, 1.1
"""From a head's mark to the next one's, in pixels; how much wider a bold letter is."""
_LEVELS = 32
"""Of opacity: a line of less than half of one is not drawn."""
_APART, _WIDE = 2.5, 14.0
"""From a head's line to the next one's where they are few, and from the first one's to the last one's at most."""


def columns(found: Attention, view: View) -> str:
    """An SVG of this view, over words, which needs no other file, in the colours that its reader prefers."""
    kind, words = KINDS[view.kind], found.by_words()
    weights, rows, seen = kind.of(words)
    left, right = (max(width(word, _WORD) for word in side) for side in (rows, seen))
    start = _MARGIN + left + _GAP
    top = _MARGIN + 2 * _ROW
    title = f"{kind.title} attention, layer {view.layer} of {len(weights)}"
    legend = max(_HEAD * len(view.heads), _BOLD * width(title, _WORD))
    wide = max(start + _BETWEEN + _GAP + right, _MARGIN + legend) + _MARGIN
    high = top + _ROW * max(len(rows), len(seen)) + _MARGIN
    told = f"{title}, head{'s' * (len(view.heads) > 1)} {', '.join(map(str, view.heads))}: {found.text}"
    style = _style(view.heads)
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}">',
            f"<title>{text(told)}</title>\n<style>\n{style}</style>",
            '<rect class="page" width="100%" height="100%"/>',
            *_legend(title, view.heads),
            f'<g transform="translate(0 {top})">',
            *_lines(weights[view.layer - 1], view, start),
            *_column("row", start - _GAP, rows, view.word),
            *_column("column", start + _BETWEEN + _GAP, seen, None),
            "</g>\n</svg>\n",
        ]
    )


def _lines(weights: Tensor, view: View, x: float) -> Iterator[str]:
    """A path for each head and opacity, the faint ones first."""
    apart = min(_APART, _WIDE / len(view.heads))
    for place, head in enumerate(view.heads):
        levels = weights[head - 1].mul(_LEVELS).round().int()
        shift = _ROW / 2 + apart * (place - (len(view.heads) - 1) / 2)
        for level in range(1, _LEVELS + 1):
            pairs = (levels == level).nonzero().tolist()
            parts = [
                f"M{x:g} {_ROW * row + shift:g}L{x + _BETWEEN:g} {_ROW * column + shift:g}"
                for row, column in pairs
                if view.word in (None, row)
            ]
            if parts:
                yield f'<path class="head-{head}" stroke-opacity="{level / _LEVELS:g}" d="{"".join(parts)}"/>'


def _column(kind: str, x: float, words: Sequence[str], chosen: int | None) -> Iterator[str]:
    for place, word in enumerate(words):
        y = _ROW * place + _ROW / 2 + _WORD / 3
        quiet = " quiet" if chosen not in (None, place) else ""
        yield f'<text class="{kind}{quiet}" x="{x:g}" y="{y:g}">{text(word)}</text>'


def _legend(title: str, heads: Sequence[int]) -> Iterator[str]:
    """Whose it is, and the colours of heads."""
    yield f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 6}">{text(title)}</text>'
    for place, head in enumerate(heads):
        x, y = _MARGIN + 8 + _HEAD * place, _MARGIN + 24
        yield f'<circle class="mark-{head}" cx="{x}" cy="{y}" r="6"/>'
        yield f'<text class="number" x="{x + 9}" y="{y + 4}">{head}</text>'


def _style(heads: Sequence[int]) -> str:
    return (
        f"text {{ font: {_WORD}px {FONT} }}\n.row {{ text-anchor: end }}\n.title {{ font-weight: bold }}\n"
        f".number {{ font-size: 12px }}\npath {{ fill: none; stroke-width: 1.8 }}\n{_colours(heads, LIGHT)}"
        f"@media screen and (prefers-color-scheme: dark) {{\n{_colours(heads, DARK)}}}\n"
    )


def _colours(heads: Sequence[int], named: Mapping[str, str]) -> str:
    own = (
        f".head-{head} {{ stroke: {series(head - 1, dark=named is DARK)} }} "
        f".mark-{head} {{ fill: {series(head - 1, dark=named is DARK)} }}\n"
        for head in heads
    )
    ground = (
        f".page {{ fill: {named['page']} }} text {{ fill: {named['ink']} }} text.quiet {{ fill: {named['quiet']} }}"
    )
    return "\n".join([ground, "".join(own)])

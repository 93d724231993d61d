"""Draw attention as Figures 3 to 5 do: lines between two columns of words, with a colour for each head.

The opacity of a line is the attention weight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from zoo.generation.attention import Attention
from zoo.visualization.attention_view import ATTENTIONS, View
from zoo.visualization.style import DARK, FONT, LIGHT, series_colour
from zoo.visualization.svg import element, image, text, text_width

# All sizes are in pixels.
_FONT_SIZE, _ROW_HEIGHT, _COLUMN_DISTANCE, _MARGIN, _GAP = 15, 22, 260, 24, 8
_HEAD_DISTANCE, _BOLD_FACTOR = 34, 1.1
_OPACITY_LEVELS = 32  # a weight below half a level is not drawn
_LINE_DISTANCE, _MAX_BUNDLE_HEIGHT = 2.5, 14.0


def attention_svg(attention: Attention, view: View) -> str:
    """Return an SVG drawing of the attention weights that `view` selects.

    The SVG needs no other file and follows the reader's light or dark mode.
    """
    kind, by_words = ATTENTIONS[view.kind], attention.by_words()
    weights, rows, columns = kind.read(by_words)
    left, right = (max(text_width(word, _FONT_SIZE) for word in side) for side in (rows, columns))
    start = _MARGIN + left + _GAP
    top = _MARGIN + 2 * _ROW_HEIGHT
    title = f"{kind.title} attention, layer {view.layer} of {len(weights)}"
    legend = max(_HEAD_DISTANCE * len(view.heads), _BOLD_FACTOR * text_width(title, _FONT_SIZE))
    total_width = max(start + _COLUMN_DISTANCE + _GAP + right, _MARGIN + legend) + _MARGIN
    height = top + _ROW_HEIGHT * max(len(rows), len(columns)) + _MARGIN
    heads = f"head{'s' * (len(view.heads) > 1)} {', '.join(map(str, view.heads))}"
    return image(
        f"{title}, {heads}: {attention.text}",
        _style(view.heads),
        total_width,
        height,
        *_legend(title, view.heads),
        f'<g transform="translate(0 {top})">',
        *_lines(weights[view.layer - 1], view, start),
        *_column("row", start - _GAP, rows, view.word),
        *_column("column", start + _COLUMN_DISTANCE + _GAP, columns, None),
        "</g>",
    )


def _lines(weights: Tensor, view: View, x: float) -> Iterator[str]:
    """Yield an SVG path with the lines of each head and each level of opacity, faint lines first.

    Args:
        weights: Attention weights of one layer, [heads, rows, columns].
        view: The heads and the word to draw.
        x: Horizontal position of the left ends of the lines, in pixels.
    """
    distance = min(_LINE_DISTANCE, _MAX_BUNDLE_HEIGHT / len(view.heads))
    for index, head in enumerate(view.heads):
        levels = weights[head - 1].mul(_OPACITY_LEVELS).round().int()
        shift = _ROW_HEIGHT / 2 + distance * (index - (len(view.heads) - 1) / 2)
        for level in range(1, _OPACITY_LEVELS + 1):
            pairs = (levels == level).nonzero().tolist()
            parts = [
                f"M{x:g} {_ROW_HEIGHT * row + shift:g}L{x + _COLUMN_DISTANCE:g} {_ROW_HEIGHT * column + shift:g}"
                for row, column in pairs
                if view.word in (None, row)
            ]
            if parts:
                opacity = f"{level / _OPACITY_LEVELS:g}"
                yield element("path", kind=f"head-{head}", stroke_opacity=opacity, d="".join(parts))


def _column(side: str, x: float, words: Sequence[str], chosen: int | None) -> Iterator[str]:
    for index, word in enumerate(words):
        y = _ROW_HEIGHT * index + _ROW_HEIGHT / 2 + _FONT_SIZE / 3
        quiet = " quiet" if chosen not in (None, index) else ""
        yield text(f"{side}{quiet}", x, y, word)


def _legend(title: str, heads: Sequence[int]) -> Iterator[str]:
    yield text("title", _MARGIN, _MARGIN + 6, title)
    for index, head in enumerate(heads):
        x, y = _MARGIN + 8 + _HEAD_DISTANCE * index, _MARGIN + 24
        yield element("circle", kind=f"mark-{head}", cx=x, cy=y, r=6)
        yield text("number", x + 9, y + 4, str(head))


def _style(heads: Sequence[int]) -> str:
    return (
        f"text {{ font: {_FONT_SIZE}px {FONT} }}\n.row {{ text-anchor: end }}\n.title {{ font-weight: bold }}\n"
        f".number {{ font-size: 12px }}\npath {{ fill: none; stroke-width: 1.8 }}\n{_colours(heads, LIGHT)}"
        f"@media screen and (prefers-color-scheme: dark) {{\n{_colours(heads, DARK)}}}\n"
    )


def _colours(heads: Sequence[int], theme: Mapping[str, str]) -> str:
    page = f".page {{ fill: {theme['page']} }} text {{ fill: {theme['ink']} }} text.quiet {{ fill: {theme['quiet']} }}"
    colours = [(head, series_colour(head - 1, dark=theme is DARK)) for head in heads]
    by_head = (f".head-{head} {{ stroke: {colour} }} .mark-{head} {{ fill: {colour} }}\n" for head, colour in colours)
    return "\n".join([page, "".join(by_head)])

"""Attention weights as an SVG drawing and as an HTML page, which also shows them as matrices.

As in Figures 3 to 5 of the paper, lines connect two columns of words, with a colour for each head. The opacity of a
line is the attention weight. This module also describes these figures: their sentences, and the layer, heads and word
that they show.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from specs import ZooError
from specs.errors import suggest
from zoo.generation.attention import Attention
from zoo.visualization.page import (
    asset,
    element,
    escape_text,
    grey_picture,
    image,
    json_element,
    page,
    replace_unprintable,
    text,
    text_width,
)

# All sizes are in pixels. The font size is also in `attention_drawing.css`.
_FONT_SIZE, _ROW_HEIGHT, _COLUMN_DISTANCE, _MARGIN, _GAP = 15, 22, 260, 24, 8
_HEAD_DISTANCE, _BOLD_FACTOR, _PICTURE_WIDTH = 34, 1.1, 120
_OPACITY_LEVELS = 32  # a weight below half a level is not drawn
_LINE_DISTANCE, _MAX_BUNDLE_HEIGHT = 2.5, 14.0
STEPS = 255
"""Weights are stored in the page as multiples of 1 / STEPS, with one byte for each weight."""
FIGURE_ATTENTION, FIGURE_LAYER, FIGURE_LAYERS = "encoder", 5, 6
"""Figures 3 to 5 all show the self-attention of encoder layer 5 of 6."""
_LAW = "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion."


@dataclass(frozen=True)
class AttentionKind:
    """One of the paper's three kinds of attention: encoder, decoder or encoder-decoder (section 3.2.3).

    `read` returns the attention weights, the row labels and the column labels.
    """

    title: str
    rows_title: str
    columns_title: str
    read: Callable[[Attention], tuple[Float[Tensor, "layers h rows columns"], Sequence[str], Sequence[str]]]


_TARGET = "The target, as it is written"
ATTENTIONS: Mapping[str, AttentionKind] = {
    "encoder": AttentionKind(
        "Encoder", "The source, as it is read", "The source", lambda a: (a.encoder, a.source, a.source)
    ),
    "decoder": AttentionKind("Decoder", _TARGET, "The target so far", lambda a: (a.decoder, a.target, a.target_input)),
    "encoder-decoder": AttentionKind("Encoder-decoder", _TARGET, "The source", lambda a: (a.cross, a.target, a.source)),
}


@dataclass(frozen=True)
class Figure:
    """Figure in the paper that shows the attention weights of some heads for one word in a sentence.

    `heads` is empty if the paper does not number the heads. `word` is None if the figure shows all words. `shows`
    describes the figure in words.
    """

    sentence: str
    heads: tuple[int, ...]
    word: str | None
    shows: str


FIGURES: Mapping[int, Figure] = {
    3: Figure(
        "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
        "registration or voting process more difficult.",
        (),
        "making",
        "a long-distance dependency: many heads attend from “making” to “more difficult”, which completes it",
    ),
    4: Figure(
        _LAW, (5, 6), "its", "anaphora resolution: heads 5 and 6 attend sharply from “its” to “Law” and “application”"
    ),
    5: Figure(_LAW, (), None, "heads that follow the structure of the sentence, each in a different way"),
}
"""The figures by their numbers."""


@dataclass(frozen=True)
class View:
    """Selection of the attention weights to draw: the kind of attention, the layer, the heads and the word.

    Layers and heads are counted from 1, as in the paper. `word` is the index of the row to draw, counted from 0. None
    draws all rows.
    """

    kind: str
    layer: int
    heads: tuple[int, ...]
    word: int | None = None

    @classmethod
    def of(
        cls,
        attention: Attention,
        kind: str | None = None,
        layer: int | None = None,
        heads: Sequence[int] = (),
        word: str | None = None,
        figure: int | None = None,
    ) -> View:
        """Create a view from a user's selection, with defaults for anything that is not specified.

        Args:
            attention: The attention weights to select from.
            kind: A key of `ATTENTIONS`. By default, the first kind that the model has, or the last kind if the source
                is a recording or an image.
            layer: A layer, counted from 1. By default, the second-to-last layer.
            heads: Heads, counted from 1. By default, all heads.
            word: A word among the row labels. By default, all words.
            figure: Number of a figure in the paper. Its layer, heads and word become the defaults if the model and the
                sentence contain them. The figure is ignored if `kind` differs from the figure's kind of attention.

        Raises:
            ZooError: The model lacks this kind of attention, layer or head, or the sentence does not contain the word.
        """
        available = [name for name, each in ATTENTIONS.items() if len(each.read(attention)[0])]
        if figure is not None and kind in (None, FIGURE_ATTENTION):
            kind, shown = FIGURE_ATTENTION, FIGURES[figure]
            layers, head_count = attention.encoder.shape[:2]
            layer = layer or (FIGURE_LAYER if layers >= FIGURE_LAYERS else None)
            heads = heads or (shown.heads if max(shown.heads, default=0) <= head_count else ())
            if word is None and shown.word in [_normalised(row) for row in attention.by_words().source]:
                word = shown.word
        kind = available[0 if attention.picture is None else -1] if kind is None else kind
        if kind not in available:
            raise ZooError(f"this model has no `{kind}` attention", hint=f"choose one of: {', '.join(available)}")
        weights, rows, _ = ATTENTIONS[kind].read(attention.by_words())
        layers, head_count = weights.shape[:2]
        _require_within("layer", [] if layer is None else [layer], layers)
        _require_within("head", heads, head_count)
        chosen = tuple(dict.fromkeys(heads)) or tuple(range(1, head_count + 1))
        return cls(kind, layer or max(1, layers - 1), chosen, None if word is None else _row_of(word, rows))


def figure_caption(figure: int, attention: Attention, view: View) -> str:
    """Return a caption that describes a figure in the paper, and how `view` differs from the figure."""
    caption = f"Figure {figure} shows, in encoder layer {FIGURE_LAYER} of {FIGURE_LAYERS}, {FIGURES[figure].shows}."
    layers = len(ATTENTIONS[FIGURE_ATTENTION].read(attention)[0])
    if view.kind == FIGURE_ATTENTION and (view.layer, layers) != (FIGURE_LAYER, FIGURE_LAYERS):
        caption += f" This model's encoder has {layers} layer{'s' * (layers > 1)}; this page shows layer {view.layer}."
    return f"{caption} The role of each head is learned by chance, so it differs between models."


def _normalised(word: str) -> str:
    """Return the word in lower case, without punctuation at its ends."""
    return word.strip(".,;:!?\"'()[]„“”»«").casefold() or word


def _require_within(name: str, numbers: Sequence[int], count: int) -> None:
    for number in numbers:
        if not 1 <= number <= count:
            available = f"{name}s 1 to {count}" if count > 1 else f"one {name}"
            hint = f"choose a valid {name}: this kind of attention has {available}"
            raise ZooError(f"there is no {name} {number}", hint=hint)


def _row_of(word: str, rows: Sequence[str]) -> int:
    """Return the index of the first row label that equals a word. If no label does, ignore case and punctuation.

    Raises:
        ZooError: No row label equals the word, even if case and punctuation are ignored.
    """
    equal = [index for index, row in enumerate(rows) if row == word]
    similar = [index for index, row in enumerate(rows) if _normalised(row) == _normalised(word)]
    if not equal and not similar:
        hint = suggest(word, rows).strip() or f"the words are: {' '.join(rows)}"
        raise ZooError(f"the sentence does not contain the word `{word}`", hint=hint)
    return (equal or similar)[0]


def attention_svg(attention: Attention, view: View) -> str:
    """Return an SVG drawing of the attention weights that `view` selects.

    If the columns are the positions of a recording or an image, the spectrogram or the image is drawn to their right,
    rotated so that it runs from top to bottom. The SVG is self-contained and follows the reader's light or dark mode.
    """
    kind, by_words = ATTENTIONS[view.kind], attention.by_words()
    weights, rows, columns = kind.read(by_words)
    left, right = (max(text_width(word, _FONT_SIZE) for word in side) for side in (rows, columns))
    start = _MARGIN + left + _GAP
    top = _MARGIN + 2 * _ROW_HEIGHT
    title = f"{kind.title} attention, layer {view.layer} of {len(weights)}"
    legend = max(_HEAD_DISTANCE * len(view.heads), _BOLD_FACTOR * text_width(title, _FONT_SIZE))
    end, pictures = start + _COLUMN_DISTANCE + _GAP + right, list[str]()
    if attention.picture is not None and view.kind != "decoder":
        picture = grey_picture(np.rot90(attention.picture, -1))
        size = {"width": _PICTURE_WIDTH, "height": _ROW_HEIGHT * len(columns)}
        pictures.append(element("image", href=picture, x=end + _GAP, y=0, preserveAspectRatio="none", **size))
        end += _GAP + _PICTURE_WIDTH
    total_width = max(end, _MARGIN + legend) + _MARGIN
    height = top + _ROW_HEIGHT * max(len(rows), len(columns)) + _MARGIN
    heads = f"head{'s' * (len(view.heads) > 1)} {', '.join(map(str, view.heads))}"
    return image(
        f"{title}, {heads}: {attention.text}",
        asset("attention_drawing.css"),
        total_width,
        height,
        *_legend(title, view.heads),
        f'<g transform="translate(0 {top})">',
        *_lines(weights[view.layer - 1], view, start),
        *_column("row", start - _GAP, rows, view.word),
        *_column("column", start + _COLUMN_DISTANCE + _GAP, columns, None),
        *pictures,
        "</g>",
    )


def _lines(weights: Tensor, view: View, x: float) -> Iterator[str]:
    """Yield one SVG path for the lines of each head and each opacity level, with faint lines first.

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
            parts = [
                f"M{x:g} {_ROW_HEIGHT * row + shift:g}L{x + _COLUMN_DISTANCE:g} {_ROW_HEIGHT * column + shift:g}"
                for row, column in (levels == level).nonzero().tolist()
                if view.word in (None, row)
            ]
            if parts:
                opacity = f"{level / _OPACITY_LEVELS:g}"
                yield element("path", stroke=f"var(--series-{head - 1})", stroke_opacity=opacity, d="".join(parts))


def _column(side: str, x: float, words: Sequence[str], chosen: int | None) -> Iterator[str]:
    for index, word in enumerate(words):
        y = _ROW_HEIGHT * index + _ROW_HEIGHT / 2 + _FONT_SIZE / 3
        quiet = " quiet" if chosen not in (None, index) else ""
        yield text(f"{side}{quiet}", x, y, word)


def _legend(title: str, heads: Sequence[int]) -> Iterator[str]:
    yield text("title", _MARGIN, _MARGIN + 6, title)
    for index, head in enumerate(heads):
        x, y = _MARGIN + 8 + _HEAD_DISTANCE * index, _MARGIN + 24
        yield element("circle", fill=f"var(--series-{head - 1})", cx=x, cy=y, r=6)
        yield text("number", x + 9, y + 4, str(head))


def attention_page(attention: Attention, view: View, model: str, *, caption: str = "") -> str:
    """Return a self-contained HTML page that shows the attention weights of every layer and head.

    Args:
        attention: The attention weights for one sentence and its translation.
        view: The selection that the page shows first.
        model: The name of the model, for the heading.
        caption: Text below the heading. Empty for no caption.
    """
    available = {name: kind for name, kind in ATTENTIONS.items() if len(kind.read(attention)[0])}
    places = tuple(place.removeprefix("▁") for place in attention.source)
    tokens = attention if attention.picture is None else replace(attention, source=places)
    units = {"words": attention.by_words(), "tokens": tokens}
    kinds: list[dict[str, object]] = []
    packed = b""
    for name, kind in available.items():
        layers, heads = kind.read(attention)[0].shape[:2]
        titles = {"name": name, "title": kind.title, "rowsTitle": kind.rows_title, "columnsTitle": kind.columns_title}
        entry: dict[str, object] = {**titles, "layers": layers, "heads": heads, "overSource": name != "decoder"}
        for unit, source in units.items():
            weights, rows, columns = kind.read(source)
            labels = {"rows": list(map(replace_unprintable, rows)), "columns": list(map(replace_unprintable, columns))}
            entry[unit] = {"offset": len(packed), **labels}
            packed += weights.mul(STEPS).round().to(torch.uint8).numpy().tobytes()
        kinds.append(entry)
    picture = None if attention.picture is None else grey_picture(attention.picture)
    first = {"kind": view.kind, "layer": view.layer, "heads": [head - 1 for head in view.heads], "word": view.word}
    max_heads = max(kind.read(attention)[0].shape[1] for kind in available.values())
    return page(
        f"Attention of {model}: {attention.text}",
        *_header(attention, model, caption, picture),
        _body({name: kind.title for name, kind in available.items()}, max_heads, matrices_first=bool(picture)),
        json_element("data", {"kinds": kinds, "first": first, "picture": picture}),
        f'<script type="text/plain" id="weights">{b64encode(zlib.compress(packed)).decode()}</script>',
        style=asset("attention_page.css"),
        script=asset("attention_page.js"),
        series_count=max_heads,
    )


def _header(attention: Attention, model: str, caption: str, picture: str | None) -> Iterator[str]:
    output = "the given output" if attention.forced else "the model's own output"
    yield f"<h1>Attention of {escape_text(model)}</h1>"
    if caption:
        yield f"<p>{escape_text(caption)}</p>"
    sentences = (f"<p><bdi>{escape_text(each)}</bdi></p>" for each in (attention.text, attention.translation))
    yield f"<blockquote>{''.join(sentences)}</blockquote>"
    if picture:
        yield f'<img class="picture" src="{picture}" alt="Image of the source, as the model reads it">'
    yield (
        f'<p class="quiet">The page shows attention for the source and {output}, whose log-probability is '
        f"{attention.log_probability:.2f}. The weights were computed by the backend {escape_text(attention.backend)} "
        f"in {escape_text(attention.precision)} and are rounded to 1/{STEPS}.</p>"
    )


def _body(kinds: Mapping[str, str], head_count: int, *, matrices_first: bool) -> str:
    """Return the HTML for the body of the page: a form, and empty elements that the page's script fills."""
    choices = (
        f'<label><input type="radio" name="kind" value="{name}"> {escape_text(title)}</label>'
        for name, title in kinds.items()
    )
    heads = (
        f'<label class="head"><input type="checkbox" name="head" value="{head}" aria-label="head {head + 1}">'
        f'<i style="background: var(--series-{head})"></i>{head + 1}</label>'
        for head in range(head_count)
    )
    matrices = '<h2>Matrices</h2>\n<p id="cell" class="quiet screen"></p>\n<div id="matrices"></div>\n'
    above, below = (matrices, "") if matrices_first else ("", matrices)
    template = Template(asset("attention_page.html").rstrip())
    return template.substitute(kinds="".join(choices), heads="".join(heads), matrices_above=above, matrices_below=below)

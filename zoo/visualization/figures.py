"""Figures 3 to 5 of the paper: its own sentences, and what of their attention it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.generation.attention import Attention
from zoo.visualization.view import KINDS, View, plain

SHOWN, LAYER, LAYERS = "encoder", 5, 6
"""All three show the encoder's self-attention in layer 5 of 6."""
_LAW = "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion."


@dataclass(frozen=True)
class Figure:
    number: int
    sentence: str
    heads: tuple[int, ...]
    """Those that the paper names or shows; none where it shows all."""
    word: str | None
    shows: str


FIGURES: Mapping[int, Figure] = {
    each.number: each
    for each in (
        Figure(
            3,
            "It is in this spirit that a majority of American governments have passed new laws since 2009 making the "
            "registration or voting process more difficult.",
            (),
            "making",
            "a dependency over a long distance: from “making” many heads look at “more difficult”, which completes it",
        ),
        Figure(
            4,
            _LAW,
            (5, 6),
            "its",
            "anaphora: from “its” heads 5 and 6 look sharply at what it stands for, “Law”, and at “application”",
        ),
        Figure(5, _LAW, (), None, "heads that follow the structure of the sentence, each in a way of its own"),
    )
}


def first(figure: Figure, found: Attention) -> View:
    """What of its attention is looked at first: what the paper shows, as far as this model has it."""
    layers, most = KINDS[SHOWN].of(found)[0].shape[:2]
    layer = LAYER if layers >= LAYERS else max(1, layers - 1)
    heads = figure.heads if max(figure.heads, default=0) <= most else ()
    rows = found.by_words().source
    there = figure.word is not None and plain(figure.word) in map(plain, rows)
    return View.of(found, SHOWN, layer, heads, figure.word if there else None)


def told(figure: Figure, found: Attention, view: View) -> str:
    """What the paper shows, and where this view of a model's attention is another."""
    said = f"Figure {figure.number} shows, in the encoder's layer {LAYER} of {LAYERS}, {figure.shows}."
    layers = len(KINDS[SHOWN].of(found)[0])
    if view.kind == SHOWN and (view.layer, layers) != (LAYER, LAYERS):
        said += f" This model's encoder has {layers} {'layers' if layers > 1 else 'layer'}: here it is layer "
        said += f"{view.layer}."
    return f"{said} Which head does what is chance: in another model it is another one."

"""Selection of the attention weights to show: the kind of attention, the layer, the heads and the word.

This module also describes Figures 3 to 5 of the paper: their sentences, and the layer, heads and word that they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from specs import ZooError
from specs.errors import nearest
from zoo.generation.attention import Attention

FIGURE_ATTENTION, FIGURE_LAYER, FIGURE_LAYERS = "encoder", 5, 6
"""Figures 3 to 5 all show the self-attention of encoder layer 5 of 6."""
_LAW = "The Law will never be perfect, but its application should be just - this is what we are missing, in my opinion."


@dataclass(frozen=True)
class AttentionKind:
    """One of the paper's three kinds of attention: encoder, decoder or encoder-decoder (section 3.2.3).

    It has titles for the page, and the names of the fields of `Attention` that contain its weights and labels.
    """

    title: str
    rows_title: str
    columns_title: str
    weights_field: str
    rows_field: str
    columns_field: str

    def read(self, attention: Attention) -> tuple[Float[Tensor, "layers h rows columns"], Sequence[str], Sequence[str]]:
        """Return the weights of this kind of attention, the labels of the rows, and the labels of the columns."""
        return (
            getattr(attention, self.weights_field),
            getattr(attention, self.rows_field),
            getattr(attention, self.columns_field),
        )


_TARGET = "The target, as it is written"
ATTENTIONS: Mapping[str, AttentionKind] = {
    "encoder": AttentionKind("Encoder", "The source, as it is read", "The source", "encoder", "source", "source"),
    "decoder": AttentionKind("Decoder", _TARGET, "The target so far", "decoder", "target", "target_input"),
    "encoder-decoder": AttentionKind("Encoder-decoder", _TARGET, "The source", "cross", "target", "source"),
}


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
    ) -> View:
        """Create a view from a user's selection, with defaults for everything that is not given.

        Args:
            attention: The attention weights to select from.
            kind: A key of `ATTENTIONS`. By default the first kind that the model has.
            layer: A layer, counted from 1. By default the last but one.
            heads: Heads, counted from 1. By default all heads.
            word: A word among the row labels. By default all words.

        Raises:
            ZooError: The model does not have this kind of attention, layer or head, or the sentence lacks the word.
        """
        available = [name for name, each in ATTENTIONS.items() if len(each.read(attention)[0])]
        kind = available[0] if kind is None else kind
        if kind not in available:
            raise ZooError(f"this model has no `{kind}` attention", hint=f"choose one of: {', '.join(available)}")
        weights, rows, _ = ATTENTIONS[kind].read(attention.by_words())
        layers, head_count = weights.shape[:2]
        _require_within("layer", [] if layer is None else [layer], layers)
        _require_within("head", heads, head_count)
        chosen = tuple(dict.fromkeys(heads)) or tuple(range(1, head_count + 1))
        return cls(kind, layer or max(1, layers - 1), chosen, None if word is None else _row_of(word, rows))


@dataclass(frozen=True)
class Figure:
    """A figure of the paper that shows attention: its sentence, its heads and its word.

    `heads` is empty if the figure does not name its heads. `word` is None if the figure shows all words. `shows`
    describes in words what the figure shows.
    """

    number: int
    sentence: str
    heads: tuple[int, ...]
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
            "a long-distance dependency: many heads attend from “making” to “more difficult”, which completes it",
        ),
        Figure(
            4,
            _LAW,
            (5, 6),
            "its",
            "anaphora resolution: heads 5 and 6 attend sharply from “its” to “Law” and “application”",
        ),
        Figure(5, _LAW, (), None, "heads that follow the structure of the sentence, each in a different way"),
    )
}


def figure_view(figure: Figure, attention: Attention) -> View:
    """Return a view with the layer, heads and word of a figure. Use defaults for those that the model does not have."""
    layers, head_count = ATTENTIONS[FIGURE_ATTENTION].read(attention)[0].shape[:2]
    layer = FIGURE_LAYER if layers >= FIGURE_LAYERS else max(1, layers - 1)
    heads = figure.heads if max(figure.heads, default=0) <= head_count else ()
    rows = map(_normalised, attention.by_words().source)
    has_word = figure.word is not None and _normalised(figure.word) in rows
    return View.of(attention, FIGURE_ATTENTION, layer, heads, figure.word if has_word else None)


def figure_caption(figure: Figure, attention: Attention, view: View) -> str:
    """Return a caption for the page: what the figure in the paper shows, and how this view differs from the figure."""
    caption = f"Figure {figure.number} shows, in encoder layer {FIGURE_LAYER} of {FIGURE_LAYERS}, {figure.shows}."
    layers = len(ATTENTIONS[FIGURE_ATTENTION].read(attention)[0])
    if view.kind == FIGURE_ATTENTION and (view.layer, layers) != (FIGURE_LAYER, FIGURE_LAYERS):
        caption += f" This model's encoder has {layers} layer{'s' * (layers > 1)}; this page shows layer {view.layer}."
    return f"{caption} Which head does what is learned by chance, so other models differ."


def _normalised(word: str) -> str:
    """Return the word in lower case, without punctuation at its ends."""
    return word.strip(".,;:!?\"'()[]„“”»«").casefold() or word


def _require_within(name: str, numbers: Sequence[int], count: int) -> None:
    for number in numbers:
        if not 1 <= number <= count:
            available = f"{name}s 1 to {count}" if count > 1 else f"one {name}"
            raise ZooError(f"there is no {name} {number}", hint=f"this attention has {available}")


def _row_of(word: str, rows: Sequence[str]) -> int:
    """Return the index of the first row label that equals a word. If none does, compare without case and punctuation.

    Raises:
        ZooError: No row label equals the word in either way.
    """
    equal = [index for index, row in enumerate(rows) if row == word]
    similar = [index for index, row in enumerate(rows) if _normalised(row) == _normalised(word)]
    if not equal and not similar:
        near = nearest(word, rows)
        hint = f"did you mean `{near}`?" if near else f"the words are: {' '.join(rows)}"
        raise ZooError(f"the sentence does not contain the word `{word}`", hint=hint)
    return (equal or similar)[0]

"""Context that sub-layers of all kinds need, and helpers that several kinds share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from compiler.builder import GraphBuilder, Value
from compiler.lower.positions import StackPositions
from compiler.operations.cache import AppendToCache
from compiler.operations.mask import PaddingMask
from compiler.operations.views import Concat, Slice
from specs import Architecture


class RecentPositions(NamedTuple):
    """Values of the positions before a decoder step, without and with the new ones."""

    before: Value
    all: Value


@dataclass(frozen=True)
class LayerContext:
    """Context of the sub-layers of one layer."""

    builder: GraphBuilder
    architecture: Architecture
    positions: StackPositions
    tokens: Value
    """Token IDs of the stack's input: [batch, length]."""
    causal: bool
    """Whether a position may not depend on later ones (3.2.3). Padding comes after the tokens."""
    position: Value | None = None
    """In a decoder step, the positions of the tokens: [batch, new]. Earlier positions are in the state."""
    source: Value | None = None
    """In the decoder, the token IDs of the source sentence: [batch, source]."""
    memory: Value | None = None
    """In the decoder, the output of the encoder: [batch, source, d_model]."""
    index: int = 0
    """Index of the layer in its stack."""

    def padding(self, tokens: Value) -> Value:
        """Return the mask that hides the padding of these tokens: [batch, 1, 1, length]."""
        return self.builder.shared(f"{tokens.name}_padding", PaddingMask(), (tokens,), tokens)

    def recent(self, name: str, new: Value, count: int) -> RecentPositions:
        """Keep the last `count` positions of a value as state of the decoder step.

        Args:
            name: Name of the state.
            new: Values of the new positions; positions are the last axis but one.
            count: Number of positions that the state holds.
        """
        b, shape = self.builder, new.type.shape
        before = b.state(name, *shape[:-2], count, shape[-1])
        both = b.node(f"all_{name}", AppendToCache(), (before, new))
        b.update_state(before, b.node(f"last_{name}", Slice(len(shape) - 2, start=-count), (both,)))
        return RecentPositions(before, both)


Recurrence = Callable[[Value, int, LayerContext, str, tuple[Value, ...]], Value]
"""Adds a recurrence. Arguments: x, width, context, prefix of names, and the tokens if it runs backwards."""


def bidirectional(x: Value, context: LayerContext, recurrence: Recurrence) -> Value:
    """Add one recurrence in the decoder, or two of half the width in opposite directions in the encoder.

    An encoder needs both directions; otherwise its memory of a sentence's first words would know nothing of the rest
    (Bahdanau et al. 2015; the first layer of GNMT and all layers of RNMT+). Two recurrences of half the width, whose
    outputs are concatenated, have no more parameters than the decoder's, as in OpenNMT's `brnn`.

    Args:
        x: Input: [batch, length, d_model].
        context: Context of the sub-layer.
        recurrence: Adds one recurrence.

    Returns:
        The outputs: [batch, length, d_model].
    """
    if context.causal:
        return recurrence(x, x.width, context, "", ())
    forwards = recurrence(x, x.width // 2, context, "forwards_", ())
    backwards = recurrence(x, x.width - x.width // 2, context, "backwards_", (context.tokens,))
    return context.builder.node("bidirectional", Concat(), (forwards, backwards))

"""Context that is passed to the lowering functions of all sub-layers, and helper functions that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from compiler.builder import GraphBuilder, Value
from compiler.lowering.positions import StackPositions
from compiler.operations.views import AppendToCache, Concat
from compiler.size import Size
from specs import Architecture


class Memory(NamedTuple):
    """Output of the encoder."""

    x: Value
    """Features: [batch, source, d_model]."""
    padding: Value
    """Mask that hides the positions after the end of each sequence: [batch, 1, 1, source]."""


@dataclass(frozen=True)
class LayerContext:
    """Everything that is needed to lower a sub-layer, such as masks, apart from its input and its spec."""

    builder: GraphBuilder
    architecture: Architecture
    positions: StackPositions
    stream: Value
    """Input of the stack, of which only the shape matters: [batch, length, ...]."""
    length: Value | None = None
    """In the encoder, the number of positions in each sequence, without padding: [batch]."""
    padding: Value | None = None
    """In the encoder, the mask that hides the padding: [batch, 1, 1, length]."""
    position: Value | None = None
    """In a decoder step, the positions of the new tokens: [batch, new]. The state covers earlier positions."""
    memory: Memory | None = None
    """In the decoder, the output of the encoder."""
    embedded: Value | None = None
    """In the decoder, the input of its first layer: [batch, length, d_model]."""
    index: int = 0
    """Index of the layer in its stack."""
    guided: list[Value] | None = None
    """List to which cross-attention appends its weights, in the layer that `training.guided_alignment` selects."""

    @property
    def causal(self) -> bool:
        """Whether a position must not depend on later positions, as in the decoder (section 3.2.3).

        The decoder has no padding mask, because padding comes after all tokens.
        """
        return self.padding is None

    def recent(self, name: str, new: Value, count: int | Size) -> tuple[Value, Value]:
        """Add a state to the decoder step. The state contains the last `count` positions of a value.

        Args:
            name: Name of the state.
            new: The value at the new positions. Positions are the second-to-last axis.
            count: Number of positions that the state holds. PAST: all positions.

        Returns:
            The value at the last `count` positions before the step, and the same value with the new positions appended.
        """
        b, shape = self.builder, new.type.shape
        before = b.state(name, *shape[:-2], count, shape[-1])
        both = b.node(f"all_{name}", AppendToCache(), (before, new))
        b.update_state(before, both, length_axis=len(shape) - 2)
        return before, both


Recurrence = Callable[[Value, int, LayerContext, str, tuple[Value, ...]], Value]
"""Function that adds a recurrent layer to the graph. Arguments: input, number of output features, context, prefix of
names, and a tuple, which contains the lengths if the layer runs from the last position to the first."""


def bidirectional(x: Value, context: LayerContext, recurrence: Recurrence) -> Value:
    """Add one recurrent layer to a decoder, or two half-width layers in opposite directions to an encoder.

    An encoder needs both directions. Otherwise its output for the first words would not depend on the rest of the
    sentence (Bahdanau et al. 2015; the first layer of GNMT and all layers of RNMT+). The outputs of the two layers are
    concatenated. Together, they have no more parameters than one layer of full width, as in OpenNMT's `brnn`.

    Args:
        x: Input: [batch, length, d_model].
        context: Context of the sub-layer.
        recurrence: Function that adds one recurrent layer.

    Returns:
        The outputs: [batch, length, d_model].
    """
    if context.length is None:
        return recurrence(x, x.width, context, "", ())
    forwards = recurrence(x, x.width // 2, context, "forwards_", ())
    backwards = recurrence(x, x.width - x.width // 2, context, "backwards_", (context.length,))
    return context.builder.node("bidirectional", Concat(), (forwards, backwards))

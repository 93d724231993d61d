"""Context that is passed to the lowering functions of all sub-layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from compiler.builder import GraphBuilder, Value
from compiler.operations.views import AppendToCache
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

    @property
    def stack(self) -> str:
        """Name of the stack: `encoder` or `decoder`."""
        return "decoder" if self.causal else "encoder"

    def recent(self, name: str, new: Value, count: int | Size) -> tuple[Value, Value]:
        """Add a state to the decoder step. The state contains the last `count` positions of a value.

        Args:
            name: Name of the state.
            new: The value at the new positions. Positions are the second-to-last axis.
            count: Number of positions that the state contains, or PAST for all earlier positions.

        Returns:
            The value at the last `count` positions before the step, and the same value with the new positions appended.
        """
        b, shape = self.builder, new.type.shape
        before = b.state(name, *shape[:-2], count, shape[-1])
        both = b.node(f"all_{name}", AppendToCache(), (before, new))
        b.update_state(before, both, length_axis=len(shape) - 2)
        return before, both

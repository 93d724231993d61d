"""What a sub-layer finds around it, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from compiler.builder import Builder, Value
from compiler.operations.cache import Append
from compiler.operations.views import Slice
from specs import Architecture


class Recent(NamedTuple):
    """Values of positions in a step: those of before, and with the new ones behind them."""

    before: Value
    all: Value


@dataclass(frozen=True)
class Surroundings:
    """Of all sub-layers of a stack."""

    builder: Builder
    architecture: Architecture
    tokens: Value
    """The tokens that the stack is computed on: [batch, length]."""
    causal: bool
    """Whether a position may know nothing of those after it (3.2.3). Padding is after what it pads."""
    position: Value | None = None
    """In a decoder's step: where its tokens are, which are the new ones; what went before is carried."""
    source: Value | None = None
    """In the decoder: the tokens that the memory is made of."""
    memory: Value | None = None
    """In the decoder: what the encoder made of them, [batch, source, d_model]."""
    number: int = 0
    """Of the layer, counted from the first of its stack."""

    def last(self, name: str, new: Value, count: int) -> Recent:
        """In a step: the new positions, behind so many that were before them, of which the last are carried on."""
        b, shape = self.builder, new.type.shape
        before = b.state(name, *shape[:-2], count, shape[-1])
        both = b.node(f"all_{name}", Append(), (before, new))
        b.carry(before, b.node(f"last_{name}", Slice(len(shape) - 2, start=-count), (both,)))
        return Recent(before, both)

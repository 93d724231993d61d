"""What a sub-layer finds around it, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass

from compiler.builder import Builder, Value
from specs import Architecture


@dataclass(frozen=True)
class Surroundings:
    """Of all sub-layers of a stack."""

    builder: Builder
    architecture: Architecture
    tokens: Value
    """The pieces that the stack is computed on: [batch, length]."""
    causal: bool
    """Whether a position may know nothing of those after it (3.2.3). Padding is after what it pads."""
    position: Value | None = None
    """In a decoder's step: where its tokens are, which are the new ones; what went before is carried."""
    source: Value | None = None
    """In the decoder: the pieces that the memory is made of."""
    memory: Value | None = None
    """In the decoder: what the encoder made of them, [batch, source, d_model]."""

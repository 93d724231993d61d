"""The position-wise feed-forward network, max(0, x W1 + b1) W2 + b2 (3.3), or with another curve than max(0, x)."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.builder import Value
from compiler.lower.surroundings import Surroundings
from compiler.operations.projection import Linear
from compiler.operations.residual import Activation, Dropout, Gelu, Relu, Silu
from compiler.weights import Initial
from specs import FeedForward

ACTIVATIONS: Mapping[str, Activation] = {"relu": Relu(), "silu": Silu(), "gelu": Gelu()}


def feed_forward(x: Value, of: FeedForward, around: Surroundings) -> Value:
    """Each position by itself."""
    b, a = around.builder, around.architecture
    w1, b1 = b.parameter("w1", a.d_model, a.d_ff), b.parameter("b1", a.d_ff, initial=Initial.ZERO)
    w2, b2 = b.parameter("w2", a.d_ff, a.d_model), b.parameter("b2", a.d_model, initial=Initial.ZERO)
    inner = b.node("inner", ACTIVATIONS[a.activation], (b.node("widened", Linear(), (x,), w1, b1),))
    kept = b.node("inner_dropped", Dropout(a.activation_dropout), (inner,))
    return b.node("narrowed", Linear(), (kept,), w2, b2)

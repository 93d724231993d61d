"""Position-wise feed-forward network: max(0, x W1 + b1) W2 + b2 (3.3), or with another activation function."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.builder import Value
from compiler.lower.context import LayerContext
from compiler.operations.elementwise import ActivationOperation, Dropout, Gelu, Relu, Silu
from compiler.operations.projection import Linear
from compiler.weights import Initializer
from specs import FeedForward

ACTIVATIONS: Mapping[str, ActivationOperation] = {"relu": Relu(), "silu": Silu(), "gelu": Gelu()}


def feed_forward(x: Value, sublayer: FeedForward, context: LayerContext) -> Value:
    """Apply two linear maps with an activation function in between to each position separately."""
    b, a = context.builder, context.architecture
    w1, b1 = b.parameter("w1", a.d_model, a.d_ff), b.parameter("b1", a.d_ff, initial=Initializer.ZERO)
    w2, b2 = b.parameter("w2", a.d_ff, a.d_model), b.parameter("b2", a.d_model, initial=Initializer.ZERO)
    inner = b.node("inner", ACTIVATIONS[a.activation], (b.node("expanded", Linear(), (x,), w1, b1),))
    dropped = b.node("inner_dropped", Dropout(a.activation_dropout), (inner,))
    return b.node("contracted", Linear(), (dropped,), w2, b2)

"""Lowering of the position-wise feed-forward network: max(0, x W1 + b1) W2 + b2 (3.3).

The network can have another activation function than ReLU, or be gated.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.operations.elementwise import ActivationOperation, Dropout, Gelu, GeluTanh, Multiply, Relu, Silu
from compiler.operations.projection import Linear
from compiler.weights import Initializer
from specs import FeedForward

ACTIVATIONS: Mapping[str, ActivationOperation] = {
    "relu": Relu(),
    "silu": Silu(),
    "gelu": Gelu(),
    "gelu_tanh": GeluTanh(),
}


def feed_forward(x: Value, sublayer: FeedForward, context: LayerContext) -> Value:
    """Apply two linear maps, with an activation function between them, to each position separately.

    If gated, the activation is multiplied by another linear map: (activation(x W_gate) * x W1) W2 (Shazeer 2020).
    """
    b, a = context.builder, context.architecture
    names = ("d_ff", "activation", "activation_dropout")
    d_ff, activation, dropout = (a.option(sublayer, name) for name in names)

    def linear(hint: str, x: Value, matrix: str, bias: str, width: int) -> Value:
        parameters = [b.parameter(matrix, x.width, width)]
        if sublayer.bias:
            parameters.append(b.parameter(bias, width, initial=Initializer.ZERO))
        return b.node(hint, Linear(), (x,), *parameters)

    if sublayer.gated:
        gate = b.node("gate", ACTIVATIONS[activation], (linear("gate_input", x, "gate", "gate_bias", d_ff),))
        inner = b.node("inner", Multiply(), (gate, linear("expanded", x, "w1", "b1", d_ff)))
    else:
        inner = b.node("inner", ACTIVATIONS[activation], (linear("expanded", x, "w1", "b1", d_ff),))
    dropped = b.node("inner_dropped", Dropout(dropout), (inner,))
    return linear("contracted", dropped, "w2", "b2", a.d_model)

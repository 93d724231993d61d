"""Lowering of simpler simple recurrent units (SSRU), one kind of recurrent layer of Table 1."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lowering.context import LayerContext, bidirectional
from compiler.operations.elementwise import Relu
from compiler.operations.projection import Linear
from compiler.operations.recurrence import Ssru as SsruOperation
from compiler.operations.views import Slice
from compiler.weights import Initializer
from specs import Ssru


def ssru(x: Value, sublayer: Ssru, context: LayerContext) -> Value:
    """Compute max(0, c_t) with c_t = f_t · c_(t-1) + (1 - f_t) · W x_t and f_t = sigmoid(W_f x_t + b_f).

    Unlike in an LSTM, the state c is never multiplied with a matrix (Kim et al. 2019).
    """
    return context.builder.node("active", Relu(), (bidirectional(x, context, _ssru),))


def _ssru(x: Value, width: int, context: LayerContext, prefix: str, length: tuple[Value, ...]) -> Value:
    b = context.builder
    value = b.node(f"{prefix}value", Linear(), (x,), b.parameter(f"{prefix}value", x.width, width))
    bias = b.parameter(f"{prefix}gate_bias", width, initial=Initializer.ZERO)
    gate = b.node(f"{prefix}gate", Linear(), (x,), b.parameter(f"{prefix}gate", x.width, width), bias)
    if context.position is None:
        return b.node(f"{prefix}averages", SsruOperation(backwards=bool(length)), (gate, value, *length))
    state = b.state("average", x.type.shape[0], 1, width)
    states = b.node("averages_from_state", SsruOperation(), (gate, value, state))
    b.update_state(state, states, length_axis=1)
    return b.node("averages", Slice(1, start=1), (states,))

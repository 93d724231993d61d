"""Simpler simple recurrent units, one of Table 1's recurrent layers."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lower.recurrence import both_ways
from compiler.lower.surroundings import Surroundings
from compiler.operations.projection import Linear
from compiler.operations.recurrence import Ssru as Averages
from compiler.operations.residual import Relu
from compiler.operations.views import Slice
from compiler.weights import Initial
from specs import Ssru


def ssru(x: Value, of: Ssru, around: Surroundings) -> Value:
    """max(0, c_t), c_t = f_t c_{t-1} + (1 - f_t) W x_t, f_t = sigmoid(W_f x_t + b_f) (Kim et al. 2019)."""
    return around.builder.node("active", Relu(), (both_ways(x, around, _ssru),))


def _ssru(x: Value, width: int, around: Surroundings, way: str, tokens: tuple[Value, ...]) -> Value:
    b = around.builder
    value = b.node(f"{way}value", Linear(), (x,), b.parameter(f"{way}value", x.width, width))
    bias = b.parameter(f"{way}gate_bias", width, initial=Initial.ZERO)
    gate = b.node(f"{way}gate", Linear(), (x,), b.parameter(f"{way}gate", x.width, width), bias)
    if around.position is None:
        return b.node(f"{way}averages", Averages(backwards=bool(tokens)), (gate, value, *tokens))
    before = b.state("average", x.type.shape[0], 1, width)
    averages = b.node("averages", Averages(), (gate, value, before))
    b.carry(before, b.node("last_average", Slice(1, start=-1), (averages,)))
    return averages

"""Recurrent sub-layers (Table 1), as the field had them: a decoder's runs forwards, an encoder's both ways.

A position of an encoder should know what comes after it as well as what came before, or its memory of a sentence's
first words would know nothing of the rest (Bahdanau et al. 2015; the first layer of GNMT, every one of RNMT+). So an
encoder has two recurrences of half the width, their outputs side by side, as OpenNMT's `brnn` has: d_model features
again, and not twice the parameters of the decoder's.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.builder import Value
from compiler.lower.surroundings import Surroundings
from compiler.operations.projection import Linear
from compiler.operations.recurrence import Lstm as LstmLayer
from compiler.operations.recurrence import Ssru as Averages
from compiler.operations.residual import Relu
from compiler.operations.views import Beside, Slice
from compiler.weights import Initial
from specs import Lstm, Ssru


def ssru(x: Value, of: Ssru, around: Surroundings) -> Value:
    """max(0, c_t), c_t = f_t c_{t-1} + (1 - f_t) W x_t, f_t = sigmoid(W_f x_t + b_f) (Kim et al. 2019)."""
    return around.builder.node("active", Relu(), (_both_ways(x, around, _ssru),))


def lstm(x: Value, of: Lstm, around: Surroundings) -> Value:
    """The hidden states of a layer of LSTM cells."""
    return _both_ways(x, around, _lstm)


Draw = Callable[[Value, int, Surroundings, str, tuple[Value, ...]], Value]
"""From x, the width, a prefix of names, and the tokens where it runs backwards."""


def _both_ways(x: Value, around: Surroundings, draw: Draw) -> Value:
    if around.causal:
        return draw(x, x.width, around, "", ())
    forwards = draw(x, x.width // 2, around, "forwards_", ())
    backwards = draw(x, x.width - x.width // 2, around, "backwards_", (around.tokens,))
    return around.builder.node("both_ways", Beside(), (forwards, backwards))


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


def _lstm(x: Value, width: int, around: Surroundings, way: str, tokens: tuple[Value, ...]) -> Value:
    b = around.builder
    matrices = [b.parameter(f"{way}{name}", rows, 4 * width) for name, rows in (("input", x.width), ("state", width))]
    parameters = (*matrices, b.parameter(f"{way}bias", 4 * width, initial=Initial.ZERO))
    if around.position is None:
        return b.node(f"{way}hidden", LstmLayer(backwards=bool(tokens)), (x, *tokens), *parameters)
    before = b.state("hidden_and_cell", x.type.shape[0], 2, width)
    found = b.node("hidden_and_last_cell", LstmLayer(), (x, before), *parameters)
    b.carry(before, b.node("last_of_both", Slice(1, start=-2), (found,)))
    return b.node("hidden", Slice(1, stop=-1), (found,))

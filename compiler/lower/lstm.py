"""LSTM cells, one of Table 1's recurrent layers."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lower.recurrence import both_ways
from compiler.lower.surroundings import Surroundings
from compiler.operations.recurrence import Lstm as LstmLayer
from compiler.operations.views import Slice
from compiler.weights import Initial
from specs import Lstm


def lstm(x: Value, of: Lstm, around: Surroundings) -> Value:
    """The hidden states of a layer of LSTM cells."""
    return both_ways(x, around, _lstm)


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

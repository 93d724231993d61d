"""Lowering of LSTM sub-layers, one kind of recurrent layer of Table 1."""

from __future__ import annotations

from compiler.builder import Value
from compiler.lowering.context import LayerContext, bidirectional
from compiler.operations.recurrence import Lstm as LstmOperation
from compiler.operations.views import Slice
from compiler.weights import Initializer
from specs import Lstm


def lstm(x: Value, sublayer: Lstm, context: LayerContext) -> Value:
    """Return the hidden states of an LSTM layer: [batch, length, d_model]. In the encoder, it is bidirectional."""
    return bidirectional(x, context, _lstm)


def _lstm(x: Value, width: int, context: LayerContext, prefix: str, length: tuple[Value, ...]) -> Value:
    b = context.builder
    matrices = (("input", x.width), ("state", width))
    parameters = [b.parameter(f"{prefix}{name}", rows, 4 * width) for name, rows in matrices]
    parameters.append(b.parameter(f"{prefix}bias", 4 * width, initial=Initializer.ZERO))
    if context.position is None:
        return b.node(f"{prefix}hidden", LstmOperation(backwards=bool(length)), (x, *length), *parameters)
    state = b.state("hidden_and_cell", x.type.shape[0], 1, 2 * width)
    states = b.node("hidden_and_cell_from_state", LstmOperation(), (x, state), *parameters)
    b.update_state(state, states, length_axis=1)
    return b.node("hidden", Slice(2, stop=width), (b.node("new_hidden_and_cell", Slice(1, start=1), (states,)),))

"""Lowering of recurrent sub-layers (Table 1): LSTM, and the simpler simple recurrent unit (SSRU)."""

from __future__ import annotations

from collections.abc import Callable

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.operations.elementwise import Relu
from compiler.operations.projection import Linear
from compiler.operations.recurrence import Lstm as LstmOperation
from compiler.operations.recurrence import Ssru as SsruOperation
from compiler.operations.views import Concat, Slice
from compiler.weights import Initializer
from specs import Lstm, Ssru

Recurrence = Callable[[Value, int, LayerContext, str, tuple[Value, ...]], Value]
"""Function that adds a recurrent layer to the graph. Arguments: input, number of output features, context, prefix of
names, and a tuple, which contains the lengths if the layer runs from the last position to the first."""


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
    states = b.node("hidden_and_cell_from_state", LstmOperation(in_step=True), (x, state), *parameters)
    b.update_state(state, states, length_axis=1)
    return b.node("hidden", Slice(2, stop=width), (b.node("new_hidden_and_cell", Slice(1, start=1), (states,)),))


def ssru(x: Value, sublayer: Ssru, context: LayerContext) -> Value:
    """Compute max(0, c_t) with c_t = f_t · c_(t-1) + (1 - f_t) · W x_t and f_t = sigmoid(W_f x_t + b_f).

    Unlike in an LSTM, the state c is never multiplied by a matrix (Kim et al. 2019).
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
    states = b.node("averages_from_state", SsruOperation(in_step=True), (gate, value, state))
    b.update_state(state, states, length_axis=1)
    return b.node("averages", Slice(1, start=1), (states,))


def bidirectional(x: Value, context: LayerContext, recurrence: Recurrence) -> Value:
    """Add one recurrent layer to a decoder, or two half-width layers in opposite directions to an encoder.

    An encoder needs both directions. Otherwise its output for the first words would not depend on the rest of the
    sentence (Bahdanau et al. 2015; the first layer of GNMT and all layers of RNMT+). The outputs of the two layers are
    concatenated. Together, they have no more parameters than one layer of full width, as in OpenNMT's `brnn`.

    Args:
        x: Input: [batch, length, d_model].
        context: Context of the sub-layer.
        recurrence: Function that adds one recurrent layer.

    Returns:
        The outputs: [batch, length, d_model].
    """
    if context.length is None:
        return recurrence(x, x.width, context, "", ())
    forwards = recurrence(x, x.width // 2, context, "forwards_", ())
    backwards = recurrence(x, x.width - x.width // 2, context, "backwards_", (context.length,))
    return context.builder.node("bidirectional", Concat(), (forwards, backwards))

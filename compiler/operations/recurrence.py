"""Recurrent layers (Table 1), which compute each position from the previous position."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import Opcode
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    ReceptiveField,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import ONE, Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


class Recurrence(Operation):
    """Base class of recurrent layers. They run from the first position to the last or, if `backwards`, in reverse.

    Each input has one value per position. If `backwards`, a further input is the length [batch] of each row without
    padding. In a decoder step, a further input is the initial state, and the result starts with this state.
    """

    backwards: bool = False
    in_step: bool = False

    position_inputs: ClassVar[tuple[int, ...]] = (0,)
    """The inputs that have a value per position."""

    def receptive_field(self) -> ReceptiveField:
        before, after = (0, None) if self.backwards else (None, 0)
        return ReceptiveField(before, after, self.position_inputs, sequential=True)

    def loops_in_python(self, inputs: ValueTypes) -> bool:
        return not self.in_step

    def _require_inputs(self, inputs: ValueTypes, width: Size) -> None:
        """Raise GraphError unless the lengths are given if `backwards`, and a state [batch, 1, width] if `in_step`."""
        rows = inputs[0].shape[0]
        lengths, state = ValueType((rows,), ValueKind.INTEGER), ValueType((rows, ONE, width))
        expected = [lengths] * self.backwards + [state] * self.in_step
        require(list(inputs[len(self.position_inputs) :]) == expected, self, *inputs)

    def _order(self, row: int, length: int, rest: Tensors) -> list[int]:
        """Return the positions of a row in the order of computation."""
        if not self.backwards:
            return list(range(length))
        end = int(rest[0][row])
        return [*reversed(range(end)), *range(end, length)]


class Ssru(Recurrence):
    """Simpler simple recurrent unit: c_t = f_t · c_(t-1) + (1 - f_t) · z_t with f = sigmoid(gate) (Kim et al. 2019).

    Inputs: gate and z [batch, n, d] and, in a decoder step, the initial state [batch, 1, d], which is c before the
    first position (otherwise 0). Result: c at all positions, [batch, n, d] or, in a decoder step, [batch, 1 + n, d].
    """

    position_inputs = (0, 1)

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        gate, value, *_ = inputs
        rows, length, width = value.shape
        require(gate == value, self, *inputs)
        self._require_inputs(inputs, width)
        return ValueType((rows, length + self.in_step, width))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        gate, value, *rest = inputs
        forget, states = gate.sigmoid(), rest if self.in_step else []
        rows, length, width = value.shape
        result = value.new_zeros(rows, len(states) + length, width)
        for state in states:
            result[:, :1] = state
        for row in range(rows):
            c = states[0][row, 0] if states else value.new_zeros(width)
            for t in self._order(row, length, rest):
                c = forget[row, t] * c + (1 - forget[row, t]) * value[row, t]
                result[row, len(states) + t] = c
        return result

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return f"layers.{'ssru_step' if self.in_step else 'ssru'}({', '.join(inputs)})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        gate, value, *rest = node.inputs
        if self.in_step:
            codegen.add(node, Opcode.SSRU_STEP, gate, value, c=codegen.recurrent_state(node, rest[0]))
        else:
            codegen.add(node, Opcode.SSRU_SOURCE, gate, value, backwards=self.backwards)

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # the result of the sigmoid


class Lstm(Recurrence):
    """Layer of LSTM cells with forget gates (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    Inputs: x [batch, n, i] and, in a decoder step, the initial state [batch, 1, 2o], which is the hidden state and the
    cell state before the first position. Parameters: input matrix [i, 4o], recurrent matrix [o, 4o] and bias [4o]. The
    gates are concatenated in the order of `torch.nn.LSTM`: input, forget, cell, output. Result: the hidden states
    [batch, n, o]. In a decoder step, the result contains the initial state, followed by the hidden and cell states of
    all positions: [batch, 1 + n, 2o].
    """

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x, *_), (matrix, recurrent, bias) = inputs, parameters
        (rows, length, inner), (width, gates) = x.shape, recurrent
        require(matrix == (inner, gates) and bias == (gates,) and gates == width * 4, self, x, ValueType(matrix))
        self._require_inputs(inputs, width * 2)
        return ValueType((rows, length + 1, width * 2) if self.in_step else (rows, length, width))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x, *rest), (matrix, recurrent, bias) = inputs, parameters
        rows, length, width = x.shape[0], x.shape[1], recurrent.shape[0]
        states = rest if self.in_step else []
        result = x.new_zeros(rows, len(states) + length, 2 * width)
        for state in states:
            result[:, :1] = state
        for row in range(rows):
            hidden, cell = states[0][row, 0].chunk(2) if states else x.new_zeros(2, width)
            for t in self._order(row, length, rest):
                gates = x[row, t] @ matrix + hidden @ recurrent + bias
                enter, forget, new, out = gates.chunk(4)
                cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
                hidden = out.sigmoid() * cell.tanh()
                result[row, len(states) + t, :width], result[row, len(states) + t, width:] = hidden, cell
        return result if states else result[:, :, :width]

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        x, *rest = inputs
        if self.in_step:
            return f"layers.lstm_step({', '.join((*inputs, *parameters))})"
        return f"layers.lstm({', '.join((x, *parameters, *rest))})"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        matrix, recurrent, _ = parameters
        return 2 * product(inputs[0].shape[:2]) * (product(matrix) + product(recurrent))

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape[:2]) * parameters[1][0] * 5  # the gates and the cells

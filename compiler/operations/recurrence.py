"""Recurrent layers (Table 1), which compute each position from the previous position."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import Opcode
from compiler.lazy import torch
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
    """Base class for recurrent layers. They run from the first position to the last or, if `backwards`, in reverse.

    The inputs in `position_inputs` have one value per position. If `backwards`, a further input is the length [batch]
    of each row without padding. In a decoder step, a further input is the initial state, and the result starts with
    this state.
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
        """Check the inputs after the position inputs: lengths (if `backwards`), then a state (if `in_step`).

        Args:
            inputs: Types of all inputs.
            width: Number of features in the state, which must be [batch, 1, width].

        Raises:
            GraphError: An input is missing, is unexpected or has the wrong type.
        """
        rows = inputs[0].shape[0]
        lengths, state = ValueType((rows,), ValueKind.INTEGER), ValueType((rows, ONE, width))
        expected = [lengths] * self.backwards + [state] * self.in_step
        require(list(inputs[len(self.position_inputs) :]) == expected, self, *inputs)

    @abstractmethod
    def step(self, state: Tensor, inputs: Tensors, parameters: Tensors) -> Tensor:
        """Return the state at a position, given the state at the position before and the inputs at this position."""

    def states(self, inputs: Tensors, parameters: Tensors, width: int) -> Tensor:
        """Return the states at all positions: [batch, n, width]. In a decoder step, the initial state precedes them."""
        first, rest = inputs[0], inputs[len(self.position_inputs) :]
        rows, length, _ = first.shape
        result = first.new_zeros(rows, self.in_step + length, width)
        for row in range(rows):
            end = int(rest[0][row]) if self.backwards else 0
            state = rest[0][row, 0] if self.in_step else first.new_zeros(width)
            result[row, : self.in_step] = state
            for t in (*reversed(range(end)), *range(end, length)):
                state = self.step(state, [inputs[index][row, t] for index in self.position_inputs], parameters)
                result[row, self.in_step + t] = state
        return result


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
        return self.states(inputs, parameters, inputs[1].shape[2])

    def step(self, state: Tensor, inputs: Tensors, parameters: Tensors) -> Tensor:
        gate, value = inputs
        return gate.sigmoid() * state + (1 - gate.sigmoid()) * value

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
        width = len(parameters[1])
        states = self.states(inputs, parameters, 2 * width)
        return states if self.in_step else states[:, :, :width]

    def step(self, state: Tensor, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, recurrent, bias), (hidden, cell) = inputs, parameters, state.chunk(2)
        enter, forget, new, out = (x @ matrix + hidden @ recurrent + bias).chunk(4)
        cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
        return torch.cat([out.sigmoid() * cell.tanh(), cell])

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

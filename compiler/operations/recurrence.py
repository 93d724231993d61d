"""Recurrences: each position computed of the one before it (Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import Opcode
from compiler.operations.operation import Kind, Line, Names, Operation, Reach, Shape, Tensors, Type, Types, require
from compiler.size import ONE, Size, product
from specs import PAD

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator

TWO = Size.of(2)


@dataclass(frozen=True)
class Recurrence(Operation):
    """From the first position to the last, or from each row's last token `backwards` to its first.

    Backwards it reads the tokens, too, which say where that token is; padding comes after, and nothing comes of it.
    """

    backwards: bool = False

    across: ClassVar[tuple[int, ...]] = (0,)

    def over_positions(self) -> Reach:
        back, ahead = (0, None) if self.backwards else (None, 0)
        return Reach(back, ahead, self.across, in_turn=True)

    def in_python(self, inputs: Types) -> bool:
        return not self._states(inputs)

    def detail(self, inputs: Sequence[str]) -> str:
        return "from the last position to the first" if self.backwards else ""

    def _states(self, inputs: Types) -> Types:
        """A state, where one is given. What else may come beside the values of positions are tokens."""
        rest = inputs[len(self.across) :]
        require(len(rest) <= 1 and sum(each.kind is Kind.INTEGER for each in rest) == self.backwards, self, *inputs)
        return [] if self.backwards else rest

    def _order(self, row: int, length: int, rest: Tensors) -> list[int]:
        """The positions of a row in the order in which they are computed."""
        if not self.backwards:
            return list(range(length))
        real = int((rest[0][row] != PAD).sum())
        return [*reversed(range(real)), *range(real, length)]


@dataclass(frozen=True)
class Ssru(Recurrence):
    """c_t = f_t · c_{t-1} + (1 - f_t) · z_t with f = sigmoid(gate) (Kim et al. 2019). gate, z [batch, n, d] [, state]

    The state [rows, 1, d] is the c before the first position, which else is 0.
    """

    across = (0, 1)
    calls = ("compiler.recurrences.ssru", "compiler.recurrences.ssru_step")
    caption = ("cache", "Simpler simple recurrent unit")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        gate, value, *rest = inputs
        rows, length, width = value.shape
        beside = (rows, ONE, width) if self._states(inputs) else (rows, length)
        require(gate == value and all(each.shape == beside for each in rest), self, *inputs)
        return value

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        gate, value, *rest = inputs
        kept, found = gate.sigmoid(), value.clone()
        for row in range(value.shape[0]):
            c = value.new_zeros(value.shape[2]) if self.backwards or not rest else rest[0][row, 0]
            for t in self._order(row, value.shape[1], rest):
                c = kept[row, t] * c + (1 - kept[row, t]) * value[row, t]
                found[row, t] = c
        return found

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        if len(inputs) > 2 and not self.backwards:
            return f"ssru_step({', '.join(inputs)})"
        return f"ssru({', '.join(inputs)})"

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape)  # the sigmoid

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        gate, value, *rest = node.inputs
        if rest and not self.backwards:
            codegen.add(node, Opcode.SSRU_STEP, gate, value, c=codegen.recurrent_state(node, rest[0]))
        else:
            codegen.add(node, Opcode.SSRU_SOURCE, gate, value, backwards=self.backwards)


@dataclass(frozen=True)
class Lstm(Recurrence):
    """A layer of Hochreiter & Schmidhuber's LSTM with forget gates. x [batch, n, i] [, state] -> [batch, n, o]

    Parameters are the matrices of input [i, 4o] and of the state [o, 4o], and a bias [4o]: input, forget, cell and
    output gate side by side, as torch has them. With a state [rows, 2, o], the hidden one and the cell of before, the
    result has a position more: the cell of its last.
    """

    calls = ("compiler.recurrences.lstm", "compiler.recurrences.lstm_step")
    caption = ("cache", "LSTM")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x, *rest), (matrix, recurrent, bias) = inputs, parameters
        states = self._states(inputs)
        (rows, length, inner), (width, gates) = x.shape, recurrent
        require(matrix == (inner, gates) and bias == (gates,) and gates == width * 4, self, x, Type(matrix))
        beside = (rows, TWO, width) if states else (rows, length)
        require(all(each.shape == beside for each in rest), self, *inputs)
        return Type((rows, length + len(states), width))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x, *rest), (matrix, recurrent, bias) = inputs, parameters
        rows, length, width = x.shape[0], x.shape[1], recurrent.shape[0]
        stateful = bool(rest) and not self.backwards
        found = x.new_zeros(rows, length + stateful, width)
        for row in range(rows):
            hidden, cell = rest[0][row] if stateful else x.new_zeros(2, width)
            for t in self._order(row, length, rest):
                gates = x[row, t] @ matrix + hidden @ recurrent + bias
                enter, forget, new, out = gates.chunk(4)
                cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
                hidden = out.sigmoid() * cell.tanh()
                found[row, t] = hidden
            if stateful:
                found[row, length] = cell
        return found

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        x, *rest = inputs
        if rest and not self.backwards:
            return f"lstm_step({', '.join((*inputs, *parameters))})"
        return f"lstm({', '.join((x, *parameters, *rest))})"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        matrix, recurrent, _ = parameters
        return 2 * product(inputs[0].shape[:2]) * (product(matrix) + product(recurrent))

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return product(inputs[0].shape[:2]) * parameters[1][0] * 5  # the gates and the cells

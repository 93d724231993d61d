"""Products with weights, and their likes in int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.instruction import MAX_INT8_ROWS, Instruction, Opcode, UnsupportedGraph
from compiler.operations.operation import Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.operations.residual import Activation
from compiler.operations.views import Slice
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class Linear(Operation):
    """x W, and b where there is one. x [..., i], W [i, o] [, b [o]] -> [..., o]"""

    calls = ("torch.nn.functional.linear",)
    caption = ("linear", "Linear")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,), (matrix, *columns) = inputs, parameters
        require(x.shape[-1] == matrix[0] and all(c == matrix[1:] for c in columns), self, x, Type(matrix))
        return Type((*x.shape[:-1], matrix[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, *bias) = inputs, parameters
        return sum(bias, x @ matrix)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        (x,), (matrix, *bias) = inputs, parameters
        return f"linear({x}, {matrix}.T, {bias[0]})" if bias else f"{x} @ {matrix}"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][1]

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Left to the activation, where that alone reads it."""
        if codegen.sole_reader(node, Activation):
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.LINEAR, *node.inputs, matrix=node.parameters)


@dataclass(frozen=True)
class Logits(Operation):
    """x against every row of a table (3.4), the same one as the embedding where they are tied. [..., d] -> [..., V]

    A bias [V] may follow the table.
    """

    calls = ("torch.nn.functional.linear",)
    caption = ("logits", "Linear")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (x,), (table, *rows) = inputs, parameters
        require(x.shape[-1] == table[1] and all(r == table[:1] for r in rows), self, x, Type(table))
        return Type((*x.shape[:-1], table[0]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (table, *bias) = inputs, parameters
        return sum(bias, x @ table.T)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        (x,), (table, *bias) = inputs, parameters
        return f"linear({x}, {table}, {bias[0]})" if bias else f"{x} @ {table}.T"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """What is left of them after padded places were sliced off are the vocabulary's."""
        tokens = codegen.sole_reader(node, Slice) or node
        width = codegen.row_length(tokens.name)
        if tokens is not node and tokens.operation != Slice(-1, 0, width):
            raise UnsupportedGraph("it has no instruction for a part of the logits: take the backend `eager`")
        a = codegen.operand(node.inputs[0])
        codegen.instructions.append(Instruction(Opcode.LOGITS, a=a, width=width, matrix=node.parameters))


class QuantisedLinear(Linear):
    """x W + b in int8: x is scaled a row, W a column, sums are exact. x [..., i], W [i, o], scales [o] [, b [o]]

    A row's scale is that of its largest number alone, so that no row depends on its neighbours.
    """

    calls = ("compiler.runtime.quantised_linear",)
    caption = ("int8", "Linear in int8")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, scales, *bias) = inputs, parameters
        return sum(bias, _quantised(x, matrix, scales))

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        return f"quantised_linear({', '.join((*inputs, *parameters))})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        _check_rows(codegen.parameter_shape(node.parameters[0])[0])
        super().native(codegen, node)


class QuantisedLogits(Logits):
    """`Logits` in int8, as in QuantisedLinear. x [..., d], table [V, d], scales [V] [, b [V]] -> [..., V]"""

    calls = ("compiler.runtime.quantised_linear",)
    caption = ("logits", "Linear in int8")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (table, scales, *bias) = inputs, parameters
        return sum(bias, _quantised(x, table.T, scales))

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        (x,), (table, *others) = inputs, parameters
        return f"quantised_linear({', '.join((x, f'{table}.T', *others))})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        _check_rows(codegen.parameter_shape(node.parameters[0])[1])
        super().native(codegen, node)


def _quantised(x: Tensor, matrix: Tensor, scales: Tensor) -> Tensor:
    largest = x.abs().amax(-1, keepdim=True)
    rows = (x * (127 / largest)).nan_to_num(0.0, 0.0, 0.0).round()
    return (rows.double() @ matrix.double()).float() * (largest / 127) * scales


def _check_rows(rows: int) -> None:
    if rows > MAX_INT8_ROWS:
        most = f"{MAX_INT8_ROWS:,} numbers a row, not {rows:,}"
        raise UnsupportedGraph(f"its int8 products take at most {most}: take the backend `eager`")

"""Matrix products with weights, in floating point and in int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.instruction import MAX_INT8_ROWS, Instruction, Opcode, UnsupportedGraph
from compiler.operations.elementwise import ActivationOperation
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.views import Slice
from compiler.size import Size, product

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


@dataclass(frozen=True)
class Linear(Operation):
    """x W, or x W + b: x [..., i], W [i, o] [, b [o]] -> [..., o]."""

    is_projection = True
    calls = ("torch.nn.functional.linear",)
    caption = ("linear", "Linear")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (matrix, *columns) = inputs, parameters
        require(x.shape[-1] == matrix[0] and all(c == matrix[1:] for c in columns), self, x, ValueType(matrix))
        return ValueType((*x.shape[:-1], matrix[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, *bias) = inputs, parameters
        return sum(bias, x @ matrix)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (matrix, *bias) = inputs, parameters
        return f"linear({x}, {matrix}.T, {bias[0]})" if bias else f"{x} @ {matrix}"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Leave the product to the activation if that is its only reader."""
        if codegen.sole_reader(node, ActivationOperation):
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.LINEAR, *node.inputs, matrix=node.parameters)

    def quantised(self) -> tuple[Operation, int] | None:
        return QuantisedLinear(), 1

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][1]


@dataclass(frozen=True)
class Logits(Operation):
    """Pre-softmax projection x Eᵀ, or x Eᵀ + b (3.4): x [..., d], table E [V, d] [, b [V]] -> [..., V].

    With tied embeddings the table is that of the embedding.
    """

    is_vocabulary_projection = True
    calls = ("torch.nn.functional.linear",)
    caption = ("logits", "Linear")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (table, *rows) = inputs, parameters
        require(x.shape[-1] == table[1] and all(r == table[:1] for r in rows), self, x, ValueType(table))
        return ValueType((*x.shape[:-1], table[0]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (table, *bias) = inputs, parameters
        return sum(bias, x @ table.T)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (table, *bias) = inputs, parameters
        return f"linear({x}, {table}, {bias[0]})" if bias else f"{x} @ {table}.T"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Compute the logits of the vocabulary only, without those of padding rows, which a slice removes."""
        tokens = codegen.sole_reader(node, Slice) or node
        width = codegen.row_length(tokens.name)
        if tokens is not node and tokens.operation != Slice(-1, 0, width):
            raise UnsupportedGraph("it has no instruction for a part of the logits: take the backend `eager`")
        a = codegen.operand(node.inputs[0])
        codegen.instructions.append(Instruction(Opcode.LOGITS, a=a, width=width, matrix=node.parameters))

    def quantised(self) -> tuple[Operation, int] | None:
        return QuantisedLogits(), 0

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]


class QuantisedLinear(Linear):
    """x W + b in int8, with one scale per row of x and per column of W: x [..., i], W [i, o], scales [o] [, b [o]].

    Integer sums are exact. The scale of a row depends on that row alone, so that no row depends on other rows.
    """

    calls = ("compiler.runtime.quantised_linear",)
    caption = ("int8", "Linear in int8")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, scales, *bias) = inputs, parameters
        return sum(bias, _int8_product(x, matrix, scales))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return f"quantised_linear({', '.join((*inputs, *parameters))})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        _check_rows(codegen.parameter_shape(node.parameters[0])[0])
        super().native(codegen, node)

    def quantised(self) -> None:
        """Return None: it is quantised already."""


class QuantisedLogits(Logits):
    """`Logits` in int8, as in `QuantisedLinear`: x [..., d], table [V, d], scales [V] [, b [V]] -> [..., V]."""

    calls = ("compiler.runtime.quantised_linear",)
    caption = ("logits", "Linear in int8")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (table, scales, *bias) = inputs, parameters
        return sum(bias, _int8_product(x, table.T, scales))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (table, *others) = inputs, parameters
        return f"quantised_linear({', '.join((x, f'{table}.T', *others))})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        _check_rows(codegen.parameter_shape(node.parameters[0])[1])
        super().native(codegen, node)

    def quantised(self) -> None:
        """Return None: it is quantised already."""


def _int8_product(x: Tensor, matrix: Tensor, scales: Tensor) -> Tensor:
    largest = x.abs().amax(-1, keepdim=True)
    rows = (x * (127 / largest)).nan_to_num(0.0, 0.0, 0.0).round()
    return (rows.double() @ matrix.double()).float() * (largest / 127) * scales


def _check_rows(rows: int) -> None:
    if rows > MAX_INT8_ROWS:
        limit = f"{MAX_INT8_ROWS:,} numbers per row, not {rows:,}"
        raise UnsupportedGraph(f"its int8 products take at most {limit}: take the backend `eager`")

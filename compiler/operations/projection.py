"""Token embeddings (section 3.4), and matrix products with weights, in floating point and in int8."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from compiler.instruction import MAX_INT8_ROWS, Instruction, Opcode, Unsupported
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import Size, product
from compiler.weights import round_to_int8

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node


def scaled(x: str, scale: float) -> str:
    """Return the Python expression for x times the scale. Omit a scale of 1."""
    return x if scale == 1.0 else f"({x} * {scale!r})"


class Embedding(Operation):
    """Look up tokens in a table and multiply the vectors by `scale`, which is sqrt(d_model) in the paper (section 3.4).

    Inputs: token IDs [...]. Parameters: table [V, d]. Result: [..., d].
    """

    scale: float

    is_embedding = True

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (tokens,), (table,) = inputs, parameters
        require(tokens.kind is ValueKind.INTEGER and len(table) == 2, self, tokens)
        return ValueType((*tokens.shape, table[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return parameters[0][inputs[0]] * self.scale

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return scaled(f"functional.embedding({inputs[0]}, {parameters[0]})", self.scale)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        (table,) = node.parameters
        codegen.add(node, Opcode.EMBED, scale=self.scale, table=table, rows=codegen.parameter_shape(table)[0])

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """For the table, count only the bytes of one row for each token, not the bytes of the whole table."""
        return inputs[0].bytes() + 2 * result.bytes(float_bytes)


class _Projection(Operation):
    """Base class for projections x W + b. The matrix may be stored transposed."""

    transposed: ClassVar[bool] = False
    """Whether the matrix is [o, i] instead of [i, o]."""

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (matrix, *vectors) = inputs, parameters
        inner, outer = reversed(matrix) if self.transposed else matrix
        require(x.shape[-1] == inner and all(v == (outer,) for v in vectors), self, x, ValueType(matrix))
        return ValueType((*x.shape[:-1], outer))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, *bias) = inputs, parameters
        return sum(bias, x @ (matrix.T if self.transposed else matrix))

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (matrix, *bias) = inputs, parameters
        plain, transposed = (f"{matrix}.T", matrix) if self.transposed else (matrix, f"{matrix}.T")
        return f"functional.linear({x}, {transposed}, {bias[0]})" if bias else f"{x} @ {plain}"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0 if self.transposed else 1]


class _Int8(_Projection):
    """Base class for int8 projections. The second parameter contains the output scales, with shape [o]."""

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x,), (matrix, scales, *bias) = inputs, parameters
        rows, row_scales = round_to_int8(x, -1)
        sums = rows.double() @ (matrix.T if self.transposed else matrix).double()
        return sum(bias, sums.float() * row_scales * scales)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (matrix, *others) = inputs, parameters
        return f"layers.quantised_linear({', '.join((x, f'{matrix}.T' if self.transposed else matrix, *others))})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        rows = codegen.parameter_shape(node.parameters[0])[1 if self.transposed else 0]
        if rows > MAX_INT8_ROWS:
            limit = f"{MAX_INT8_ROWS:,} input features, not {rows:,}"
            raise Unsupported(f"its int8 products take at most {limit}")
        super().native(codegen, node)


class Linear(_Projection):
    """Linear map x W, or x W + b: x [..., i], W [i, o] [, b [o]] -> [..., o]."""

    is_projection = True

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add a LINEAR instruction, or none if the next activation's instruction also computes the projection."""
        reader = codegen.sole_reader(node)
        if reader and reader.operation.activation:
            codegen.fused.add(node.name)
        else:
            codegen.add(node, Opcode.LINEAR, *node.inputs, matrix=node.parameters)


class Logits(_Projection):
    """Pre-softmax projection x Eᵀ, or x Eᵀ + b (section 3.4): x [..., d], table E [V, d] [, b [V]] -> [..., V].

    If embeddings are tied, the embedding uses the same table.
    """

    transposed = True
    is_vocabulary_projection = True

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add a LOGITS instruction. It skips the vocabulary's padding rows, which the following slice would remove."""
        reader = codegen.sole_reader(node)
        part = reader.operation.sliced_range() if reader else None
        width = codegen.row_length(reader.name if reader and part else node.name)
        if part and part != (-1, 0, width):
            raise Unsupported("it has no instruction for a part of the logits")
        a = codegen.operand(node.inputs[0])
        codegen.instructions.append(Instruction(Opcode.LOGITS, a=a, width=width, matrix=node.parameters))


class QuantisedLinear(_Int8, Linear):
    """Linear map in int8: x [..., i], W [i, o], scales of the columns of W [o] [, b [o]] -> [..., o].

    Each row of x also has its own scale, which is computed from this row alone. Results therefore do not depend on the
    other rows of a batch. Integer sums are exact.
    """


class QuantisedLogits(_Int8, Logits):
    """`Logits` in int8, as in `QuantisedLinear`: x [..., d], table [V, d], scales [V] [, b [V]] -> [..., V]."""

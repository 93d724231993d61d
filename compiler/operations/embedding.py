"""Token embeddings (3.4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.instruction import Opcode
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
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


def scaled(x: str, scale: float) -> str:
    """Return the Python expression for x times the scale. Omit a scale of 1."""
    return x if scale == 1.0 else f"({x} * {scale!r})"


@dataclass(frozen=True)
class Embedding(Operation):
    """Look up tokens in a table and multiply the vectors by `scale`, which is sqrt(d_model) in the paper (3.4).

    Inputs: token IDs [...]. Parameters: table [V, d]. Result: [..., d].
    """

    scale: float

    calls = ("torch.nn.functional.embedding",)
    caption = ("embedding", "Embedding")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (tokens,), (table,) = inputs, parameters
        require(tokens.kind is ValueKind.INTEGER and len(table) == 2, self, tokens)
        return ValueType((*tokens.shape, table[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return parameters[0][inputs[0]] * self.scale

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        return scaled(f"embedding({inputs[0]}, {parameters[0]})", self.scale)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        (table,) = node.parameters
        rows = codegen.parameter_shape(table)[0]
        codegen.add(node, Opcode.EMBED, scale=self.scale, table=table, rows=rows)

    def without_scale(self) -> tuple[float, Operation]:
        return self.scale, replace(self, scale=1.0)

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Count the bytes of one row of the table per token, not of the whole table."""
        return inputs[0].bytes() + 2 * result.bytes(float_bytes)

    def describe(self, inputs: Sequence[str]) -> str:
        return "" if self.scale == 1 else f"times {self.scale:.4g}"

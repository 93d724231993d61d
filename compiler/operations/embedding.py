"""Token embeddings (3.4) and positional encodings (3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, sin
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
    """Return the expression x, multiplied by the scale unless that is 1."""
    return x if scale == 1.0 else f"({x} * {scale!r})"


@dataclass(frozen=True)
class Embedding(Operation):
    """Look up tokens in a table and multiply by `scale`, sqrt(d_model) in the paper (3.4).

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
        """Count one row of the table per token, not the whole table."""
        return inputs[0].bytes() + 2 * result.bytes(float_bytes)

    def describe(self, inputs: Sequence[str]) -> str:
        return "" if self.scale == 1 else f"times {self.scale:.4g}"


def sinusoidal_encoding(position: int, width: int, halves: bool = False) -> list[float]:
    """Return the encoding of one position: PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos(same) (3.5).

    Args:
        position: The position, counted from 0.
        width: Number of features d.
        halves: Whether all sines precede all cosines, as in tensor2tensor, instead of alternating.
    """
    if halves:
        angles = [position / 10000 ** (i / max(1, width // 2 - 1)) for i in range(width // 2)]
        return [*map(sin, angles), *map(cos, angles)]
    return [(cos if i % 2 else sin)(position / 10000 ** (i // 2 * 2 / width)) for i in range(width)]


@dataclass(frozen=True)
class PositionalEncoding(Operation):
    """Add the encoding of each position (3.5): x [batch, n, d] [, position [batch, n]] -> [batch, n, d].

    Positions count from 0 unless they are an input. Encodings are sinusoids, or rows of a parameter [positions, d].
    `halves` is that of `sinusoidal_encoding`; position 0 gets the sinusoids of position `first`.
    """

    halves: bool = False
    first: int = 0

    adds_positions = True
    calls = ("compiler.runtime.sinusoids",)
    caption = ("position", "Positional encoding")

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, *position = inputs
        require(len(x.shape) == 3 and all(p.shape == x.shape[:2] for p in position), self, *inputs)
        require(all(table[1] == x.shape[2] for table in parameters), self, *inputs)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, *position = inputs
        if parameters:
            return x + parameters[0][position[0] if position else slice(x.shape[1])]
        rows = position[0].tolist() if position else [range(x.shape[1])]
        width = x.shape[2]
        return x + x.new_tensor(
            [[sinusoidal_encoding(self.first + p, width, self.halves) for p in row] for row in rows]
        )

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        x, *position = inputs
        if parameters:
            rows = position[0] if position else f": {x}.shape[1]"
            return f"{x} + {parameters[0]}[{rows}]"
        options = (["halves=True"] if self.halves else []) + ([f"first={self.first}"] if self.first else [])
        return f"{x} + sinusoids({', '.join([*inputs, *options])})"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        table = next(iter(node.parameters), None)
        rows = codegen.parameter_shape(table)[0] if table else 0
        sinusoids = {"halves": self.halves, "first": self.first}
        codegen.add(node, Opcode.POSITION, node.inputs[0], **sinusoids, table=table, rows=rows)

    def memory_traffic(self, inputs: ValueTypes, result: ValueType, weight_bytes: Size, float_bytes: int) -> Size:
        """Count one row of the table, if there is one, per position."""
        read = sum((each.bytes(float_bytes) for each in inputs), Size())
        return read + result.bytes(float_bytes) * (2 if weight_bytes.terms else 1)

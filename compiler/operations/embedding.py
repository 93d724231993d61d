"""Tokens and positions as vectors (3.4, 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, sin
from typing import TYPE_CHECKING

from compiler.instruction import Opcode
from compiler.operations.operation import Kind, Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator


def scaled(x: str, scale: float) -> str:
    """The expression times a number, where that is not 1."""
    return x if scale == 1.0 else f"({x} * {scale!r})"


@dataclass(frozen=True)
class Embed(Operation):
    """Rows of a table, times `scale` (3.4: sqrt(d_model)). tokens, table [V, d] -> [..., d]"""

    scale: float

    calls = ("torch.nn.functional.embedding",)
    caption = ("embedding", "Embedding")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        (tokens,), (table,) = inputs, parameters
        require(tokens.kind is Kind.INTEGER and len(table) == 2, self, tokens)
        return Type((*tokens.shape, table[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return parameters[0][inputs[0]] * self.scale

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        return scaled(f"embedding({inputs[0]}, {parameters[0]})", self.scale)

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        """As many rows of the table as there are tokens."""
        return inputs[0].bytes() + 2 * result.bytes(of_a_float)

    def detail(self, inputs: Sequence[str]) -> str:
        return "" if self.scale == 1 else f"times {self.scale:.4g}"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        (table,) = node.parameters
        rows = codegen.parameter_shape(table)[0]
        codegen.add(node, Opcode.EMBED, scale=self.scale, table=table, rows=rows)


def encoding(position: int, width: int, halves: bool = False) -> list[float]:
    if halves:
        angles = [position / 10000 ** (i / max(1, width // 2 - 1)) for i in range(width // 2)]
        return [*map(sin, angles), *map(cos, angles)]
    return [(cos if i % 2 else sin)(position / 10000 ** (i // 2 * 2 / width)) for i in range(width)]


@dataclass(frozen=True)
class Position(Operation):
    """Adds the encoding of each position (3.5): of 0.. on, or of those given. x [, position [b, n]] [, table] -> x

    Sines and cosines take turns, or, with `halves`, stand apart; the first position is that of number `first`.
    """

    halves: bool = False
    first: int = 0

    calls = ("compiler.runtime.sinusoids",)
    caption = ("position", "Positional encoding")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, *position = inputs
        require(len(x.shape) == 3 and all(p.shape == x.shape[:2] for p in position), self, *inputs)
        require(all(table[1] == x.shape[2] for table in parameters), self, *inputs)
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, *given = inputs
        if parameters:
            return x + parameters[0][given[0] if given else slice(x.shape[1])]
        positions = given[0].tolist() if given else [range(x.shape[1])]
        return x + x.new_tensor(
            [[encoding(self.first + place, x.shape[2], self.halves) for place in row] for row in positions]
        )

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        x, *position = inputs
        if parameters:
            rows = position[0] if position else f": {x}.shape[1]"
            return f"{x} + {parameters[0]}[{rows}]"
        first = [f"first={self.first}"] if self.first else []
        return f"{x} + sinusoids({', '.join([*inputs, *(['halves=True'] if self.halves else []), *first])})"

    def moved(self, inputs: Types, result: Type, weights: Size, of_a_float: int) -> Size:
        """As many rows of the table, if there is one, as there are positions."""
        read = sum((each.bytes(of_a_float) for each in inputs), Size())
        return read + result.bytes(of_a_float) * (2 if weights.terms else 1)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        table = next(iter(node.parameters), None)
        rows = codegen.parameter_shape(table)[0] if table else 0
        sinusoids = {"halves": self.halves, "first": self.first}
        codegen.add(node, Opcode.POSITION, node.inputs[0], **sinusoids, table=table, rows=rows)

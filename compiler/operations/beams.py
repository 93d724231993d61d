"""The hypotheses of a sentence as rows of their own, and side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.operation import Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.listing import Lister


@dataclass(frozen=True)
class FoldBeams(Operation):
    """Each hypothesis a row of its own. [batch, beams, ...] -> [batch·beams, 1, ...]"""

    view = True
    alias = True

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        batch, beams, *rest = inputs[0].shape
        return Type((batch * beams, Size.of(1), *rest), inputs[0].kind)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].flatten(0, 1)[:, None]

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        return f"{inputs[0]}.flatten(0, 1).unsqueeze(1)"

    def native(self, lister: Lister, node: Node) -> None:
        lister.same(node)


@dataclass(frozen=True)
class UnfoldBeams(Operation):
    """Those of a sentence side by side again. x [batch·beams, 1, w], like [batch, beams] -> [batch, beams, w]"""

    view = True
    alias = True

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, like = inputs
        require(len(like.shape) == 2 and x.shape[0] == like.shape[0] * like.shape[1], self, *inputs)
        return Type((*like.shape, x.shape[2]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, like = inputs
        return x.view(*like.shape, -1)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        x, like = inputs
        return f"{x}.view(*{like}.shape, -1)"

    def native(self, lister: Lister, node: Node) -> None:
        lister.same(node)

"""The probabilities of pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.operations.operation import Kind, Line, Names, Operation, Shape, Tensors, Type, Types, require
from specs import PAD

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.listing import Lister


@dataclass(frozen=True)
class LogSoftmax(Operation):
    """Log-probabilities over the last dimension, in float32 whatever comes in."""

    caption = ("softmax", "Log-softmax")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        return inputs[0]

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].float().log_softmax(-1)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        return f"{inputs[0]}.float().log_softmax(dim=-1)"

    def native(self, lister: Lister, node: Node) -> None:
        """Part of LOGITS."""


@dataclass(frozen=True)
class Pick(Operation):
    """Of each position the log-probability of its label, and 0 at padding. [..., V], labels [...] -> [...]"""

    calls = ("compiler.runtime.pick",)
    caption = ("softmax", "Pick the target's")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and labels.kind is Kind.INTEGER, self, x, labels)
        return Type(labels.shape)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, labels = inputs
        return x.gather(-1, labels[..., None])[..., 0] * (labels != PAD)

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        return f"pick({inputs[0]}, {inputs[1]})"

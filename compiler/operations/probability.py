"""The probabilities of tokens, and what training lowers (5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.instruction import UnsupportedGraph
from compiler.operations.operation import Kind, Line, Names, Operation, Shape, Tensors, Type, Types, require
from compiler.size import Size, product
from specs import PAD

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.graph import Node
    from compiler.native_codegen import NativeCodeGenerator

CLOSED = -1e8
"""A token with a logit of this or less cannot come, and training leaves it so: what an imported model lacks."""


@dataclass(frozen=True)
class LogSoftmax(Operation):
    """Log-probabilities over the last dimension, in float32 whatever comes in."""

    code = "{0}.float().log_softmax(dim=-1)"
    caption = ("softmax", "Log-softmax")

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        return inputs[0].float().log_softmax(-1)

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Part of LOGITS, whose result is in no buffer."""
        if node.inputs[0] in codegen.operands:
            raise UnsupportedGraph("it has no instruction for LogSoftmax but of logits: take the backend `eager`")


@dataclass(frozen=True)
class Pick(Operation):
    """Of each position the log-probability of its label, and 0 at padding. [..., V], labels [...] -> [...]"""

    code = "pick({0}, {1})"
    calls = ("compiler.runtime.pick",)
    caption = ("softmax", "Pick the target's")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and labels.kind is Kind.INTEGER, self, x, labels)
        return Type(labels.shape)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, labels = inputs
        return x.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


@dataclass(frozen=True)
class Loss(Operation):
    """Cross entropy (5.4) summed over the labels that are not padding. logits [..., V], labels [...] -> [2]

    The first number is smoothed and is what training lowers, the second is not and gives the perplexity.
    `wrong_classes`: the smoothing is spread over V - 1 classes, else over all V, V being those that are not closed.
    """

    smoothing: float
    wrong_classes: bool

    code = "smoothed_loss({0}, {1}, {self.smoothing!r}, {self.wrong_classes})"
    calls = ("compiler.runtime.smoothed_loss",)
    caption = ("softmax", "Cross entropy")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        logits, labels = inputs
        require(logits.shape[:-1] == labels.shape and labels.kind is Kind.INTEGER, self, logits, labels)
        return Type((Size.of(2),))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        logits, labels = inputs
        real = labels != PAD
        log_p, label = logits[real].log_softmax(-1), labels[real][:, None]
        possible = (logits[real] > CLOSED).float()
        classes = possible.sum(-1, keepdim=True)
        wrong = self.smoothing / (classes - 1) if self.wrong_classes else self.smoothing / classes
        right = 1 - self.smoothing + wrong * (not self.wrong_classes)
        target = (wrong * possible).scatter(-1, label, right.expand(label.shape))
        sums = log_p.new_zeros(2)
        sums[0], sums[1] = -(target * log_p).sum(), -log_p.gather(-1, label).sum()
        return sums

    def detail(self, inputs: Sequence[str]) -> str:
        return f"smoothed by {self.smoothing:g}"


@dataclass(frozen=True)
class ChunkedLoss(Loss):
    """Logits and Loss in one, a chunk of positions at a time, so that the logits never exist whole.

    x [..., d], labels [...], table [at least V, d] [, b [as many]] -> [2], where V is `classes`
    """

    classes: int

    calls = ("compiler.runtime.chunked_loss",)
    caption = ("softmax", "Cross entropy in chunks,")

    def infer(self, inputs: Types, parameters: Sequence[Shape]) -> Type:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and x.shape[-1] == parameters[0][1], self, x, labels)
        return Type((Size.of(2),))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x, labels), (table, *bias) = inputs, parameters
        return super().interpret([sum(bias, x @ table.T)[..., : self.classes], labels], [])

    def emit(self, line: Line, inputs: Names, parameters: Names) -> str:
        (x, labels), (table, *bias) = inputs, parameters
        how = [repr(self.smoothing), str(self.wrong_classes), str(self.classes)]
        return f"chunked_loss({', '.join((x, table, labels, *how, *bias))})"

    def products(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]

    def kept(self, inputs: Types, parameters: Sequence[Shape]) -> Size:
        # These gradients are there before the others.
        return product(inputs[0].shape) + sum(map(product, parameters), Size())

"""Probabilities of tokens, and the loss that training minimises (section 5.4)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from compiler.instruction import Unsupported
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    PlainOperation,
    Shape,
    Tensors,
    ValueKind,
    ValueType,
    ValueTypes,
    require,
)
from compiler.size import Size, product
from specs import EOS, PAD

if TYPE_CHECKING:
    from torch import Tensor

    from compiler.native_codegen import NativeCodeGenerator
    from compiler.operations.operation import Node

SUPPRESSED_LOGIT = -1e8
"""Tokens with this logit or a lower logit are suppressed: the model never generates them. They stay suppressed in
training, because label smoothing ignores them. Imported models can have such tokens."""

SMALLEST_ATTENTION = 1e-9
"""Lower bound of attention weights in the alignment loss, which takes their logarithm."""


class LogSoftmax(PlainOperation):
    """Log-probabilities over the last dimension. The result is always float32."""

    code = "{0}.float().log_softmax(dim=-1)"

    def native(self, codegen: NativeCodeGenerator, node: Node) -> None:
        """Add no instruction, because the instruction LOGITS includes the softmax."""
        if node.inputs[0] in codegen.operands:
            raise Unsupported("it can apply LogSoftmax only to logits")


class PickLabels(Operation):
    """Log-probability of each label, or 0 if the label is PAD.

    log-probabilities [..., V], labels [...] -> [...].
    """

    code = "losses.pick({0}, {1})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and labels.kind is ValueKind.INTEGER, self, x, labels)
        return ValueType(labels.shape)

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, labels = inputs
        return x.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


class CrossEntropy(Operation):
    """Cross entropy with label smoothing (section 5.4), summed over labels. Labels that are PAD are ignored.

    Inputs: logits [..., V], labels [...]. The result [2] contains the smoothed loss, which training minimises, and the
    loss without smoothing, which gives the perplexity. `smoothing` is the probability that is spread over all V classes
    or, with `wrong_classes`, over the V - 1 wrong classes. Smoothing ignores suppressed tokens (see SUPPRESSED_LOGIT).
    """

    smoothing: float
    wrong_classes: bool

    code = "losses.smoothed_loss({0}, {1}, {self.smoothing!r}, {self.wrong_classes})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        logits, labels = inputs
        require(logits.shape[:-1] == labels.shape and labels.kind is ValueKind.INTEGER, self, logits, labels)
        return ValueType((Size.of(2),))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        logits, labels = inputs
        real = labels != PAD
        log_p, label = logits[real].log_softmax(-1), labels[real][:, None]
        possible = (logits[real] > SUPPRESSED_LOGIT).float()
        classes = possible.sum(-1, keepdim=True)
        wrong = self.smoothing / (classes - 1) if self.wrong_classes else self.smoothing / classes
        right = 1 - self.smoothing + wrong * (not self.wrong_classes)
        target = (wrong * possible).scatter(-1, label, right.expand(label.shape))
        sums = log_p.new_zeros(2)
        sums[0], sums[1] = -(target * log_p).sum(), -log_p.gather(-1, label).sum()
        return sums


class AlignmentLoss(Operation):
    """Guided alignment loss, which is added to the smoothed loss.

    The added loss is the cross entropy between the first head's attention weights and a word alignment.

    Inputs: the two losses from `CrossEntropy` [2], attention weights [batch, h, n, m], and the alignment [batch, n, m].
    Each row of the alignment is a probability distribution, or all zeros if the position has no link. The result [2]
    contains both losses.
    """

    weight: float

    code = "losses.alignment_loss({0}, {1}, {2}, {self.weight!r})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        loss, weights, alignment = inputs
        fits = weights.shape[:1] + weights.shape[2:] == alignment.shape and loss.shape == (Size.of(2),)
        require(fits, self, loss, weights, alignment)
        return loss

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        loss, weights, alignment = inputs
        is_link = alignment > 0
        nats = -(alignment[is_link] * weights[:, 0][is_link].clamp(min=SMALLEST_ATTENTION).log()).sum()
        return loss + loss.new_tensor([self.weight, 0.0]) * nats


class CtcLoss(Operation):
    """Connectionist temporal classification (CTC) loss, added to the smoothed loss (Graves et al. 2006).

    The CTC loss is the negative logarithm of the total probability of all paths that spell the labels. A path has one
    symbol per encoder position. PAD is the blank. To read the labels from a path, merge repeated symbols, then remove
    the blanks. EOS is not part of these labels.

    Inputs: the two losses from `CrossEntropy` [2], logits [batch, source, V] at the encoder's positions, the mask of
    their padding [batch, 1, 1, source], and labels [batch, target]. The result [2] contains both losses. If an example
    has too few positions for its labels, the example adds nothing.
    """

    weight: float

    code = "losses.ctc_loss({0}, {1}, {2}, {3}, {self.weight!r})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        loss, logits, padding, labels = inputs
        batch, source, _ = logits.shape
        fits = padding.shape[::3] == (batch, source) and labels.shape[0] == batch and loss.shape == (Size.of(2),)
        require(fits and padding.kind is ValueKind.MASK and labels.kind is ValueKind.INTEGER, self, *inputs)
        return loss

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        loss, logits, padding, labels = inputs
        for log_p, hidden, row in zip(logits.log_softmax(-1), padding[:, 0, 0], labels, strict=True):
            symbols = [PAD, *(symbol for token in row.tolist() if token not in (PAD, EOS) for symbol in (token, PAD))]
            # The log-probability of all paths so far, by the symbol that they end with
            ends = [log_p.new_full((), -math.inf if index else 0.0) for index in range(len(symbols))]
            for step in log_p[~hidden]:
                before, ends = ends, []
                for index, symbol in enumerate(symbols):
                    end = before[index]
                    if index:
                        end = end.logaddexp(before[index - 1])
                    if index > 1 and symbol not in (PAD, symbols[index - 2]):
                        end = end.logaddexp(before[index - 2])
                    ends.append(end + step[symbol])
            last = ends[-1].logaddexp(ends[-2]) if len(ends) > 1 else ends[-1]
            loss = loss - loss.new_tensor([self.weight, 0.0]) * (last if last.isfinite() else 0.0)
        return loss


class ChunkedCrossEntropy(CrossEntropy):
    """Pre-softmax projection and cross entropy in one operation. The logits are computed and discarded in chunks.

    Inputs: x [..., d], labels [...]. Parameters: table [rows, d] and optionally a bias [rows]. The first `classes`
    rows are the vocabulary. The other rows are padding. The result is the same as the result of `CrossEntropy`.
    """

    classes: int

    function = "losses.chunked_loss"
    """The function that emitted code calls."""

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and x.shape[-1] == parameters[0][1], self, x, labels)
        return ValueType((Size.of(2),))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        (x, labels), (table, *bias) = inputs, parameters
        return super().interpret([sum(bias, x @ table.T)[..., : self.classes], labels], [])

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x, labels), (table, *bias) = inputs, parameters
        options = [repr(self.smoothing), str(self.wrong_classes), str(self.classes)]
        return f"{self.function}({', '.join((x, table, labels, *options, *bias))})"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        # The forward pass already computes the gradients of x and of the parameters.
        return product(inputs[0].shape) + sum(map(product, parameters), Size())

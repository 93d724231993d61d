"""Losses that training minimises. The loss of a task lowers all graphs that read the target.

To add a loss, add its function and a line in LOSSES, and set `loss` in the class of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from compiler.operations.probability import AlignmentLoss, CrossEntropy, LogSoftmax, PickLabels
from compiler.size import BATCH, SOURCE, TARGET

if TYPE_CHECKING:
    from compiler.lowering.transformer import Transformer


def cross_entropy(model: Transformer) -> None:
    """Add the loss of the target's tokens (5.4), each given the tokens before it, or their log-probabilities."""
    (logits, labels), b, training = model.teacher_forced(), model.b, model.spec.training
    if not b.purpose.trains:
        log_probabilities = b.node("log_softmax", LogSoftmax(), (logits,))
        b.output("log_probabilities", b.node("picked", PickLabels(), (log_probabilities, labels)))
        return
    loss = CrossEntropy(training.label_smoothing, training.label_smoothing_spread == "wrong_classes")
    total = b.node("loss", loss, (logits, labels))
    if training.guided_alignment is not None:
        (weights,) = model.guided
        alignment = b.input("alignment", BATCH, TARGET, SOURCE)
        total = b.node("guided_loss", AlignmentLoss(training.guided_alignment), (total, weights, alignment))
    b.output("loss", total)


LOSSES: Mapping[str, Callable[[Transformer], None]] = {"cross_entropy": cross_entropy}
"""The function for each value of a task's `loss`. In training, it adds the output `loss` [2], a sum and a number of
labels. For other purposes, it adds the output `log_probabilities`."""

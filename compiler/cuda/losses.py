"""Cross entropy with label smoothing in one kernel, which overwrites the logits with their gradients (5.4)."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from compiler.operations.probability import SUPPRESSED_LOGIT
from specs import PAD

BLOCK, WARPS = 4096, 8
"""Number of logits that a program works on at a time, and its warps. If sums are reduced in each block instead of
at the end, the kernel takes 50 % longer on an H100."""


@triton.jit
def _cross_entropy(
    logits, labels, losses, count, row_stride, classes, smoothing, suppressed, pad,
    wrong_classes: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    start, columns = logits + row * row_stride, tl.arange(0, block)
    if label == pad:
        zero = tl.zeros((block,), tl.float32)
        for first in range(0, row_stride, block):
            tl.store(start + first + columns, zero, first + columns < row_stride)
        tl.store(losses + row, 0.0)
        tl.store(losses + count + row, 0.0)
    else:
        highest = tl.full((block,), float("-inf"), tl.float32)
        sums, totals, possible = (
            tl.zeros((block,), tl.float32), tl.zeros((block,), tl.float32), tl.zeros((block,), tl.float32)
        )  # fmt: skip
        for first in range(0, classes, block):
            z = tl.load(start + first + columns, first + columns < classes, other=float("-inf")).to(tl.float32)
            is_open = z > suppressed
            higher = tl.maximum(highest, tl.where(is_open, z, float("-inf")))
            is_finite = higher > float("-inf")
            shift = tl.where(is_finite, higher, 0.0)
            sums = sums * tl.exp(highest - shift) + tl.where(is_open, tl.exp(z - shift), 0.0)
            highest = higher
            totals += tl.where(is_open, z, 0.0)
            possible += is_open.to(tl.float32)
        top = tl.max(highest, 0)
        log_z = top + tl.log(tl.sum(sums * tl.exp(highest - top), 0))
        open_classes = tl.sum(possible, 0)
        plain = log_z - tl.load(start + label).to(tl.float32)
        total = open_classes * log_z - tl.sum(totals, 0)
        if wrong_classes:
            other = smoothing / (open_classes - 1)
            loss = (1 - smoothing) * plain + other * (total - plain)
            own = 1 - smoothing
        else:
            other = smoothing / open_classes
            loss = (1 - smoothing) * plain + other * total
            own = 1 - smoothing + other
        tl.store(losses + row, loss)
        tl.store(losses + count + row, plain)
        for first in range(0, row_stride, block):
            inside = first + columns < classes
            z = tl.load(start + first + columns, inside, other=float("-inf")).to(tl.float32)
            target = tl.where(first + columns == label, own, other)
            gradient = tl.where(z > suppressed, tl.exp(z - log_z) - target, 0.0)
            tl.store(start + first + columns, gradient, first + columns < row_stride)


def cross_entropy(logits: Tensor, labels: Tensor, classes: int, smoothing: float, wrong_classes: bool) -> Tensor:
    """Overwrite logits [n, width] with the gradients of the loss. Return the loss with and without smoothing, [2, n].

    Args:
        logits: The logits. Their rows are contiguous. The columns after the first `classes` are padding.
        labels: The labels, [n]. The loss and the gradients of a PAD are 0.
        classes: Size of the vocabulary.
        smoothing: The probability that is spread over other classes.
        wrong_classes: Whether it is spread over the wrong classes only.
    """
    count = len(labels)
    losses = torch.empty((2, count), dtype=torch.float32, device=logits.device)
    _cross_entropy[(count,)](
        logits, labels, losses, count, logits.shape[1], classes, smoothing, SUPPRESSED_LOGIT, PAD, wrong_classes,
        min(BLOCK, triton.next_power_of_2(logits.shape[1])), num_warps=WARPS,
    )  # fmt: skip
    return losses

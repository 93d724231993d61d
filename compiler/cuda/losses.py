"""Cross entropy with label smoothing in one kernel, which overwrites the logits with their gradients (5.4)."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from compiler.operations.probability import SUPPRESSED_LOGIT
from specs import PAD

BLOCK, WARPS = 4096, 16
"""Number of logits that a program processes at a time, and number of warps per program."""
VECTOR: tl.constexpr = tl.constexpr(8)
"""Number of neighbouring logits that a thread reads at once and reduces by itself."""


@triton.jit
def _read(start, first, row_stride, classes, block: tl.constexpr):
    """Return the column indices and the logits of a block, [block / VECTOR, VECTOR]. Padding has logits of -inf."""
    columns = first + tl.arange(0, block // VECTOR)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    z = tl.load(start + columns, columns < row_stride, other=float("-inf")).to(tl.float32)
    return columns, tl.where(columns < classes, z, float("-inf"))


@triton.jit
def _cross_entropy(
    logits, labels, losses, count, row_units, classes, smoothing, suppressed, pad,
    wrong_classes: tl.constexpr, suppresses: tl.constexpr, block: tl.constexpr, alignment: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    row_stride = row_units * alignment  # so that Triton can vectorise the loads
    label = tl.load(labels + row)
    start = logits + row * row_stride
    if label == pad:
        for first in range(0, row_stride, block):
            columns = first + tl.arange(0, block)
            tl.store(start + columns, tl.zeros((block,), tl.float32), columns < row_stride)
        tl.store(losses + row, 0.0)
        tl.store(losses + count + row, 0.0)
    else:
        own_logit = tl.load(start + label).to(tl.float32)
        highest = tl.full((block // VECTOR,), -3.0e38, tl.float32)
        sums, totals, closed = highest * 0.0, highest * 0.0, highest * 0.0
        for first in range(0, row_stride, block):
            columns, z = _read(start, first, row_stride, classes, block)
            higher = tl.maximum(highest, tl.max(z, 1))
            sums = sums * tl.exp(highest - higher) + tl.sum(tl.exp(z - higher[:, None]), 1)
            highest = higher
            is_open = columns < classes
            if suppresses:
                closed += tl.sum((is_open & (z <= suppressed)).to(tl.float32), 1)
                is_open = is_open & (z > suppressed)
            totals += tl.sum(tl.where(is_open, z, 0.0), 1)
        top = tl.max(highest, 0)
        log_z = top + tl.log(tl.sum(sums * tl.exp(highest - top), 0))
        open_classes = classes - tl.sum(closed, 0)
        plain = log_z - own_logit
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
            columns, z = _read(start, first, row_stride, classes, block)
            gradient = tl.exp(z - log_z) - other
            if suppresses:
                gradient = tl.where(z > suppressed, gradient, 0.0)
            tl.store(start + columns, tl.where(columns < classes, gradient, 0.0), columns < row_stride)
        tl.debug_barrier()
        own_gradient = tl.exp(own_logit - log_z) - own
        if suppresses:
            own_gradient = tl.where(own_logit > suppressed, own_gradient, 0.0)
        tl.store(start + label, own_gradient)


def cross_entropy(
    logits: Tensor, labels: Tensor, classes: int, smoothing: float, wrong_classes: bool, suppresses: bool
) -> Tensor:
    """Overwrite logits [n, width] with the gradients of the loss. Return the loss with and without smoothing, [2, n].

    Args:
        logits: The logits. Their rows are contiguous. The columns after the first `classes` are padding.
        labels: The labels, [n]. If a label is PAD, its loss and gradients are 0.
        classes: Size of the vocabulary.
        smoothing: The label smoothing probability.
        wrong_classes: Whether `smoothing` is spread over the wrong classes only, instead of over all classes.
        suppresses: Whether some classes may be suppressed. If not, the kernel is faster.
    """
    (count, width), alignment = logits.shape, math.gcd(logits.shape[1], 8)
    losses = torch.empty((2, count), dtype=torch.float32, device=logits.device)
    _cross_entropy[(count,)](
        logits, labels, losses, count, width // alignment, classes, smoothing, SUPPRESSED_LOGIT, PAD, wrong_classes,
        suppresses, min(BLOCK, triton.next_power_of_2(max(width, 8))), alignment, num_warps=WARPS,
    )  # fmt: skip
    return losses

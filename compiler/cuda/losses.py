"""Cross entropy with label smoothing in one kernel, which overwrites the logits with their gradients (section 5.4)."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from compiler.operations.probability import SUPPRESSED_LOGIT
from specs import PAD

BLOCK, WARPS = 4096, 16
"""Number of logits that a Triton program processes at a time, and number of warps per Triton program."""
VECTOR: tl.constexpr = tl.constexpr(8)
"""Number of neighbouring logits that a thread reads at once and reduces by itself."""


@triton.jit
def _read(start, first, row_stride, classes, block: tl.constexpr):
    """Return the column indices and logits of a block, each [block / VECTOR, VECTOR]. Padding has logits of -inf."""
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


def whole_loss(
    x: Float[Tensor, "1 n d_model"],
    table: Float[Tensor, "rows d_model"],
    labels: Int[Tensor, "1 n"],
    smoothing: float,
    wrong_classes: bool,
    classes: int,
    bias: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, 2]:
    """Return the same loss as `compiler.runtime.losses.chunked_loss`, with all logits in memory at once.

    The amount of work does not depend on the number of PAD labels, so a CUDA graph can compute the loss. The kernel
    overwrites the logits with their gradients. Logits and gradients have the data type of x.
    """
    return _WholeLoss.apply(x, table, bias, labels, smoothing, wrong_classes, classes)


class _WholeLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, table: Tensor, bias: Tensor | None, labels: Tensor, smoothing: float, wrong_classes: bool,
        classes: int,
    ) -> Tensor:  # fmt: skip
        rows = x.flatten(0, -2)
        logits = functional.linear(rows, table, bias)  # the columns after the first `classes` are padding
        (count, width), alignment = logits.shape, math.gcd(logits.shape[1], 8)
        losses = torch.empty((2, count), dtype=torch.float32, device=logits.device)
        suppresses = bias is not None  # without suppressed classes, the kernel is faster
        _cross_entropy[(count,)](
            logits, labels.flatten(), losses, count, width // alignment, classes, smoothing, SUPPRESSED_LOGIT, PAD,
            wrong_classes, suppresses, min(BLOCK, triton.next_power_of_2(max(width, 8))), alignment, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(rows, table, logits)
        ctx.shape, ctx.bias_type = x.shape, None if bias is None else bias.dtype
        return losses.sum(1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (rows, table, logits), scale = ctx.saved_tensors, gradient[0]
        scale = scale.to(rows.dtype)
        d_x = (logits @ table).mul_(scale).view(ctx.shape)
        d_table = (logits.T @ rows).mul_(scale)
        d_bias = None if ctx.bias_type is None else (logits.sum(0, dtype=torch.float32) * gradient[0]).to(ctx.bias_type)
        return d_x, d_table, d_bias, None, None, None, None

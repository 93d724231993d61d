"""LayerNorm(x + Dropout(y)) in one kernel forward and one backward, and dropout alone (3.1, 5.4)."""

# ruff: noqa: D103 - Triton functions are described by the functions that launch them

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from compiler.cuda.masks import kept

ELEMENTS = 2048
"""Number of elements that a program of a kernel works on at a time."""
BACKWARD_PROGRAMS = 512
"""Number of programs of the backward pass. Each sums the gradients of gain and bias over its rows."""


@triton.jit
def _sum_rows(x, y, rows, columns, inside, width, seed, key, threshold, scale, has_y: tl.constexpr, drops: tl.constexpr):
    index = rows[:, None] * width + columns[None, :]
    z = tl.load(x + index, inside, other=0.0).to(tl.float32)
    factor = tl.full(index.shape, 1.0, tl.float32)
    if has_y:
        if drops:
            factor = tl.where(kept(seed, key, index, threshold), scale, 0.0)
        z += tl.load(y + index, inside, other=0.0).to(tl.float32) * factor
    return index, z, factor


@triton.jit(do_not_specialize=["key", "threshold"])
def _forward(
    x, y, gain, bias, out, means, deviations, count, width, epsilon, seed, key, threshold, scale,
    has_y: tl.constexpr, drops: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * block_rows + tl.arange(0, block_rows), tl.arange(0, block_width)
    inside = (rows < count)[:, None] & (columns < width)[None, :]
    index, z, _ = _sum_rows(x, y, rows, columns, inside, width, seed, key, threshold, scale, has_y, drops)
    mean = tl.sum(z, 1) / width
    centred = tl.where(inside, z - mean[:, None], 0.0)
    deviation = 1 / tl.sqrt(tl.sum(centred * centred, 1) / width + epsilon)
    g = tl.load(gain + columns, columns < width, other=0.0).to(tl.float32)
    b = tl.load(bias + columns, columns < width, other=0.0).to(tl.float32)
    tl.store(out + index, centred * deviation[:, None] * g[None, :] + b[None, :], inside)
    tl.store(means + rows, mean, rows < count)
    tl.store(deviations + rows, deviation, rows < count)


@triton.jit(do_not_specialize=["key", "threshold"])
def _backward(
    x, y, gain, gradient, means, deviations, x_gradient, y_gradient, gain_sums, bias_sums,
    count, width, seed, key, threshold, scale,
    has_y: tl.constexpr, drops: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, block_width)
    g = tl.load(gain + columns, columns < width, other=0.0).to(tl.float32)
    gain_sum = tl.zeros((block_width,), tl.float32)
    bias_sum = tl.zeros((block_width,), tl.float32)
    for start in range(tl.program_id(0) * block_rows, count, tl.num_programs(0) * block_rows):
        rows = start + tl.arange(0, block_rows)
        inside = (rows < count)[:, None] & (columns < width)[None, :]
        index, z, factor = _sum_rows(x, y, rows, columns, inside, width, seed, key, threshold, scale, has_y, drops)
        mean, deviation = tl.load(means + rows, rows < count, other=0.0), tl.load(deviations + rows, rows < count, other=0.0)
        normed = tl.where(inside, (z - mean[:, None]) * deviation[:, None], 0.0)
        d = tl.load(gradient + index, inside, other=0.0).to(tl.float32)
        gain_sum += tl.sum(d * normed, 0)
        bias_sum += tl.sum(d, 0)
        d *= g[None, :]
        dz = (d - tl.sum(d, 1)[:, None] / width - normed * (tl.sum(d * normed, 1)[:, None] / width)) * deviation[:, None]
        tl.store(x_gradient + index, dz, inside)
        if has_y:
            if drops:
                tl.store(y_gradient + index, dz * factor, inside)
    tl.store(gain_sums + tl.program_id(0) * width + columns, gain_sum, columns < width)
    tl.store(bias_sums + tl.program_id(0) * width + columns, bias_sum, columns < width)


@triton.jit(do_not_specialize=["key", "threshold"])
def _drop(x, out, count, seed, key, threshold, scale, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    factor = tl.where(kept(seed, key, index, threshold), scale, 0.0)
    tl.store(out + index, tl.load(x + index, index < count).to(tl.float32) * factor, index < count)


def _blocks(width: int) -> tuple[int, int]:
    block_width = triton.next_power_of_2(width)
    return max(1, ELEMENTS // block_width), block_width


def _dropping(probability: float) -> tuple[int, float]:
    """Return the threshold of a hash, and the factor of elements that are kept."""
    return round(probability * 2**32), 1 / (1 - probability)


def residual_norm(
    x: Tensor, y: Tensor | None, gain: Tensor, bias: Tensor, epsilon: float, probability: float, seed: Tensor, key: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return LayerNorm(x + Dropout(y)), and mean and 1 / standard deviation of each row, for the backward pass."""
    width = x.shape[-1]
    count, (block_rows, block_width) = x.numel() // width, _blocks(width)
    out, means, deviations = torch.empty_like(x), *x.new_empty((2, count), dtype=torch.float32)
    threshold, scale = _dropping(probability)
    _forward[(triton.cdiv(count, block_rows),)](
        x, y, gain, bias, out, means, deviations, count, width, epsilon, seed, key, threshold, scale,
        y is not None, probability > 0, block_rows, block_width,
    )  # fmt: skip
    return out, means, deviations


def residual_norm_backward(
    gradient: Tensor,
    x: Tensor,
    y: Tensor | None,
    gain: Tensor,
    means: Tensor,
    deviations: Tensor,
    probability: float,
    seed: Tensor,
    key: int,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Return the gradients of x, y, gain and bias."""
    width = x.shape[-1]
    count, (block_rows, block_width) = x.numel() // width, _blocks(width)
    programs = min(BACKWARD_PROGRAMS, triton.cdiv(count, block_rows))
    x_gradient, sums = torch.empty_like(x), x.new_empty((2, programs, width), dtype=torch.float32)
    y_gradient = torch.empty_like(x) if y is not None and probability else x_gradient
    threshold, scale = _dropping(probability)
    _backward[(programs,)](
        x, y, gain, gradient, means, deviations, x_gradient, y_gradient, sums[0], sums[1],
        count, width, seed, key, threshold, scale, y is not None, probability > 0, block_rows, block_width,
    )  # fmt: skip
    gain_gradient, bias_gradient = sums.sum(1)
    return x_gradient, None if y is None else y_gradient, gain_gradient, bias_gradient


def dropout(x: Tensor, probability: float, seed: Tensor, key: int) -> Tensor:
    """Return x after dropout. The gradient of x is the same function of the gradient of the result."""
    out, (threshold, scale) = torch.empty_like(x), _dropping(probability)
    _drop[(triton.cdiv(x.numel(), ELEMENTS),)](x, out, x.numel(), seed, key, threshold, scale, ELEMENTS)
    return out

"""LayerNorm(x + Dropout(y + c)), dropout, and ReLU after a matrix product, with their gradients.

Dropout masks depend only on the seed of the step, the key of the dropout layer, and the index of the element.
"""

# ruff: noqa: D103 - Triton functions are described by comments

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

ELEMENTS, WARPS = 1024, 2
"""Elements per step and warps of a Triton program. These values are the fastest on an H100 for rows of 512 elements."""
RELU_BLOCK, RELU_ROWS = (32, 128), 256
"""Rows and columns that a Triton program of ReLU's backward pass processes at a time, and its total number of rows."""
BACKWARD_PROGRAMS = 1056
"""Maximum number of Triton programs in the backward pass. Each sums the gradients of gain and bias over its rows."""
_RESIDUAL_COPY = "_residual_copy"
"""Attribute of a norm's result that contains a second copy of the result. The next residual connection reads the copy.
So the norm's backward pass receives two gradients, and adds them in its own kernel."""


@triton.jit
def _sum_rows(
    x, y, c, rows, columns, inside, width, seed, key, threshold, scale,
    has_y: tl.constexpr, has_c: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    index = rows[:, None] * width + columns[None, :]
    z = tl.load(x + index, inside, other=0.0).to(tl.float32)
    factor = tl.full(index.shape, 1.0, tl.float32)
    if has_y:
        if drops:
            factor = tl.where(kept(seed, key, index, threshold), scale, 0.0)
        added = tl.load(y + index, inside, other=0.0).to(tl.float32)
        if has_c:
            added += tl.load(c + columns, columns < width, other=0.0).to(tl.float32)[None, :]
        z += added * factor
    return index, z, factor


@triton.jit(do_not_specialize=["key", "threshold"])
def _forward(
    x, y, c, gain, bias, out, means, deviations, count, width, epsilon, seed, key, threshold, scale,
    has_y: tl.constexpr, has_c: tl.constexpr, drops: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr,
):  # fmt: skip
    rows, columns = tl.program_id(0) * block_rows + tl.arange(0, block_rows), tl.arange(0, block_width)
    inside = (rows < count)[:, None] & (columns < width)[None, :]
    index, z, _ = _sum_rows(
        x, y, c, rows, columns, inside, width, seed, key, threshold, scale, has_y, has_c, drops
    )  # fmt: skip
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
    x, y, c, gain, gradient, twin, means, deviations, x_gradient, y_gradient, sums,
    count, width, seed, key, threshold, scale, has_y: tl.constexpr, has_c: tl.constexpr, has_twin: tl.constexpr,
    drops: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, block_width)
    g = tl.load(gain + columns, columns < width, other=0.0).to(tl.float32)
    gain_sum = tl.zeros((block_width,), tl.float32)
    bias_sum = tl.zeros((block_width,), tl.float32)
    c_sum = tl.zeros((block_width,), tl.float32)
    for start in range(tl.program_id(0) * block_rows, count, tl.num_programs(0) * block_rows):
        rows = start + tl.arange(0, block_rows)
        inside = (rows < count)[:, None] & (columns < width)[None, :]
        index, z, factor = _sum_rows(
        x, y, c, rows, columns, inside, width, seed, key, threshold, scale, has_y, has_c, drops
    )  # fmt: skip
        mean = tl.load(means + rows, rows < count, other=0.0)
        deviation = tl.load(deviations + rows, rows < count, other=0.0)
        normed = tl.where(inside, (z - mean[:, None]) * deviation[:, None], 0.0)
        d = tl.load(gradient + index, inside, other=0.0).to(tl.float32)
        if has_twin:
            d += tl.load(twin + index, inside, other=0.0).to(tl.float32)
        gain_sum += tl.sum(d * normed, 0)
        bias_sum += tl.sum(d, 0)
        d *= g[None, :]
        dz = (d - tl.sum(d, 1)[:, None] / width - normed * (tl.sum(d * normed, 1)[:, None] / width)) * deviation[
            :, None
        ]
        tl.store(x_gradient + index, dz, inside)
        if has_y:
            if drops:
                tl.store(y_gradient + index, dz * factor, inside)
            if has_c:
                c_sum += tl.sum(dz * factor, 0)
    place, step = sums + tl.program_id(0) * width + columns, tl.num_programs(0) * width
    tl.store(place, gain_sum, columns < width)
    tl.store(place + step, bias_sum, columns < width)
    if has_c:
        tl.store(place + 2 * step, c_sum, columns < width)


@triton.jit
def _relu_backward(
    gradient, out, d, sums, count, width, rows_each: tl.constexpr, block_rows: tl.constexpr, block_width: tl.constexpr
):  # fmt: skip
    columns = tl.program_id(1) * block_width + tl.arange(0, block_width)
    total = tl.zeros((block_width,), tl.float32)
    for start in range(0, rows_each, block_rows):
        rows = tl.program_id(0) * rows_each + start + tl.arange(0, block_rows)
        inside = (rows < count)[:, None] & (columns < width)[None, :]
        index = rows[:, None] * width + columns[None, :]
        passed = tl.load(out + index, inside, other=0.0) > 0
        value = tl.where(passed, tl.load(gradient + index, inside, other=0.0), 0.0)
        tl.store(d + index, value, inside)
        total += tl.sum(value.to(tl.float32), 0)
    tl.store(sums + tl.program_id(0) * width + columns, total, columns < width)


@triton.jit(do_not_specialize=["key", "threshold"])
def _drop(x, out, count, seed, key, threshold, scale, block: tl.constexpr):
    index = tl.program_id(0) * block + tl.arange(0, block)
    factor = tl.where(kept(seed, key, index, threshold), scale, 0.0)
    tl.store(out + index, tl.load(x + index, index < count).to(tl.float32) * factor, index < count)


def _blocks(width: int) -> tuple[int, int]:
    block_width = triton.next_power_of_2(width)
    return max(1, ELEMENTS // block_width), block_width


def _dropping(probability: float) -> tuple[int, float]:
    """Return the hash threshold below which elements are dropped, and the factor that scales the other elements."""
    return round(probability * 2**32), 1 / (1 - probability)


def residual_norm(
    x: Float[Tensor, "... d"],
    y: Float[Tensor, "... d"] | None,
    c: Float[Tensor, " d"] | None,
    gain: Float[Tensor, " d"],
    bias: Float[Tensor, " d"],
    epsilon: float,
    probability: float = 0.0,
    seed: Int[Tensor, ""] | None = None,
    key: int = 0,
    training: bool = False,
) -> Float[Tensor, "... d"]:
    """Return LayerNorm(x + Dropout(y + c)) (sections 3.1 and 5.4). y and c are optional.

    Sums and statistics are computed in float32, regardless of the type of x.
    """
    probability = probability if training else 0.0
    x = getattr(x, _RESIDUAL_COPY, x)
    out, copy = _ResidualNorm.apply(x, y, c, gain, bias, epsilon, probability, seed, key)
    setattr(out, _RESIDUAL_COPY, copy)
    return out


class _ResidualNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor | None, c: Tensor | None, gain: Tensor, bias: Tensor, epsilon: float,
        probability: float, seed: Tensor | None, key: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        x, y, width = x.contiguous(), None if y is None else y.contiguous(), x.shape[-1]
        count, (block_rows, block_width) = x.numel() // width, _blocks(width)
        out, means, deviations = torch.empty_like(x), *x.new_empty((2, count), dtype=torch.float32)
        dropping = (seed, key, *_dropping(probability))
        _forward[(triton.cdiv(count, block_rows),)](
            x, y, c, gain, bias, out, means, deviations, count, width, epsilon, *dropping, y is not None, c is not None,
            probability > 0, block_rows, block_width, num_warps=WARPS,
        )  # fmt: skip
        ctx.save_for_backward(x, y, c, gain, bias, seed, means, deviations)
        ctx.probability, ctx.key = probability, key
        ctx.set_materialize_grads(False)
        return out, out.detach()

    @staticmethod
    def backward(ctx: Any, *received: Tensor | None) -> tuple[Tensor | None, ...]:
        (*tensors, seed, means, deviations), drops = ctx.saved_tensors, ctx.probability > 0
        x, y, c, gain, _ = tensors
        given, width = [gradient.contiguous() for gradient in received if gradient is not None], x.shape[-1]
        count, (block_rows, block_width) = x.numel() // width, _blocks(width)
        programs = min(BACKWARD_PROGRAMS, triton.cdiv(count, block_rows))
        x_gradient = torch.empty_like(x)
        y_gradient = torch.empty_like(x) if y is not None and drops else x_gradient
        sums = x.new_empty((2 + (c is not None), programs, width), dtype=torch.float32)
        dropping = (seed, ctx.key, *_dropping(ctx.probability))
        _backward[(programs,)](
            x, y, c, gain, given[0], given[-1], means, deviations, x_gradient, y_gradient, sums, count, width,
            *dropping, y is not None, c is not None, len(given) > 1, drops, block_rows, block_width, num_warps=WARPS,
        )  # fmt: skip
        gain_gradient, bias_gradient, *c_gradient = sums.sum(1)
        gradients = (x_gradient, y_gradient, c_gradient[0] if c_gradient else None, gain_gradient, bias_gradient)
        cast_gradients = (None if t is None else d.to(t.dtype) for d, t in zip(gradients, tensors, strict=True))
        return *cast_gradients, None, None, None, None


def linear_relu(
    x: Float[Tensor, "... inner"], matrix: Float[Tensor, "inner outer"], bias: Float[Tensor, " outer"]
) -> Float[Tensor, "... outer"]:
    """Return max(0, x W + b), the first half of the feed-forward network (section 3.3)."""
    return _LinearRelu.apply(x, matrix, bias)


class _LinearRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
        rows = x.flatten(0, -2)
        out = torch._addmm_activation(bias, rows, matrix)  # cuBLAS adds the bias and applies the ReLU
        ctx.save_for_backward(rows, matrix, out)
        return out.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rows, matrix, out = ctx.saved_tensors
        (count, width), (block_rows, block_width) = out.shape, RELU_BLOCK
        d, programs = torch.empty_like(out), triton.cdiv(count, RELU_ROWS)
        sums = out.new_empty((programs, width), dtype=torch.float32)
        _relu_backward[(programs, triton.cdiv(width, block_width))](
            gradient.flatten(0, -2).contiguous(), out, d, sums, count, width, RELU_ROWS, block_rows, block_width
        )
        return (d @ matrix.T).view(*gradient.shape[:-1], -1), rows.T @ d, sums.sum(0).to(out.dtype)


def seeded_dropout(
    x: Float[Tensor, ...], probability: float, seed: Int[Tensor, ""], key: int, training: bool
) -> Float[Tensor, ...]:
    """Apply dropout to x if `training` is true (section 5.4).

    The mask depends only on `seed`, `key` and the index of each element.
    """
    return _SeededDropout.apply(x, probability, seed, key) if training else x


class _SeededDropout(torch.autograd.Function):
    """Autograd function for dropout. The backward pass applies the same mask and scale to the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float, seed: Tensor, key: int) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.options = probability, key
        return _dropped(x, probability, seed, key)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (seed,), (probability, key) = ctx.saved_tensors, ctx.options
        return _dropped(gradient, probability, seed, key), None, None, None


def _dropped(x: Tensor, probability: float, seed: Tensor, key: int) -> Tensor:
    x, (threshold, scale) = x.contiguous(), _dropping(probability)
    out = torch.empty_like(x)
    _drop[(triton.cdiv(x.numel(), ELEMENTS),)](x, out, x.numel(), seed, key, threshold, scale, ELEMENTS)
    return out


# A dropout mask depends only on a seed, a key and the indices of its elements, so masks need not be stored.
#
# An element is kept if a 32-bit hash of its index is at least `probability` · 2^32. The hash consists of two rounds of
# MurmurHash3's finaliser, and one half of the seed enters before each round. The backward pass computes the mask again,
# and a resumed run computes the same masks as a run that was never stopped.


@triton.jit
def mixed(h):
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def kept(seed, key, index, threshold):
    """Return whether dropout keeps the elements with these indices.

    Args:
        seed: Pointer to the seed, which is a 64-bit integer.
        key: Number that identifies the dropout layer.
        index: Indices of the elements, as 32-bit integers.
        threshold: The probability of dropout times 2^32.
    """
    whole = tl.load(seed)
    low, high = (whole & 0xFFFFFFFF).to(tl.uint32), ((whole >> 32) & 0xFFFFFFFF).to(tl.uint32)
    first = mixed(low + key.to(tl.uint32))
    second = mixed(high ^ first)
    return mixed(mixed(index.to(tl.uint32) + first) ^ second) >= threshold.to(tl.uint32)

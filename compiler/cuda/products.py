"""Matrix products with few rows, and optionally a norm before them, for decoder steps with few sentences.

Such a product takes as long as reading its matrix. Therefore the matrix is divided between many programs, and each
program computes the norm of all rows again. A kernel is launched before the previous kernel has finished. After each
program has read its part of the matrix, it waits for the previous kernel (programmatic dependent launch).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from compiler.cuda.norms import Norm

MAX_ROWS = 4
"""Largest number of rows for which the kernel was measured to be faster than cuBLAS."""
WIDTH = 2048
"""Maximum number of matrix rows that a program reads at a time, and maximum width of a norm."""


@triton.jit
def _product(
    x, y, c, gain, bias, matrix, outer_bias, normed, out, count, inner, outer, epsilon,
    has_norm: tl.constexpr, has_y: tl.constexpr, has_c: tl.constexpr, has_bias: tl.constexpr, relu: tl.constexpr,
    early: tl.constexpr, rows: tl.constexpr, chunks: tl.constexpr, width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    r, k, columns = tl.arange(0, rows), tl.arange(0, width), tl.program_id(0) * block + tl.arange(0, block)
    is_column = columns < outer
    place = matrix + k[:, None] * outer + columns[None, :]
    w = tl.load(place, (k < inner)[:, None] & is_column[None, :], other=0.0)
    if has_norm:
        g = tl.load(gain + k, k < inner, other=0.0).to(tl.float32)
        b = tl.load(bias + k, k < inner, other=0.0).to(tl.float32)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    inside = (r < count)[:, None] & (k < inner)[None, :]
    z = tl.load(x + r[:, None] * inner + k[None, :], inside, other=0.0).to(tl.float32)
    if has_norm:
        if has_y:
            z += tl.load(y + r[:, None] * inner + k[None, :], inside, other=0.0).to(tl.float32)
        if has_c:
            z += tl.load(c + k, k < inner, other=0.0).to(tl.float32)[None, :]
        mean = tl.sum(z, 1) / inner
        centred = tl.where(inside, z - mean[:, None], 0.0)
        deviation = 1 / tl.sqrt(tl.sum(centred * centred, 1) / inner + epsilon)
        z = (centred * deviation[:, None] * g[None, :] + b[None, :]).to(w.dtype).to(tl.float32)
        if tl.program_id(0) == 0:
            tl.store(normed + r[:, None] * inner + k[None, :], z, inside)
    result = tl.sum(z[:, :, None] * w.to(tl.float32)[None, :, :], 1)
    for chunk in tl.static_range(1, chunks):
        here = chunk * width + k
        w = tl.load(place + chunk * width * outer, (here < inner)[:, None] & is_column[None, :], other=0.0)
        inside = (r < count)[:, None] & (here < inner)[None, :]
        z = tl.load(x + r[:, None] * inner + here[None, :], inside, other=0.0).to(tl.float32)
        result += tl.sum(z[:, :, None] * w.to(tl.float32)[None, :, :], 1)
    if has_bias:
        result += tl.load(outer_bias + columns, is_column, other=0.0).to(tl.float32)[None, :]
    if relu:
        result = tl.maximum(result, 0.0)
    tl.store(out + r[:, None] * outer + columns[None, :], result, (r < count)[:, None] & is_column[None, :])


def early(x: Tensor) -> dict[str, bool]:
    """Return the options for programmatic dependent launch, in which a kernel starts before its predecessor has ended.

    Return no options for GPUs below compute capability 9.0, which do not support this kind of launch.
    """
    return {"launch_pdl": True} if x.is_cuda and _capability(x.device) >= (9, 0) else {}


@cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)


class Product(NamedTuple):
    """Arguments of x W + b or, with `relu`, of max(0, x W + b). The bias b may be None."""

    matrix: Tensor
    bias: Tensor | None
    relu: bool


def product(x: Tensor, given: Product) -> Tensor:
    """Return x W + b (see `Product`) for rows x [n, 1, inner] and W [inner, outer]. n is at most `MAX_ROWS`."""
    return _launch(x.contiguous(), None, None, given, min(WIDTH, triton.next_power_of_2(x.shape[-1])), 8)


def norm_product(norm: Norm, given: Product) -> tuple[Tensor, Tensor]:
    """Return z = LayerNorm(x + y + c), and z W + b (see `Product`). Rows have at most `WIDTH` elements."""
    norm = norm._replace(x=norm.x.contiguous(), y=None if norm.y is None else norm.y.contiguous())
    normed = torch.empty_like(norm.x)
    return normed, _launch(norm.x, norm, normed, given, triton.next_power_of_2(norm.x.shape[-1]), 16)


def _launch(x: Tensor, norm: Norm | None, normed: Tensor | None, given: Product, width: int, block: int) -> Tensor:
    """Run the kernel. Each Triton program computes `block` columns. It reads `width` rows of the matrix at a time."""
    inner, outer = given.matrix.shape
    y, c, gain, bias, epsilon = (norm.y, norm.c, norm.gain, norm.bias, norm.epsilon) if norm else (None,) * 4 + (0.0,)
    out, options = x.new_empty(*x.shape[:-1], outer), early(x)
    _product[(triton.cdiv(outer, block),)](
        x, y, c, gain, bias, given.matrix, given.bias, normed, out, len(x), inner, outer, epsilon, norm is not None,
        y is not None, c is not None, given.bias is not None, given.relu, bool(options),
        triton.next_power_of_2(len(x)), triton.cdiv(inner, width), width, block,
        num_warps=max(1, min(8, width // 128)), **options,
    )  # fmt: skip
    return out

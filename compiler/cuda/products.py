"""Matrix products of a few rows, with a norm before them: a decoder step for a few sentences consists of these.

Such a product takes as long as reading its matrix. So each program computes the norm of all rows again, and the matrix
is divided between many programs. Kernels are launched before the kernel before them has finished, and wait for it only
when they have read their part of the matrix (programmatic dependent launch).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from compiler.cuda.norms import Norm

MAX_ROWS = 16
"""Largest number of rows. Tensor cores multiply that many rows at a time."""
INNER, OUTER, PART = 2048, 16, 128
"""Rows and columns of the matrix that a program reads at a time, and the number of its rows that a warp multiplies."""


@triton.jit
def _product(
    x, y, c, gain, bias, matrix, outer_bias, out, x_stride, y_stride, out_stride, count, inner, outer, epsilon,
    has_norm: tl.constexpr, has_y: tl.constexpr, has_c: tl.constexpr, has_bias: tl.constexpr, relu: tl.constexpr,
    early: tl.constexpr, rows: tl.constexpr, chunks: tl.constexpr, parts: tl.constexpr, part: tl.constexpr,
    block: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    r, columns = tl.arange(0, rows), tl.program_id(0) * block + tl.arange(0, block)
    k = tl.arange(0, parts)[:, None] * part + tl.arange(0, part)[None, :]
    place = matrix + k[:, :, None] * outer + columns[None, None, :]
    w = tl.load(place, (k < inner)[:, :, None] & (columns < outer)[None, None, :], other=0.0)
    if early:
        gdc_launch_dependents()
        gdc_wait()
    inside = (r < count)[None, :, None] & (k < inner)[:, None, :]
    z = tl.load(x + r[None, :, None] * x_stride + k[:, None, :], inside, other=0.0)
    first = 0
    if has_norm:
        z = z.to(tl.float32)
        if has_y:
            z += tl.load(y + r[None, :, None] * y_stride + k[:, None, :], inside, other=0.0).to(tl.float32)
        if has_c:
            z += tl.load(c + k, k < inner, other=0.0).to(tl.float32)[:, None, :]
        mean = tl.sum(tl.sum(z, 2), 0) / inner
        centred = tl.where(inside, z - mean[None, :, None], 0.0)
        deviation = 1 / tl.sqrt(tl.sum(tl.sum(centred * centred, 2), 0) / inner + epsilon)
        g = tl.load(gain + k, k < inner, other=0.0).to(tl.float32)
        b = tl.load(bias + k, k < inner, other=0.0).to(tl.float32)
        z = (centred * deviation[None, :, None] * g[:, None, :] + b[:, None, :]).to(w.dtype)
        if tl.program_id(0) == 0:
            tl.store(out + r[None, :, None] * out_stride + k[:, None, :], z, inside)
        first = inner
    total = tl.dot(z, w, input_precision=precision)
    for chunk in tl.static_range(1, chunks):
        start = chunk * parts * part
        here = (start + k < inner)[:, :, None] & (columns < outer)[None, None, :]
        w = tl.load(place + start * outer, here, other=0.0)
        inside = (r < count)[None, :, None] & (start + k < inner)[:, None, :]
        z = tl.load(x + r[None, :, None] * x_stride + start + k[:, None, :], inside, other=0.0)
        total += tl.dot(z, w, input_precision=precision)
    result = tl.sum(total, 0)
    if has_bias:
        result += tl.load(outer_bias + columns, columns < outer, other=0.0).to(tl.float32)[None, :]
    if relu:
        result = tl.maximum(result, 0.0)
    tl.store(
        out + r[:, None] * out_stride + first + columns[None, :],
        result,
        (r < count)[:, None] & (columns < outer)[None, :],
    )


def early(x: Tensor) -> dict[str, bool]:
    """Return the options that launch a kernel before the kernel before it has finished. The kernel has to wait."""
    return {"launch_pdl": True} if x.is_cuda else {}


class Product(NamedTuple):
    """Arguments of x W, or of max(0, x W + b) with `relu`."""

    matrix: Tensor
    bias: Tensor | None
    relu: bool


def product(x: Tensor, given: Product) -> Tensor:
    """Return the product of rows [n, 1, inner] and a matrix [inner, outer], with n at most `MAX_ROWS`."""
    out = x.new_empty(*x.shape[:-1], given.matrix.shape[1])
    inner = x.shape[-1]
    _launch(x, None, out, given, triton.cdiv(inner, INNER), min(INNER, _width(inner)))
    return out


def norm_product(norm: Norm, given: Product) -> Tensor:
    """Return y = LayerNorm(x + y + c) and the product of y, next to each other, [n, 1, inner + outer]."""
    inner, outer = given.matrix.shape
    out = norm.x.new_empty(*norm.x.shape[:-1], inner + outer)
    _launch(norm.x, norm, out, given, 1, _width(inner))
    return out


def _launch(x: Tensor, norm: Norm | None, out: Tensor, given: Product, chunks: int, chunk: int) -> None:
    inner, outer = given.matrix.shape
    y, c, gain, bias, epsilon = (norm.y, norm.c, norm.gain, norm.bias, norm.epsilon) if norm else (None,) * 4 + (0.0,)
    y_stride, parts, options = 0 if y is None else y.stride(0), max(1, chunk // PART), early(x)
    _product[(triton.cdiv(outer, OUTER),)](
        x, y, c, gain, bias, given.matrix, given.bias, out, x.stride(0), y_stride, out.stride(0), len(x), inner, outer,
        epsilon, norm is not None, y is not None, c is not None, given.bias is not None, given.relu, bool(options),
        MAX_ROWS, chunks, parts, chunk // parts, OUTER, "ieee" if x.dtype == torch.float32 else "tf32",
        num_warps=parts, **options,
    )  # fmt: skip


def _width(inner: int) -> int:
    return max(16, triton.next_power_of_2(inner))

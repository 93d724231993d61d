"""Matrix products with few rows, for decoder steps with few sentences. A kernel can include the preceding norm.

Such a product takes as long as reading its matrix. Therefore the matrix is divided among many Triton programs, and
each program computes the norm of all rows again. A kernel is launched before the previous kernel has finished. After
each program has read its part of the matrix, it waits for the previous kernel (programmatic dependent launch).
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from compiler.cuda.norms import linear_relu, residual_norm

MAX_ROWS = 4
"""Largest number of rows for which the kernel was measured to be faster than cuBLAS."""
WIDTH = 2048
"""Maximum number of matrix rows that a Triton program reads at a time, and maximum width of a norm."""


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


def step_linear(
    x: Float[Tensor, "rows 1 inner"],
    matrix: Float[Tensor, "inner outer"],
    bias: Float[Tensor, " outer"] | None = None,
    relu: bool = False,
) -> Float[Tensor, "rows 1 outer"]:
    """Return x W, x W + b or max(0, x W + b) in a decoder step. A separate kernel handles inputs with few rows."""
    if _is_narrow(x):
        return _launch(8, x.contiguous(), matrix, bias, relu)
    if relu and bias is not None:
        return linear_relu(x, matrix, bias)
    product = functional.linear(x, matrix.T, bias)
    return functional.relu(product) if relu else product


def norm_linear(
    x: Float[Tensor, "rows 1 inner"],
    y: Float[Tensor, "rows 1 inner"] | None,
    c: Float[Tensor, " inner"] | None,
    gain: Float[Tensor, " inner"],
    norm_bias: Float[Tensor, " inner"],
    epsilon: float,
    matrix: Float[Tensor, "inner outer"],
    bias: Float[Tensor, " outer"] | None = None,
    relu: bool = False,
) -> tuple[Float[Tensor, "rows 1 inner"], Float[Tensor, "rows 1 outer"]]:
    """Return z = LayerNorm(x + y + c), and `step_linear` of z. For a few rows, one kernel computes both."""
    if _is_narrow(x) and x.shape[-1] <= WIDTH:
        x, y = x.contiguous(), None if y is None else y.contiguous()
        normed = torch.empty_like(x)
        return normed, _launch(16, x, matrix, bias, relu, y, c, gain, norm_bias, normed, epsilon)
    z = residual_norm(x, y, c, gain, norm_bias, epsilon)
    return z, step_linear(z, matrix, bias, relu)


def _is_narrow(x: Tensor) -> bool:
    """Return whether to use the kernel for few rows. In float32, return False: cuBLAS is as fast and more accurate."""
    return len(x) <= MAX_ROWS and x.dtype != torch.float32


def _launch(
    block: int, x: Tensor, matrix: Tensor, bias: Tensor | None, relu: bool, y: Tensor | None = None,
    c: Tensor | None = None, gain: Tensor | None = None, norm_bias: Tensor | None = None, normed: Tensor | None = None,
    epsilon: float = 0.0,
) -> Tensor:  # fmt: skip
    """Run the kernel for few rows. It computes `step_linear` or, if `normed` is given, `norm_linear`.

    Each Triton program computes `block` columns of the result.
    """
    (inner, outer), options = matrix.shape, early(x)
    out, width = x.new_empty(*x.shape[:-1], outer), min(WIDTH, triton.next_power_of_2(inner))
    _product[(triton.cdiv(outer, block),)](
        x, y, c, gain, norm_bias, matrix, bias, normed, out, len(x), inner, outer, epsilon, normed is not None,
        y is not None, c is not None, bias is not None, relu, bool(options),
        triton.next_power_of_2(len(x)), triton.cdiv(inner, width), width, block,
        num_warps=max(1, min(8, width // 128)), **options,
    )  # fmt: skip
    return out

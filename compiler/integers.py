"""Products of 8-bit integers, as emitted code calls them."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

MAX_PRODUCTS = (2**31 - 1) // 127**2
"""Of 8-bit integers, whose sum stays within 32 bits whatever they are."""


def quantised_linear(
    x: Float[Tensor, "... inner"],
    matrix: Int[Tensor, "inner outer"],
    scales: Float[Tensor, " outer"],
    bias: Float[Tensor, " outer"] | None = None,
) -> Float[Tensor, "... outer"]:
    """x W + b, each row of x rounded to 8 bits by a scale of its own; the sums are exact, however wide the rows are.

    A row with a number that is infinite or none gives NaN.
    """
    largest = x.abs().amax(-1, keepdim=True)
    rows = (x * (127 / largest)).nan_to_num(0.0, 0.0, 0.0).round().char().flatten(0, -2)
    sums = _exact_products(rows, matrix).view(*x.shape[:-1], -1)
    y = sums * (largest / 127) * scales
    return y if bias is None else y + bias


def _exact_products(rows: Int[Tensor, "rows inner"], matrix: Int[Tensor, "inner outer"]) -> Int[Tensor, "rows outer"]:
    """In 32 bits, or in 64 where they might not hold the sums."""
    if rows.shape[1] <= MAX_PRODUCTS:
        return torch._int_mm(rows, matrix)
    sums = torch.zeros(rows.shape[0], matrix.shape[1], dtype=torch.long, device=rows.device)
    for start in range(0, rows.shape[1], MAX_PRODUCTS):
        part = slice(start, start + MAX_PRODUCTS)
        sums += torch._int_mm(rows[:, part].contiguous(), matrix[part])
    return sums

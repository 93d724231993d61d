"""Simpler simple recurrent unit (SSRU; Kim et al. 2019) on packed rows, with state 0 at the start of each sentence."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK, WARPS = 128, 2
"""Number of features that a program computes for a whole sentence, and number of warps per program."""


@triton.jit
def _sentence(spans, count, first):
    """Return the index after the last token of the sentence that begins at `first`.

    If no sentence begins there, return `first`. Each padding token counts as a sentence, so that results are finite.
    """
    start, end = tl.load(spans + first), tl.load(spans + count + first)
    return tl.where(end == 0, first + 1, tl.where(start == first, end, first))


@triton.jit
def _forward(gate, z, spans, out, count, width, block: tl.constexpr):
    first, columns = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    c = tl.zeros((block,), tl.float32)
    for t in range(first, _sentence(spans, count, first)):
        index = t * width + columns
        forget = tl.sigmoid(tl.load(gate + index, inside, other=0.0).to(tl.float32))
        x = tl.load(z + index, inside, other=0.0).to(tl.float32)
        c = x + forget * (c - x)
        tl.store(out + index, c, inside)


# The gradient runs from the last token to the first. `total` is the gradient with respect to c_t, directly and through
# later tokens. The states are read in the type of the result.
@triton.jit
def _backward(gate, z, spans, out, gradient, gate_gradient, z_gradient, count, width, block: tl.constexpr):
    first, columns = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    inside = columns < width
    end = _sentence(spans, count, first)
    carried = tl.zeros((block,), tl.float32)
    for passed in range(end - first):
        t = end - 1 - passed
        index = t * width + columns
        forget = tl.sigmoid(tl.load(gate + index, inside, other=0.0).to(tl.float32))
        x = tl.load(z + index, inside, other=0.0).to(tl.float32)
        before = tl.load(out + index - width, inside & (t > first), other=0.0).to(tl.float32)
        total = carried + tl.load(gradient + index, inside, other=0.0).to(tl.float32)
        tl.store(z_gradient + index, total * (1 - forget), inside)
        tl.store(gate_gradient + index, total * (before - x) * forget * (1 - forget), inside)
        carried = forget * total


def ssru(gate: Tensor, value: Tensor, spans: Tensor) -> Tensor:
    """Return the states of an SSRU on packed rows [n, d], given gates and values [n, d] and sentence spans [2, n]."""
    (count, width), out = value.shape, torch.empty_like(value)
    _forward[(count, triton.cdiv(width, BLOCK))](gate, value, spans, out, count, width, BLOCK, num_warps=WARPS)
    return out


def ssru_backward(gradient: Tensor, gate: Tensor, value: Tensor, spans: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of gate and value, given the result `out` and its gradient, all [n, d]."""
    (count, width), gradients = value.shape, (torch.empty_like(gate), torch.empty_like(value))
    _backward[(count, triton.cdiv(width, BLOCK))](
        gate, value, spans, out, gradient, *gradients, count, width, BLOCK, num_warps=WARPS
    )
    return gradients

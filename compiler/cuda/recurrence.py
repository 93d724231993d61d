"""Simpler simple recurrent unit (SSRU; Kim et al. 2019) on packed rows, with state 0 at the start of each sentence."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

BLOCK, WARPS = 128, 2
"""Number of features that a Triton program computes for a whole sentence, and number of warps per Triton program."""


@triton.jit
def _sentence(spans, count, first):
    """Return the index after the last token of the sentence that begins at `first`.

    If no sentence begins at `first`, return `first`. Each padding token counts as a sentence, so its result is finite.
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


def packed_ssru(
    gate: Float[Tensor, "1 n d"], value: Float[Tensor, "1 n d"], spans: Int[Tensor, "2 n"]
) -> Float[Tensor, "1 n d"]:
    """Return the states of an SSRU (see `compiler.runtime.layers.ssru`). Each packed sentence starts with a state of 0.

    Args:
        gate: The forget gate before the sigmoid.
        value: The inputs, of which each state is a weighted average.
        spans: For each token, the index of the first token in its sentence, and the index after the last token.
    """
    return _PackedSsru.apply(gate, value, spans)


class _PackedSsru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate: Tensor, value: Tensor, spans: Tensor) -> Tensor:
        gate, value = gate[0].contiguous(), value[0].contiguous()
        (count, width), out = value.shape, torch.empty_like(value)
        _forward[(count, triton.cdiv(width, BLOCK))](gate, value, spans, out, count, width, BLOCK, num_warps=WARPS)
        ctx.save_for_backward(gate, value, spans, out)
        return out.unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gate, value, spans, out = ctx.saved_tensors
        (count, width), gradients = value.shape, (torch.empty_like(gate), torch.empty_like(value))
        _backward[(count, triton.cdiv(width, BLOCK))](
            gate, value, spans, out, gradient[0].contiguous(), *gradients, count, width, BLOCK, num_warps=WARPS
        )
        return *(each.unsqueeze(0) for each in gradients), None

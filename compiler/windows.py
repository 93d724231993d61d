"""What emitted code calls where a position reads those near it: restricted attention, convolutions."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from compiler.operations.attention import MIN_BLOCK_LENGTH
from compiler.runtime import additive_scores, dropout
from specs import PAD


def restricted_attention(
    query: Float[Tensor, "batch h n d_k"],
    key: Float[Tensor, "batch h n d_k"],
    value: Float[Tensor, "batch h n d_v"],
    reach: tuple[int, int],
    block: int,
    scale: float,
    *,
    hidden: Bool[Tensor, "batch 1 1 n"] | None = None,
    vector: Float[Tensor, "h d_k"] | None = None,
    dropped: float = 0.0,
) -> Float[Tensor, "batch h n d_v"]:
    """Attention to so many positions before each and after it, in time and room that grow as they do, times n.

    Each block of queries meets one window of keys: its own positions and those within reach.
    """
    length = query.shape[2]
    before, after = (min(each, length - 1) for each in reach)  # nothing is further away
    block = min(block, max(length, MIN_BLOCK_LENGTH))
    window = before + block + after
    blocks = -(-length // block)
    more = blocks * block - length
    keys, values = (
        functional.pad(each, (0, 0, before, more + after)).unfold(2, window, block) for each in (key, value)
    )
    scaled = query if scale == 1.0 else query * scale
    queries = functional.pad(scaled, (0, 0, 0, more)).reshape(*query.shape[:2], blocks, block, -1)
    weights = queries @ keys if vector is None else additive_scores(queries, keys.mT, vector)
    # Of a query at i in its block, the key at j in the window is j - before - i positions away.
    away = torch.arange(window, device=query.device) - before - torch.arange(block, device=query.device)[:, None]
    unreal = query.new_zeros(1, length, dtype=torch.bool) if hidden is None else hidden[:, 0, 0]
    unreal = functional.pad(unreal, (before, more + after), value=True).unfold(1, window, block)[:, None, :, None]
    hidden = (away < -before) | (away > after) | (unreal & (away != 0))
    weights = dropout(weights.masked_fill(hidden, -math.inf).softmax(-1), dropped, training=True)
    return (weights @ values.mT).flatten(2, 3)[:, :, :length]


def distance_mask(tokens: Int[Tensor, "batch n"], before: int, after: int) -> Bool[Tensor, "batch 1 n n"]:
    """True at keys that are not within reach of a query and, if later ones are, at padding, but for itself."""
    places = torch.arange(tokens.shape[1], device=tokens.device)
    away = places - places[:, None]
    far = ((away < -before) | (away > after)).expand(len(tokens), -1, -1)
    return (far | ((tokens == PAD)[:, None] & (away != 0)) if after else far)[:, None]


def window_mask(position: Int[Tensor, "rows new"], radius: int) -> Bool[Tensor, "rows 1 new keys"]:
    """True at keys that are not among the `radius` before a query, or itself: of a window and the new ones after it."""
    new = position.shape[1]
    back = (
        radius + torch.arange(new, device=position.device)[:, None] - torch.arange(radius + new, device=position.device)
    )
    return (back < 0) | (back > radius) | (back > position[:, None, :, None])


def convolved(
    x: Float[Tensor, "batch n inner"],
    kernel: Float[Tensor, "k inner outer"],
    bias: Float[Tensor, " outer"],
    reach: tuple[int, int],
    dilation: int,
) -> Float[Tensor, "batch more outer"]:
    """Each position's sum over k positions, `dilation` apart, of which zeros stand for those beyond the ends.

    `reach` says how many of the k lie before it and how many after; without any, those of x are all there are.
    """
    return _convolved(x, kernel.permute(2, 1, 0), bias, reach, dilation, 1)


def convolved_apart(
    x: Float[Tensor, "batch n d"],
    kernel: Float[Tensor, "k d"],
    bias: Float[Tensor, " d"],
    reach: tuple[int, int],
    dilation: int,
) -> Float[Tensor, "batch more d"]:
    """As `convolved`, each feature by itself."""
    return _convolved(x, kernel.T[:, None], bias, reach, dilation, x.shape[2])


def _convolved(x: Tensor, weight: Tensor, bias: Tensor, reach: tuple[int, int], dilation: int, groups: int) -> Tensor:
    before, after = reach
    # Positions that are further apart than there are any read zeros alone. What is exported knows no number of them.
    if dilation > 1 and before + after and not torch.compiler.is_exporting():
        dilation = min(dilation, x.shape[1])
    x = functional.pad(x, (0, 0, before * dilation, after * dilation))
    return functional.conv1d(x.mT, weight, bias, dilation=dilation, groups=groups).mT

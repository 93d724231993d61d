"""Functions that emitted code calls for relative positions: rotations of queries and keys, and biases of scores."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from compiler.lowering.positions import ROUNDING


def distances(stream: Shaped[Tensor, "batch length ..."]) -> Int[Tensor, "1 1 length length"]:
    """Return the position of each key minus the position of each query. Only the shape of `stream` is used."""
    position = torch.arange(stream.shape[1], device=stream.device)
    return (position - position[:, None])[None, None]


def cache_distances(
    position: Int[Tensor, "rows new"], cache: Float[Tensor, "rows h length d"], *, planned: bool
) -> Int[Tensor, "rows 1 new keys"]:
    """Return the position of the key in each slot of a cache, minus the position of each query.

    Args:
        position: The positions of the queries.
        cache: The cache of keys.
        planned: Whether the cache is preallocated, so that slot i has position i. Otherwise the new keys will be
            appended to the cache, so that the last slot has the position of the last query.
    """
    length, new = cache.shape[2], position.shape[1]
    key = torch.arange(length if planned else length + new, device=position.device)[None]
    if not planned:
        key = key - (length + new - 1) + position[:, -1:]
    return (key[:, None, :] - position[:, :, None])[:, None]


def relative_bias(
    distance: Int[Tensor, "batch 1 n m"], table: Float[Tensor, "buckets h"], *, max_distance: int, causal: bool
) -> Float[Tensor, "batch h n m"]:
    """Return the learned bias of each head for each distance between key and query (Raffel et al. 2020, section 2.1).

    All distances in a range have the same bias. Half of the ranges contain one distance each. The others grow
    exponentially up to `max_distance`. Unless `causal`, one half of all ranges is for keys after the query.

    Args:
        distance: Position of the key minus position of the query.
        table: The bias of each range and head.
        max_distance: This distance and all larger distances are in the last range.
        causal: Whether keys after the query are hidden.
    """
    distance = distance[:, 0]
    buckets = table.shape[0] if causal else table.shape[0] // 2
    size, exact = (-distance).clamp(min=0) if causal else distance.abs(), buckets // 2
    ratio = (size.clamp(min=exact).double() / exact).log() / math.log(max_distance / exact)
    far = exact + (ratio * (buckets - exact) + ROUNDING).long()
    bucket = torch.where(size < exact, size, far.clamp(max=buckets - 1))
    if not causal:
        bucket = bucket + buckets * (distance > 0)
    return table[bucket].permute(0, 3, 1, 2).contiguous()


def alibi_bias(distance: Int[Tensor, "batch 1 n m"], heads: int) -> Float[Tensor, "batch h n m"]:
    """Return minus the absolute distance times the slope of each head (Press et al. 2022, section 3)."""
    # Computed on the device, because a CUDA graph cannot contain a copy of `alibi_slope(head, heads)` from the CPU.
    head, power = torch.arange(heads, dtype=torch.float64, device=distance.device), 1 << (heads.bit_length() - 1)
    exponent = torch.where(head < power, -8 * (head + 1), -4 * (2 * (head - power) + 1)) / power
    return -distance.abs() * (2**exponent).float()[:, None, None]


def rotate(
    x: Float[Tensor, "batch h n d"], position: Int[Tensor, "batch n"] | None = None, *, theta: float = 10_000.0
) -> Float[Tensor, "batch h n d"]:
    """Rotate the features i and i + d/2 of each head by the angle position · theta^(-2i/d) (Su et al. 2021).

    Args:
        x: Queries or keys.
        position: The positions of x; None: 0, 1, ...
        theta: Base of the angles.
    """
    if position is None:
        position = torch.arange(x.shape[2], device=x.device)[None]
    # In float64: at position 1000, a float32 angle is already wrong in the fifth digit.
    exponent = torch.arange(0, x.shape[3], 2, dtype=torch.float64, device=x.device) / x.shape[3]
    angles = position[:, None, :, None] * theta**-exponent
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)

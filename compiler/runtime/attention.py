"""Attention, and the masks, score biases, rotations and caches that it uses."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from compiler.lowering.positions import ROUNDING
from compiler.operations.attention import MIN_BLOCK_LENGTH
from compiler.runtime.layers import dropout


def padding_mask(length: Int[Tensor, " batch"], stream: Shaped[Tensor, "batch keys ..."]) -> Bool[Tensor, "b 1 1 keys"]:
    """Return a mask that is True at padding: the positions after the end of each sequence.

    Args:
        length: The number of positions in each sequence, without padding.
        stream: The padded sequences, of which only the shape is used.
    """
    return (torch.arange(stream.shape[1], device=length.device) >= length[:, None])[:, None, None, :]


def causal_mask(stream: Shaped[Tensor, "batch length ..."]) -> Bool[Tensor, "1 1 length length"]:
    """Return a mask that is True at keys after the query (section 3.2.3). Only the shape of `stream` is used."""
    length = stream.shape[1]
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=stream.device).triu(1)


def distance_mask(
    stream: Shaped[Tensor, "batch n ..."], hidden: Bool[Tensor, "batch 1 1 n"] | None = None, *, before: int, after: int
) -> Bool[Tensor, "batch 1 n n"]:
    """Return a mask that is True at keys that are too far from the query, and at padding.

    A query always sees its own position, even if this position is padding.

    Args:
        stream: The padded sequences, of which only the shape is used.
        hidden: True at padding.
        before: How many positions before itself a query sees.
        after: How many positions after itself a query sees.
    """
    distance = distances(stream)
    is_far = ((distance < -before) | (distance > after)).expand(len(stream), 1, -1, -1)
    return is_far if hidden is None else is_far | (hidden & (distance != 0))


def unwritten_mask(
    position: Int[Tensor, "rows new"], cache: Float[Tensor, "rows h length d"], *, planned: bool
) -> Bool[Tensor, "rows 1 new keys"]:
    """Return a mask that is True at the cached keys that a query must not see.

    A query sees the keys at its own position and at earlier positions. See `cache_distances` for the arguments.
    """
    distance = cache_distances(position, cache, planned=planned)
    is_later = distance > 0
    return is_later if planned else is_later | (distance < -position[:, None, :, None])  # or before position 0


def window_mask(
    position: Int[Tensor, "rows new"], window: Float[Tensor, "rows h radius d"]
) -> Bool[Tensor, "rows 1 new keys"]:
    """Return the mask for a decoder step. It is True at the keys that a query must not see.

    A query sees the key at its own position and the `radius` keys before it. `window` contains the keys at the last
    `radius` positions before the step. Keys before the first position are masked.
    """
    is_far = cache_distances(position, window, planned=False) < -window.shape[2]
    return is_far | unwritten_mask(position, window, planned=False)


def distances(stream: Shaped[Tensor, "batch length ..."]) -> Int[Tensor, "1 1 length length"]:
    """Return the position of each key minus the position of each query. Only the shape of `stream` is used."""
    position = torch.arange(stream.shape[1], device=stream.device)
    return (position - position[:, None])[None, None]


def cache_distances(
    position: Int[Tensor, "rows new"], cache: Float[Tensor, "rows h length d"], *, planned: bool
) -> Int[Tensor, "rows 1 new keys"]:
    """Return the position of each cached key minus the position of each query.

    Args:
        position: The positions of the queries.
        cache: The cache of keys.
        planned: Whether the cache is preallocated. Key i then has position i. Otherwise, the new keys will be
            appended to the cache, so the last key has the position of the last query.
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

    Distances are divided into buckets. All distances in a bucket have the same bias. Half of the buckets contain one
    distance each. The other buckets cover exponentially larger ranges, up to `max_distance`. If `causal` is False, half
    of all buckets are for keys after the query.

    Args:
        distance: Position of the key minus position of the query.
        table: The bias of each bucket and head.
        max_distance: This distance and all larger distances are in the last bucket.
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
    """Return ALiBi biases: minus the absolute distance times the slope of each head (Press et al. 2022, section 3)."""
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
        position: The positions of x. If None, they are 0, 1, 2, and so on.
        theta: Base of the angles.
    """
    if position is None:
        position = torch.arange(x.shape[2], device=x.device)[None]
    # Use float64, because at position 1000, a float32 angle is already wrong in the fifth digit.
    exponent = torch.arange(0, x.shape[3], 2, dtype=torch.float64, device=x.device) / x.shape[3]
    angles = position[:, None, :, None] * theta**-exponent
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


def write_cache(
    cache: Float[Tensor, "rows h capacity d"], new: Float[Tensor, "rows h new d"], position: Int[Tensor, "rows new"]
) -> Float[Tensor, "rows h capacity d"]:
    """Write each row's new keys or values at their positions, and return the cache.

    The cache is changed in place, except while `torch.export` traces the function.
    """
    index = position[:, None, :, None].expand_as(new)
    return cache.scatter(2, index, new) if torch.compiler.is_exporting() else cache.scatter_(2, index, new)


def additive_scores(
    query: Float[Tensor, "batch h *n d_k"], key: Float[Tensor, "batch h *m d_k"], vector: Float[Tensor, "h d_k"]
) -> Float[Tensor, "batch h *n m"]:
    """Return v · tanh(query + key) for each pair of query and key (Bahdanau et al. 2015). Each head has a vector v."""
    inner = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
    column = vector.view(vector.shape[0], *[1] * (inner.ndim - 4), vector.shape[1], 1)
    return (inner @ column).squeeze(-1)


def grouped_product(
    x: Float[Tensor, "batch h n inner"], shared: Float[Tensor, "batch groups inner outer"]
) -> Float[Tensor, "batch h n outer"]:
    """Multiply consecutive heads of x by the matrix that their group shares, without copying the matrix.

    Grouped-query attention uses this function for Q Kᵀ and for the weighted sums of V.
    """
    batch, heads, length, width = x.shape
    if torch.compiler.is_exporting():  # the other branch would fix the number of positions
        return x @ shared.repeat_interleave(heads // shared.shape[1], dim=1)
    together = x.reshape(batch, shared.shape[1], -1, width)
    return (together @ shared).reshape(batch, heads, length, -1)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    hidden: Tensor | None,
    scale: float,
    *,
    bias: Tensor | None = None,
    grouped: bool = False,
) -> Tensor:
    """Return softmax(scale · Q Kᵀ + bias) V, computed by torch's fused kernel.

    Args:
        query: Queries [batch, h, n, d_k].
        key: Keys [batch, h, m, d_k], or with fewer heads if `grouped`.
        value: Values [batch, h, m, d_v], or with fewer heads if `grouped`.
        hidden: True at keys that a query must not see. If None, a query sees all keys.
        scale: Factor by which Q Kᵀ is multiplied.
        bias: A bias that is added to the scores.
        grouped: Whether several query heads share one key-value head.
    """
    mask = None if hidden is None else ~hidden
    if bias is not None:
        mask = bias.to(query.dtype) if hidden is None else bias.masked_fill(hidden, -math.inf).to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)


def restricted_attention(
    query: Float[Tensor, "batch h n d_k"],
    key: Float[Tensor, "batch groups n d_k"],
    value: Float[Tensor, "batch groups n d_v"],
    reach: tuple[int, int],
    block: int,
    scale: float,
    *,
    hidden: Bool[Tensor, "batch 1 1 n"] | None = None,
    vector: Float[Tensor, "h d_k"] | None = None,
    dropped: float = 0.0,
) -> Float[Tensor, "batch h n d_v"]:
    """Compute attention in which each query attends only to nearby keys (section 4 of the paper).

    Time and memory are proportional to n times the reach. The queries are split into blocks. Each block reads one
    window of keys: the positions in the block, and all positions within their reach. Dot-product attention without
    dropout is computed by torch's fused kernel, which stores no scores.

    Args:
        query: The queries.
        key: The keys, at the same positions. Each key head is shared by h / groups consecutive query heads.
        value: The values of the keys.
        reach: How many positions before and after itself a query attends to.
        block: The number of queries in a block.
        scale: Factor by which the scores of dot-product attention are multiplied.
        hidden: True at padding.
        vector: The vectors of additive attention, one per head. If None, use dot-product attention.
        dropped: The probability that an attention weight is dropped.
    """
    length = query.shape[2]
    before, after = (min(positions, length - 1) for positions in reach)
    block = min(block, max(length, MIN_BLOCK_LENGTH))
    window = before + block + after
    blocks = -(-length // block)
    padding = blocks * block - length
    if key.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // key.shape[1], dim=1) for x in (key, value))
    keys, values = (functional.pad(x, (0, 0, before, padding + after)).unfold(2, window, block) for x in (key, value))
    queries = functional.pad(query, (0, 0, 0, padding)).reshape(*query.shape[:2], blocks, block, -1)
    # The key at index j of a window is j - before - i positions away from the query at index i of the block.
    distance = torch.arange(window, device=query.device) - before - torch.arange(block, device=query.device)[:, None]
    is_padding = query.new_zeros(1, length, dtype=torch.bool) if hidden is None else hidden[:, 0, 0]
    is_padding = functional.pad(is_padding, (before, padding + after), value=True)
    is_padding = is_padding.unfold(1, window, block)[:, None, :, None]
    masked = (distance < -before) | (distance > after) | (is_padding & (distance != 0))
    if vector is None and not dropped:
        masked = masked.expand(len(query), 1, -1, -1, -1)
        # [batch·blocks, h, ...]
        rows, columns, summed, masked = (x.transpose(1, 2).flatten(0, 1) for x in (queries, keys.mT, values.mT, masked))
        found = fused_attention(rows, columns, summed, masked, scale)
        result = found.reshape(len(query), blocks, *found.shape[1:]).transpose(1, 2)
    else:
        scores = queries * scale @ keys if vector is None else additive_scores(queries, keys.mT, vector)
        weights = dropout(scores.masked_fill(masked, -math.inf).softmax(-1), dropped, training=True)
        result = weights @ values.mT
    return result.flatten(2, 3)[:, :, :length]

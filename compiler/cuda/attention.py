"""Attention over packed rows: all sentences of a batch are concatenated in one row of constant length.

Each query sees a span of consecutive keys: the keys of its sentence. Each key is seen by a span of queries. A Triton
program computes the attention of a block of consecutive queries, which may belong to several sentences. It reads only
the keys from the first to the last that these queries see. The grid depends only on the length of the row, as a CUDA
graph requires. The backward pass needs no atomic additions, so its sums are deterministic.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int
from torch import Tensor

from compiler.operations.attention import HeadColumns

FORWARD, QUERIES, KEYS = {"block": 64, "num_stages": 2}, {"block": 64, "num_stages": 1}, {"block": 32, "num_stages": 2}
"""Block sizes and pipeline stages of the three kernels, tuned on an H100 for d_k = 64 and sentences of 27 tokens."""


@triton.jit
def _rows(x, stride, offsets, inside, columns, width, column):
    """Load features [rows, width] of one head, starting at the column `column`."""
    valid = inside[:, None] & (columns < width)[None, :]
    return tl.load(x + offsets[:, None].to(tl.int64) * stride + column + columns[None, :], valid, other=0.0)


@triton.jit
def _store_rows(x, stride, offsets, inside, columns, width, column, values):
    """Write the features of one head, `values` [rows, width], to `x`, starting at the column `column`."""
    valid = inside[:, None] & (columns < width)[None, :]
    tl.store(x + offsets[:, None].to(tl.int64) * stride + column + columns[None, :], values, valid)


@triton.jit
def _spans(spans, length, offsets, causal: tl.constexpr):
    """Return the span of keys that each query sees: the index of the first key, and the index after the last key."""
    low = tl.load(spans + offsets, offsets < length, other=0)
    high = tl.load(spans + length + offsets, offsets < length, other=0)
    if causal:
        high = tl.minimum(high, offsets + 1)
    return low, high


@triton.jit
def _union(low, high):
    """Return the smallest span that contains all non-empty spans. If all spans are empty, return 0 and 0."""
    end = tl.max(tl.where(high > low, high, 0), 0)
    return tl.min(tl.where(high > low, low, end), 0), end


@triton.jit
def _forward(
    q, kv, out, logs, spans, queries, q_stride, kv_stride, out_stride, q_column, k_column, v_column, d_k, d_v, scale,
    causal: tl.constexpr, precision: tl.constexpr, block: tl.constexpr, k_block: tl.constexpr, v_block: tl.constexpr,
    group: tl.constexpr,
):  # fmt: skip
    head, offsets = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    inside, k_columns, v_columns = offsets < queries, tl.arange(0, k_block), tl.arange(0, v_block)
    low, high = _spans(spans, queries, offsets, causal)
    start, end = _union(low, high)
    query = _rows(q, q_stride, offsets, inside, k_columns, d_k, q_column + head * d_k)
    highest = tl.full((block,), float("-inf"), tl.float32)
    sums, result = tl.zeros((block,), tl.float32), tl.zeros((block, v_block), tl.float32)
    for first in range(start, end, block):
        keys = first + tl.arange(0, block)
        key = _rows(kv, kv_stride, keys, keys < end, k_columns, d_k, k_column + head // group * d_k)
        scores = tl.dot(query, tl.trans(key), input_precision=precision) * scale
        scores = tl.where((keys[None, :] >= low[:, None]) & (keys[None, :] < high[:, None]), scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        shift = tl.where(higher > float("-inf"), higher, 0.0)
        weights = tl.exp(scores - shift[:, None])
        factor = tl.exp(highest - shift)
        value = _rows(kv, kv_stride, keys, keys < end, v_columns, d_v, v_column + head // group * d_v)
        result = result * factor[:, None] + tl.dot(weights.to(value.dtype), value, input_precision=precision)
        sums, highest = sums * factor + tl.sum(weights, 1), higher
    sees = sums > 0
    result = tl.where(sees[:, None], result / tl.where(sees, sums, 1.0)[:, None], 0.0)
    _store_rows(out, out_stride, offsets, inside, v_columns, d_v, head * d_v, result)
    tl.store(logs + head * queries + offsets, tl.where(sees, highest + tl.log(tl.where(sees, sums, 1.0)), 0.0), inside)


@triton.jit
def _query_gradients(
    q, kv, out, gradient, logs, deltas, spans, q_gradient, queries, q_stride, kv_stride, out_stride, g_stride,
    q_column, k_column, v_column, d_k, d_v, scale,
    causal: tl.constexpr, precision: tl.constexpr, block: tl.constexpr, k_block: tl.constexpr, v_block: tl.constexpr,
    group: tl.constexpr,
):  # fmt: skip
    head, offsets = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    inside, k_columns, v_columns = offsets < queries, tl.arange(0, k_block), tl.arange(0, v_block)
    low, high = _spans(spans, queries, offsets, causal)
    start, end = _union(low, high)
    query = _rows(q, q_stride, offsets, inside, k_columns, d_k, q_column + head * d_k)
    d_out = _rows(gradient, out_stride, offsets, inside, v_columns, d_v, head * d_v)
    result = _rows(out, out_stride, offsets, inside, v_columns, d_v, head * d_v)
    delta = tl.sum(d_out.to(tl.float32) * result.to(tl.float32), 1)
    tl.store(deltas + head * queries + offsets, delta, inside)
    log = tl.load(logs + head * queries + offsets, inside, other=0.0)
    sums = tl.zeros((block, k_block), tl.float32)
    for first in range(start, end, block):
        keys = first + tl.arange(0, block)
        key = _rows(kv, kv_stride, keys, keys < end, k_columns, d_k, k_column + head // group * d_k)
        value = _rows(kv, kv_stride, keys, keys < end, v_columns, d_v, v_column + head // group * d_v)
        scores = tl.dot(query, tl.trans(key), input_precision=precision) * scale
        sees = (keys[None, :] >= low[:, None]) & (keys[None, :] < high[:, None])
        weights = tl.where(sees, tl.exp(scores - log[:, None]), 0.0)
        d_weights = tl.dot(d_out, tl.trans(value), input_precision=precision)
        d_scores = weights * (d_weights - delta[:, None]) * scale
        sums += tl.dot(d_scores.to(key.dtype), key, input_precision=precision)
    _store_rows(q_gradient, g_stride, offsets, inside, k_columns, d_k, q_column + head * d_k, sums)


@triton.jit
def _key_gradients(
    q, kv, gradient, logs, deltas, readers, kv_gradient, queries, keys, q_stride, kv_stride, out_stride, g_stride,
    q_column, k_column, v_column, d_k, d_v, scale,
    causal: tl.constexpr, precision: tl.constexpr, block: tl.constexpr, k_block: tl.constexpr, v_block: tl.constexpr,
    group: tl.constexpr,
):  # fmt: skip
    shared, offsets = tl.program_id(1), tl.program_id(0) * block + tl.arange(0, block)
    inside, k_columns, v_columns = offsets < keys, tl.arange(0, k_block), tl.arange(0, v_block)
    low = tl.load(readers + offsets, inside, other=0)
    high = tl.load(readers + keys + offsets, inside, other=0)
    if causal:
        low = tl.maximum(low, offsets)
    start, end = _union(low, high)
    key = _rows(kv, kv_stride, offsets, inside, k_columns, d_k, k_column + shared * d_k)
    value = _rows(kv, kv_stride, offsets, inside, v_columns, d_v, v_column + shared * d_v)
    k_sums, v_sums = tl.zeros((block, k_block), tl.float32), tl.zeros((block, v_block), tl.float32)
    for head in range(shared * group, (shared + 1) * group):
        for first in range(start, end, block):
            rows = first + tl.arange(0, block)
            within = rows < end
            query = _rows(q, q_stride, rows, within, k_columns, d_k, q_column + head * d_k)
            d_out = _rows(gradient, out_stride, rows, within, v_columns, d_v, head * d_v)
            log = tl.load(logs + head * queries + rows, within, other=0.0)
            delta = tl.load(deltas + head * queries + rows, within, other=0.0)
            scores = tl.dot(key, tl.trans(query), input_precision=precision) * scale
            sees = (rows[None, :] >= low[:, None]) & (rows[None, :] < high[:, None])
            weights = tl.where(sees, tl.exp(scores - log[None, :]), 0.0)
            v_sums += tl.dot(weights.to(d_out.dtype), d_out, input_precision=precision)
            d_weights = tl.dot(value, tl.trans(d_out), input_precision=precision)
            d_scores = weights * (d_weights - delta[None, :]) * scale
            k_sums += tl.dot(d_scores.to(query.dtype), query, input_precision=precision)
    _store_rows(kv_gradient, g_stride, offsets, inside, k_columns, d_k, k_column + shared * d_k, k_sums)
    _store_rows(kv_gradient, g_stride, offsets, inside, v_columns, d_v, v_column + shared * d_v, v_sums)


def packed_attention(
    q: Float[Tensor, "1 n _"],
    kv: Float[Tensor, "1 m _"],
    spans: Int[Tensor, "2 n"],
    readers: Int[Tensor, "2 m"],
    heads: HeadColumns,
    scale: float,
    causal: bool,
) -> Float[Tensor, "1 n h·d_v"]:
    """Return softmax(scale · Q Kᵀ) V of all heads (section 3.2.2). Each query sees the keys of its own sentence.

    Args:
        q: Features that contain the queries.
        kv: Features that contain keys and values. May be the same tensor as `q`.
        spans: For each query, the index of its first key, and the index after its last key. A query at padding has no
            keys.
        readers: For each key, the index of the first query that sees it, and the index after the last such query.
        heads: The columns of queries, keys and values.
        scale: Factor by which Q Kᵀ is multiplied.
        causal: Whether a query sees only keys up to its own index.
    """
    return _PackedAttention.apply(q, None if kv is q else kv, spans, readers, heads, scale, causal)


class _PackedAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, kv: Tensor | None, spans: Tensor, readers: Tensor, heads: HeadColumns, scale: float,
        causal: bool,
    ) -> Tensor:  # fmt: skip
        queries, count = q[0], q.shape[1]
        both = queries if kv is None else kv[0]
        out = q.new_empty(count, heads.count * heads.d_v)
        logs = torch.empty((heads.count, count), dtype=torch.float32, device=q.device)  # log-sum-exp of each softmax
        sizes = heads.query, heads.key, heads.value, heads.d_k, heads.d_v, scale
        options = {
            "causal": causal,
            "precision": "ieee" if q.dtype == torch.float32 else "tf32",
            "k_block": max(16, triton.next_power_of_2(heads.d_k)),
            "v_block": max(16, triton.next_power_of_2(heads.d_v)),
            "group": heads.count // heads.kv_count,
        }
        _forward[(triton.cdiv(count, FORWARD["block"]), heads.count)](
            queries, both, out, logs, spans, count, queries.stride(0), both.stride(0), out.stride(0), *sizes, **options,
            **FORWARD,
        )  # fmt: skip
        ctx.save_for_backward(queries, None if kv is None else both, spans, readers, out, logs)
        ctx.heads, ctx.sizes, ctx.options = heads, sizes, options
        return out.unsqueeze(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, kv, spans, readers, out, logs = ctx.saved_tensors
        both, gradient, deltas = q if kv is None else kv, gradient[0].contiguous(), torch.empty_like(logs)
        q_gradient = torch.empty_like(q, memory_format=torch.contiguous_format)
        kv_gradient = q_gradient if kv is None else torch.empty_like(kv, memory_format=torch.contiguous_format)
        strides = q.stride(0), both.stride(0), out.stride(0)
        _query_gradients[(triton.cdiv(len(q), QUERIES["block"]), ctx.heads.count)](
            q, both, out, gradient, logs, deltas, spans, q_gradient, len(q), *strides, q_gradient.stride(0),
            *ctx.sizes, **ctx.options, **QUERIES,
        )  # fmt: skip
        _key_gradients[(triton.cdiv(len(both), KEYS["block"]), ctx.heads.kv_count)](
            q, both, gradient, logs, deltas, readers, kv_gradient, len(q), len(both), *strides, kv_gradient.stride(0),
            *ctx.sizes, **ctx.options, **KEYS,
        )  # fmt: skip
        return q_gradient.unsqueeze(0), None if kv is None else kv_gradient.unsqueeze(0), None, None, None, None, None

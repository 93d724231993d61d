"""The functions of `compiler.cuda` in plain PyTorch, which tests compare with the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional

from compiler import cuda
from compiler.operations.attention import HeadColumns
from compiler.runtime import layers, losses
from compiler.slots import Field, Slots
from tests.compiler.beam_in_slots import select

_MASK = 0xFFFFFFFF


@contextmanager
def kernels_in_pytorch() -> Iterator[None]:
    """Let the functions of this module replace those of `compiler.cuda`."""
    modules = {
        "norms": (seeded_dropout, residual_norm, linear_relu),
        "attention": (packed_attention,),
        "recurrence": (packed_ssru,),
        "losses": (whole_loss,),
        "products": (step_linear, norm_linear),
        "search": (embed, attend_cache, attend_memory, select),
    }
    replaced = {name: SimpleNamespace(**{f.__name__: f for f in found}) for name, found in modules.items()}
    with mock.patch.dict(vars(cuda), replaced):
        yield


def keep_mask(seed: Tensor, key: int, shape: torch.Size, probability: float) -> Tensor:
    """Return a mask that is True at the elements that dropout keeps. `compiler.cuda.norms` describes the hash function.

    Args:
        seed: The seed of the step, a 64-bit integer.
        key: Number of the dropout layer.
        shape: Shape of the mask.
        probability: Probability of dropout.
    """
    index, first = torch.arange(shape.numel(), device=seed.device), _mixed((seed & _MASK) + key)
    second = _mixed(((seed >> 32) & _MASK) ^ first)
    return (_mixed(_mixed(index + first) ^ second) >= round(probability * 2**32)).view(shape)


def _mixed(h: Tensor) -> Tensor:
    """Apply the finaliser of MurmurHash3 to 32-bit numbers in a tensor of 64-bit integers."""
    h = h & _MASK
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    return h ^ (h >> 16)


def seeded_dropout(x: Tensor, probability: float, seed: Tensor, key: int, training: bool) -> Tensor:
    if not training:
        return x
    return x * (keep_mask(seed, key, x.shape, probability) / (1 - probability)).to(x.dtype)


def residual_norm(
    x: Tensor, y: Tensor | None, c: Tensor | None, gain: Tensor, bias: Tensor, epsilon: float,
    probability: float = 0.0, seed: Tensor | None = None, key: int = 0, training: bool = False,
) -> Tensor:  # fmt: skip
    total = x.float()
    if y is not None:
        added = y.float() if c is None else y.float() + c.float()
        if seed is not None and probability and training:
            added = added * (keep_mask(seed, key, y.shape, probability) / (1 - probability))
        total = total + added
    return functional.layer_norm(total, x.shape[-1:], gain.float(), bias.float(), epsilon).to(x.dtype)


def linear_relu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    return functional.relu(functional.linear(x, matrix.T, bias))


def step_linear(x: Tensor, matrix: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    product = functional.linear(x, matrix.T, bias)
    return functional.relu(product) if relu else product


def norm_linear(
    x: Tensor, y: Tensor | None, c: Tensor | None, gain: Tensor, norm_bias: Tensor, epsilon: float, *product: Any
) -> tuple[Tensor, Tensor]:
    z = residual_norm(x, y, c, gain, norm_bias, epsilon)
    return z, step_linear(z, *product)


def packed_attention(
    q: Tensor, kv: Tensor, spans: Tensor, readers: Tensor, heads: HeadColumns, scale: float, causal: bool
) -> Tensor:
    index = torch.arange(kv.shape[1])
    sees = (index >= spans[0][:, None]) & (index < spans[1][:, None])
    if causal:
        sees &= index <= torch.arange(q.shape[1])[:, None]
    query, key, value = (p.reshape(1, p.shape[1], -1, width).transpose(1, 2) for p, width in heads.parts(q, kv))
    key, value = (part.repeat_interleave(heads.count // heads.kv_count, 1) for part in (key, value))
    scores = (query @ key.mT * scale).float().masked_fill(~sees, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0).to(value.dtype)
    return (weights @ value).transpose(1, 2).flatten(2)


def packed_ssru(gate: Tensor, value: Tensor, spans: Tensor) -> Tensor:
    """Compute each sentence by itself, and each position of the padding."""
    starts = (torch.arange(value.shape[1]) == spans[0]) | (spans[1] == 0)
    cuts = starts.nonzero().flatten().tolist()[1:]
    parts = zip(gate.tensor_split(cuts, 1), value.tensor_split(cuts, 1), strict=True)
    return torch.cat([layers.ssru(*part) for part in parts], 1)


def whole_loss(
    x: Tensor, table: Tensor, labels: Tensor, smoothing: float, wrong_classes: bool, classes: int,
    bias: Tensor | None = None,
) -> Tensor:  # fmt: skip
    logits = functional.linear(x, table, bias)[..., :classes]
    return losses.smoothed_loss(logits, labels, smoothing, wrong_classes)


def embed(slots: Slots, table: Tensor, scale: float, positions: Tensor | None) -> Tensor:
    layout = slots.layout
    x = functional.embedding(slots.table[:, layout.columns.tokens : layout.columns.totals].flatten(), table) * scale
    if positions is not None:
        # A sentence that has ended may be one position after the last.
        position = slots.table[:, Field.LENGTH].long().clamp(max=len(positions) - 1)
        x = x + positions[position].repeat_interleave(layout.rows, 0).to(x.dtype)
    return x.unsqueeze(1)


def attend_cache(features: Tensor, cache: Tensor, slots: Slots, heads: HeadColumns, scale: float) -> Tensor:
    layout, rows = slots.layout, slots.rows
    positions = slots.table[:, Field.LENGTH].long().repeat_interleave(layout.rows)
    cache[torch.arange(rows), positions] = features[:, 0, heads.key :]
    ancestors = layout.arrays(slots.table)[-1].flatten(0, 1).long()
    read = torch.arange(rows)[:, None] // layout.rows * layout.rows + ancestors
    read[torch.arange(rows), positions] = torch.arange(rows)
    kept = cache[read, torch.arange(layout.capacity)]
    key, value = kept[..., : heads.kv_count * heads.d_k], kept[..., heads.kv_count * heads.d_k :]
    hidden = torch.arange(layout.capacity) > positions[:, None]
    query = features[:, 0, heads.query : heads.query + heads.count * heads.d_k]
    return _attend(query, key, value, hidden, heads, scale)


def attend_memory(features: Tensor, slots: Slots, heads: HeadColumns, scale: float) -> Tensor:
    repeated = slots.memory.repeat_interleave(slots.layout.rows, 0)
    (query, _), (key, _), (value, _) = heads.parts(features[:, 0], repeated)
    lengths = slots.table[:, Field.SOURCE].repeat_interleave(slots.layout.rows)
    return _attend(query, key, value, torch.arange(slots.layout.source) >= lengths[:, None], heads, scale)


def _attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor, heads: HeadColumns, scale: float) -> Tensor:
    """Return the attention of one query per row: query [rows, _], key and value [rows, m, _], hidden [rows, m]."""
    q = query.view(len(query), heads.kv_count, -1, heads.d_k)
    k, v = (x.reshape(*x.shape[:2], heads.kv_count, -1).transpose(1, 2) for x in (key, value))
    scores = (q @ k.mT * scale).float().masked_fill(hidden[:, None, None, :], -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0).to(v.dtype)
    return (weights @ v).flatten(1).unsqueeze(1)

"""What emitted code calls that torch does not have in one call: masks, positions and the loss in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from specs import PAD

CHUNK = 2**23
"""Logits that exist at a time: 32 MiB in float32. Larger buffers cost page faults, smaller ones poor products."""


def padding_mask(tokens: Int[Tensor, "batch keys"]) -> Bool[Tensor, "batch 1 1 keys"]:
    """True at padding, which no query may look at."""
    return (tokens == PAD)[:, None, None, :]


def causal_mask(tokens: Int[Tensor, "batch length"]) -> Bool[Tensor, "length length"]:
    """True above the diagonal: keys that come after the query (3.2.3)."""
    length = tokens.shape[1]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)


def sinusoids(x: Float[Tensor, "batch length d_model"], start: int = 0) -> Float[Tensor, "length d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same (3.5), from `start` on."""
    stop = start + x.shape[1]
    room = max(256, 2 ** math.ceil(math.log2(stop)))
    return _sinusoids(room, x.shape[2], x.device, x.dtype)[start:stop]


@lru_cache(maxsize=8)
def _sinusoids(length: int, d_model: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    # In float64: at position 1000 a float32 angle is already wrong in the fifth digit.
    with torch.inference_mode(False):
        positions = torch.arange(length, dtype=torch.float64)[:, None]
        angles = positions / 10000 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1).to(device, dtype)


def pick(
    log_probabilities: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """The log-probability of each label, and 0 at padding."""
    return log_probabilities.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


def smoothed_loss(
    logits: Float[Tensor, "batch length V"],
    labels: Int[Tensor, "batch length"],
    smoothing: float,
    wrong_classes: bool,
) -> Float[Tensor, 2]:
    """Cross entropy against smoothed labels, and plain, each summed over what is not padding (5.4)."""
    real = labels != PAD
    return torch.stack(_losses(logits[real].float(), labels[real], smoothing, wrong_classes)[:2])


def chunked_loss(
    x: Float[Tensor, "batch length d_model"],
    table: Float[Tensor, "rows d_model"],
    labels: Int[Tensor, "batch length"],
    smoothing: float,
    wrong_classes: bool,
    classes: int,
) -> Float[Tensor, 2]:
    """`smoothed_loss` of x against the first `classes` rows of the table, without ever holding all logits."""
    real = labels != PAD
    x = x[real]
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, table = x.to(dtype), table.to(dtype)
    wanted = torch.is_grad_enabled() and (x.requires_grad or table.requires_grad)
    apply = cast("Callable[..., tuple[Tensor, Tensor]]", _ChunkedLoss.apply)
    smoothed, plain = apply(x, table, labels[real], smoothing, wrong_classes, classes, wanted)
    return torch.stack([smoothed, plain])


class _ChunkedLoss(torch.autograd.Function):
    """The gradient of cross entropy is known in closed form, so each chunk's is taken as soon as its logits exist."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor,
        labels: Tensor,
        smoothing: float,
        wrong_classes: bool,
        classes: int,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        x_gradient = torch.empty_like(x) if wanted else None
        table_gradient = torch.zeros_like(table, dtype=torch.float32) if wanted else None
        sums = torch.zeros(2, device=x.device)
        rows = max(1, CHUNK // table.shape[0])
        for start in range(0, x.shape[0], rows):
            chunk, label = x[start : start + rows], labels[start : start + rows]
            every = (chunk @ table.T).float()
            logits = every[:, :classes]
            smoothed, plain, log_z = _losses(logits, label, smoothing, wrong_classes)
            sums += torch.stack([smoothed, plain])
            if x_gradient is not None and table_gradient is not None:
                _to_gradient(logits, log_z, label, smoothing, wrong_classes)
                every[:, classes:] = 0.0
                gradient = every.to(x.dtype)
                x_gradient[start : start + rows] = gradient @ table
                if gradient.dtype == torch.float32:
                    torch.addmm(table_gradient, gradient.T, chunk, out=table_gradient)
                else:
                    table_gradient += gradient.T @ chunk
        ctx.save_for_backward(x_gradient, table_gradient)
        ctx.table_dtype = table.dtype
        plain_sum = sums[1]
        ctx.mark_non_differentiable(plain_sum)
        return sums[0], plain_sum

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, table_gradient = ctx.saved_tensors
        return (
            x_gradient * scale.to(x_gradient.dtype),
            (table_gradient * scale).to(ctx.table_dtype),
            *(None,) * 5,
        )


def _losses(logits: Tensor, labels: Tensor, smoothing: float, wrong_classes: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Smoothed and plain sums, and the log of each row's normaliser. logits [n, V], labels [n]"""
    classes = logits.shape[-1]
    log_z = logits.logsumexp(-1)
    plain = (log_z - logits.gather(-1, labels[:, None])[:, 0]).sum()
    if not smoothing:
        return plain, plain, log_z
    every = classes * log_z.sum() - logits.sum()
    spread = (every - plain) / (classes - 1) if wrong_classes else every / classes
    return (1 - smoothing) * plain + smoothing * spread, plain, log_z


def _to_gradient(logits: Tensor, log_z: Tensor, labels: Tensor, smoothing: float, wrong_classes: bool) -> None:
    """Overwrites logits by what the smoothed sum changes by with each: softmax less the smoothed labels."""
    classes = logits.shape[-1]
    elsewhere = smoothing / (classes - 1) if wrong_classes else smoothing / classes
    here = 1 - smoothing if wrong_classes else 1 - smoothing + elsewhere
    logits.sub_(log_z[:, None]).exp_()
    if elsewhere:
        logits -= elsewhere
    logits[torch.arange(len(labels), device=labels.device), labels] -= here - elsewhere

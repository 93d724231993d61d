"""What emitted code calls that torch does not have in one call: masks, positions and the loss in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from compiler.operations.probability import SUPPRESSED_LOGIT
from specs import PAD

CHUNK = 2**24
"""Logits that exist at a time: 64 MiB in float32. More of them do not make their products faster."""


def padding_mask(tokens: Int[Tensor, "batch keys"]) -> Bool[Tensor, "batch 1 1 keys"]:
    """True at padding, which no query may look at."""
    return (tokens == PAD)[:, None, None, :]


def causal_mask(tokens: Int[Tensor, "batch length"]) -> Bool[Tensor, "1 1 length length"]:
    """True above the diagonal: keys that come after the query (3.2.3)."""
    length = tokens.shape[1]
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=tokens.device).triu(1)


def unwritten_mask(
    position: Int[Tensor, "rows new"], cache: Float[Tensor, "rows h length d"], *, planned: bool
) -> Bool[Tensor, "rows 1 new keys"]:
    """True at keys of a cache that are not the query's own or before it.

    They are the first ones of a planned cache, and the last ones of one to which the new ones are being appended.
    """
    length, new = cache.shape[2], position.shape[1]
    own, key = position[:, None, :, None] + 1, torch.arange(length + (0 if planned else new), device=position.device)
    if planned:
        return key >= own
    hidden = key < length + new - own[:, :, -1:]
    return hidden if new == 1 else hidden | (key > length + torch.arange(new, device=key.device)[:, None])


def written(
    cache: Float[Tensor, "rows h room d"], new: Float[Tensor, "rows h new d"], position: Int[Tensor, "rows new"]
) -> Float[Tensor, "rows h room d"]:
    """The cache with each row's new keys or values at their positions: in place, but where a graph is exported."""
    index = position[:, None, :, None].expand_as(new)
    return cache.scatter(2, index, new) if torch.compiler.is_exporting() else cache.scatter_(2, index, new)


def additive_scores(
    query: Float[Tensor, "batch h *n d_k"], key: Float[Tensor, "batch h *m d_k"], vector: Float[Tensor, "h d_k"]
) -> Float[Tensor, "batch h *n m"]:
    """v · tanh(query + key) of each query and each key, v that of the head (Bahdanau et al. 2015)."""
    inner = torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))
    across = vector.view(vector.shape[0], *[1] * (inner.ndim - 4), vector.shape[1], 1)
    return (inner @ across).squeeze(-1)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
    """softmax(scale · Q Kᵀ, masked) V in one call of torch's."""
    mask = None if hidden is None else ~hidden
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale)


def sinusoids(
    x: Float[Tensor, "batch length d_model"],
    position: Int[Tensor, "batch length"] | None = None,
    *,
    halves: bool = False,
    first: int = 0,
) -> Float[Tensor, "... d_model"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same (3.5), of 0.. or of `position`.

    With `halves` as in the authors' code: PE(pos, i) = sin(pos / 10000^(i/(d_model/2 - 1))), then the cosines. What
    is the first position counts as `first`.
    """
    if position is None and torch.compiler.is_exporting():
        position = torch.arange(x.shape[1], device=x.device)
    if position is not None:
        return _encoded(position + first, x.shape[2], halves).to(x.dtype)
    after = first + x.shape[1]
    room = max(256, 2 ** math.ceil(math.log2(after)))
    return _sinusoids(room, x.shape[2], halves, x.device, x.dtype)[first:after]


@lru_cache(maxsize=8)
def _sinusoids(length: int, d_model: int, halves: bool, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return _encoded(torch.arange(length), d_model, halves).to(device, dtype)


def _encoded(position: Int[Tensor, ...], d_model: int, halves: bool) -> Float[Tensor, "... d_model"]:
    # In float64: at position 1000 a float32 angle is already wrong in the fifth digit.
    rising = torch.arange(0, d_model, 2, dtype=torch.float64, device=position.device)
    angles = position[..., None] / 10000 ** (rising / (max(2, d_model - 2) if halves else d_model))
    if halves:
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def pick(
    log_probabilities: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """The log-probability of each label, and 0 at padding."""
    return log_probabilities.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


def dropout(x: Float[Tensor, ...], probability: float, training: bool) -> Float[Tensor, ...]:
    """Zeros with this probability while training, the rest scaled by 1 / (1 - probability) (5.4).

    On a CPU torch draws one number for each element, one after the other, which takes a fifth of a training step of a
    small model. Here each draw of 64 bits decides on four elements, each with its probability rounded to 2^-16.
    """
    if not training or not probability:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, probability)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    uniform = bits.view(torch.int16)[: x.numel()].view(x.shape)
    kept = uniform >= round(probability * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - probability))


def smoothed_loss(
    logits: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"], smoothing: float, wrong_classes: bool
) -> Float[Tensor, 2]:
    """Cross entropy against smoothed labels, and plain, each summed over what is not padding (5.4).

    The smoothing is spread over the classes that may come at all: those whose logits are more than CLOSED.
    """
    real = labels != PAD
    logits = logits[real].float()
    log_p, closed = logits.log_softmax(-1), logits <= SUPPRESSED_LOGIT
    plain, total = -log_p.gather(-1, labels[real][:, None])[:, 0], -log_p.masked_fill(closed, 0.0).sum(-1)
    smoothed = _Smoothing(smoothing, wrong_classes).of(plain, total, logits.shape[-1] - closed.sum(-1))
    return torch.stack([smoothed.sum(), plain.sum()])


def chunked_loss(
    x: Float[Tensor, "batch length d_model"],
    table: Float[Tensor, "rows d_model"],
    labels: Int[Tensor, "batch length"],
    smoothing: float,
    wrong_classes: bool,
    classes: int,
    bias: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, 2]:
    """`smoothed_loss` of x against the first `classes` rows of the table, without ever holding all logits.

    The classes that may come at all are those whose bias is more than CLOSED.
    """
    real = labels != PAD
    x = x[real]
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, table = x.to(dtype), table.to(dtype)
    wanted = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, table, bias))
    apply = cast("Callable[..., tuple[Tensor, Tensor]]", _ChunkedLoss.apply)
    smoothed, plain = apply(x, table, bias, labels[real], _Smoothing(smoothing, wrong_classes), classes, wanted)
    return torch.stack([smoothed, plain])


class _Smoothing(NamedTuple):
    """How much of a label is spread over classes: over the wrong ones, or over all of them."""

    share: float
    wrong_classes: bool

    def of(self, plain: Tensor, total: Tensor, classes: Tensor | int) -> Tensor:
        """From minus the log-probability of labels, and of all classes summed, the loss against smoothed labels."""
        spread = (total - plain) / (classes - 1) if self.wrong_classes else total / classes
        return (1 - self.share) * plain + self.share * spread

    def labels(self, classes: Tensor | int) -> tuple[Tensor | float, Tensor | float]:
        """What a smoothed label has at its own class, and at each other one."""
        elsewhere = self.share / (classes - 1) if self.wrong_classes else self.share / classes
        return 1 - self.share + (0.0 if self.wrong_classes else elsewhere), elsewhere


class _ChunkedLoss(torch.autograd.Function):
    """The gradient of cross entropy is known in closed form, so each chunk's is taken as soon as its logits exist."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: _Smoothing,
        width: int,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        x_gradient = torch.empty_like(x) if wanted else None
        table_gradient = torch.zeros_like(table, dtype=torch.float32) if wanted else None
        bias_gradient = torch.zeros_like(bias, dtype=torch.float32) if wanted and bias is not None else None
        possible = None if bias is None else (bias[:width] > SUPPRESSED_LOGIT).float()
        classes = width if possible is None else possible.sum()
        sums = torch.zeros(2, device=x.device)
        rows = max(1, min(CHUNK // table.shape[0], x.shape[0]))
        # Written over by every chunk: memory that is fresh costs more than the arithmetic on it.
        products = x.new_empty(rows, table.shape[0])
        wide = products if x.dtype == torch.float32 else torch.empty_like(products, dtype=torch.float32)
        for start in range(0, x.shape[0], rows):
            chunk, label = x[start : start + rows], labels[start : start + rows]
            product, every = products[: len(chunk)], wide[: len(chunk)]
            torch.mm(chunk, table.T, out=product)
            if wide is not products:
                every.copy_(product)
            if bias is not None:
                every.add_(bias)
            logits = every[:, :width]
            plain, total = _to_probabilities(logits, label, possible)
            sums += torch.stack([smoothing.of(plain, total, classes), plain])
            if x_gradient is not None and table_gradient is not None:
                _to_gradient(logits, label, smoothing, classes, possible)
                every[:, width:] = 0.0
                if bias_gradient is not None:
                    bias_gradient += every.sum(0)
                if wide is not products:
                    product.copy_(every)
                torch.mm(product, table, out=x_gradient[start : start + rows])
                if product.dtype == torch.float32:
                    torch.addmm(table_gradient, product.T, chunk, out=table_gradient)
                else:
                    table_gradient += product.T @ chunk
        ctx.save_for_backward(x_gradient, table_gradient, bias_gradient)
        ctx.dtypes, ctx.used = (table.dtype, None if bias is None else bias.dtype), False
        plain_sum = sums[1]
        ctx.mark_non_differentiable(plain_sum)
        return sums[0], plain_sum

    @staticmethod
    def backward(ctx: Any, scale: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x_gradient, *others = ctx.saved_tensors
        if ctx.used:
            raise RuntimeError("the gradients of a loss in chunks can be taken once")
        ctx.used = True
        x_gradient.mul_(scale)
        scaled = (None if t is None else t.mul_(scale).to(dtype) for t, dtype in zip(others, ctx.dtypes, strict=True))
        return (x_gradient, *scaled, *(None,) * 4)


def _to_probabilities(logits: Tensor, labels: Tensor, possible: Tensor | None) -> tuple[Tensor, Tensor]:
    """Overwrites logits [n, V] by probabilities; minus the log-probability of the labels and of all classes, summed.

    Of those classes that are `possible`, a 1 each, if that is said.
    """
    label = logits.gather(-1, labels[:, None]).sum()
    every, classes = (
        (logits.sum(), logits.shape[-1]) if possible is None else ((logits @ possible).sum(), possible.sum())
    )
    highest = logits.amax(-1, keepdim=True)
    normaliser = logits.sub_(highest).exp_().sum(-1, keepdim=True)
    logits /= normaliser
    log_z = (highest + normaliser.log()).sum()
    return log_z - label, classes * log_z - every


def _to_gradient(
    probabilities: Tensor, labels: Tensor, smoothing: _Smoothing, classes: Tensor | int, possible: Tensor | None
) -> None:
    """Overwrites probabilities by what the smoothed sum changes by with each logit: less the smoothed labels."""
    here, elsewhere = smoothing.labels(classes)
    if smoothing.share:
        probabilities -= elsewhere if possible is None else elsewhere * possible
    probabilities[torch.arange(len(labels), device=labels.device), labels] -= here - elsewhere

"""Functions that emitted code calls: masks, attention, positions, dropout, 8-bit products, and losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.nn import functional

from compiler.operations.probability import SMALLEST_ATTENTION, SUPPRESSED_LOGIT
from compiler.weights import round_to_int8
from specs import EOS, PAD

CHUNK = 2**24
"""The number of logits in a chunk of the chunked loss: 64 MiB in float32. Larger chunks are not faster."""
_BLOCK = 2**19
"""The number of logits that a CPU converts to gradients at a time. They fit into its cache."""
MAX_INT8_PRODUCTS = (2**31 - 1) // 127**2
"""The largest number of products of two 8-bit integers whose sum always fits in 32 bits."""


def padding_mask(length: Int[Tensor, " batch"], stream: Shaped[Tensor, "batch keys ..."]) -> Bool[Tensor, "b 1 1 keys"]:
    """Return a mask that is True at padding: the positions after the end of each sequence.

    Args:
        length: The number of positions in each sequence, without padding.
        stream: The padded sequences, of which only the shape is used.
    """
    return (torch.arange(stream.shape[1], device=length.device) >= length[:, None])[:, None, None, :]


def causal_mask(stream: Shaped[Tensor, "batch length ..."]) -> Bool[Tensor, "1 1 length length"]:
    """Return a mask that is True at keys after the query (3.2.3). Only the shape of `stream` is used."""
    length = stream.shape[1]
    return torch.ones(1, 1, length, length, dtype=torch.bool, device=stream.device).triu(1)


def unwritten_mask(
    position: Int[Tensor, "rows new"], cache: Float[Tensor, "rows h length d"], *, planned: bool
) -> Bool[Tensor, "rows 1 new keys"]:
    """Return a mask that is True at the slots of a cache that a query must not see.

    A query sees the keys at its own position and at earlier positions.

    Args:
        position: The positions of the queries.
        cache: The cache of keys.
        planned: Whether the cache is preallocated. Visible keys are then in the first slots. Otherwise the new keys
            will be appended to the cache, so that visible keys are in the last slots.
    """
    length, new = cache.shape[2], position.shape[1]
    own, key = position[:, None, :, None] + 1, torch.arange(length + (0 if planned else new), device=position.device)
    if planned:
        return key >= own
    hidden = key < length + new - own[:, :, -1:]
    return hidden if new == 1 else hidden | (key > length + torch.arange(new, device=key.device)[:, None])


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
        hidden: True at keys that a query must not see. None: a query sees all keys.
        scale: Factor of Q Kᵀ.
        bias: A bias that is added to the scores.
        grouped: Whether several query heads share one key-value head.
    """
    mask = None if hidden is None else ~hidden
    if bias is not None:
        mask = bias.to(query.dtype) if hidden is None else bias.masked_fill(hidden, -math.inf).to(query.dtype)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scale, enable_gqa=grouped)


def sinusoids(
    x: Float[Tensor, "batch length d_model"],
    position: Int[Tensor, "batch length"] | None = None,
    *,
    halves: bool = False,
    first: int = 0,
) -> Float[Tensor, "... d_model"]:
    """Return the positional encodings PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(...) (3.5).

    Args:
        x: The embeddings. The encodings have the same length, d_model, type and device.
        position: The positions. None: 0, 1, ...
        halves: Whether to use the layout of tensor2tensor, the code of the paper's authors: all sines, then all
            cosines, with PE(pos, i) = sin(pos / 10000^(i/(d_model/2 - 1))).
        first: A number that is added to all positions.
    """
    if position is None and torch.compiler.is_exporting():
        position = torch.arange(x.shape[1], device=x.device)
    if position is not None:
        return _encode_positions(position + first, x.shape[2], halves).to(x.dtype)
    return sinusoid_table(x.shape[1], x[0], halves, first)


def sinusoids_2d(x: Float[Tensor, "batch length d_model"], *, rows: int) -> Float[Tensor, "length d_model"]:
    """Return positional encodings of patches. The first half of the features encodes the column, the second the row.

    Args:
        x: The patches. The encodings have the same length, d_model, type and device.
        rows: Number of patches in each column. Position p is the patch in column p // rows and row p % rows.
    """
    position = torch.arange(x.shape[1], device=x.device)
    halves = [_encode_positions(each, x.shape[2] // 2, False) for each in (position // rows, position % rows)]
    return torch.cat(halves, -1).to(x.dtype)


def sinusoid_table(length: int, like: Tensor, halves: bool, first: int) -> Float[Tensor, "length d_model"]:
    """Return the encodings of `length` positions, starting at `first`, with the width, type and device of `like`."""
    rounded = max(256, 2 ** math.ceil(math.log2(length + first)))
    return _sinusoid_table(rounded, like.shape[1], halves, like.device, like.dtype)[first : first + length]


@lru_cache(maxsize=8)
def _sinusoid_table(length: int, d_model: int, halves: bool, device: torch.device, dtype: torch.dtype) -> Tensor:
    with torch.inference_mode(False):
        return _encode_positions(torch.arange(length), d_model, halves).to(device, dtype)


def _encode_positions(position: Int[Tensor, ...], d_model: int, halves: bool) -> Float[Tensor, "... d_model"]:
    # Use float64, because at position 1000, a float32 angle is already wrong in the fifth digit.
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64, device=position.device)
    angles = position[..., None] / 10000 ** (exponent / (max(2, d_model - 2) if halves else d_model))
    if halves:
        return torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


def dropout(x: Float[Tensor, ...], probability: float, training: bool) -> Float[Tensor, ...]:
    """Apply dropout in training (5.4): set random elements to zero, and scale the others by 1 / (1 - probability).

    On a CPU, torch draws one random number per element, one after the other. For a small model, this takes a fifth of a
    training step. This function is faster: it uses one 64-bit random number for four elements, and rounds the
    probability to a multiple of 2^-16.
    """
    if not training or not probability:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return functional.dropout(x, probability)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    uniform = bits.view(torch.int16)[: x.numel()].view(x.shape)
    kept = uniform >= round(probability * 2**16) - 2**15
    return x * kept.to(x.dtype).mul_(1 / (1 - probability))


def quantised_linear(
    x: Float[Tensor, "... inner"],
    matrix: Int[Tensor, "inner outer"],
    scales: Float[Tensor, " outer"],
    bias: Float[Tensor, " outer"] | None = None,
) -> Float[Tensor, "... outer"]:
    """Return x W + b, computed in 8-bit integers with exact sums. W is `matrix` times the scale of each column.

    Each row of x is rounded to 8 bits with its own scale. A row that contains infinity or NaN gives NaN.
    """
    rows, row_scales = round_to_int8(x, -1)
    sums = _exact_int8_product(rows.flatten(0, -2), matrix).view(*x.shape[:-1], -1)
    y = sums * row_scales * scales
    return y if bias is None else y + bias


def _exact_int8_product(
    rows: Int[Tensor, "rows inner"], matrix: Int[Tensor, "inner outer"]
) -> Int[Tensor, "rows outer"]:
    """Return the exact product of two int8 matrices, in int32 or, if that might be inexact, in int64."""
    if not sums_int8_exactly() or 1 in matrix.shape:
        return (rows.double() @ matrix.double()).long()
    if rows.shape[0] == 1:  # torch reads out of bounds if a single row or column has unusual strides
        return _exact_int8_product(rows.repeat(2, 1), matrix)[:1]
    if rows.shape[1] <= MAX_INT8_PRODUCTS:
        return torch._int_mm(rows, matrix)
    sums = torch.zeros(rows.shape[0], matrix.shape[1], dtype=torch.long, device=rows.device)
    for start in range(0, rows.shape[1], MAX_INT8_PRODUCTS):
        part = slice(start, start + MAX_INT8_PRODUCTS)
        sums += _exact_int8_product(rows[:, part].contiguous(), matrix[part])
    return sums


def sums_int8_exactly() -> bool:
    """Return whether torch's int8 matrix products are exact. Without VNNI, 16-bit sums in oneDNN may saturate.

    Backends that use torch.compile must mark the result as constant themselves, because a decorator here would import
    torch's compiler.
    """
    return _probe_int8_product()


@cache  # in a separate function, because torch.compile ignores the cache of a function that it traces
def _probe_int8_product() -> bool:
    largest = torch.full((32, 32), 127, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest) == 32 * 127**2).all())


def pick(
    log_probabilities: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """Return the log-probability of each label, or 0 if the label is PAD."""
    return log_probabilities.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


def smoothed_loss(
    logits: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"], smoothing: float, wrong_classes: bool
) -> Float[Tensor, 2]:
    """Return the cross entropy, summed over all labels: first with, then without label smoothing (5.4).

    Labels that are PAD are ignored.

    Args:
        logits: The logits. Classes whose logits are at most SUPPRESSED_LOGIT are impossible. They get no part of the
            probability that label smoothing spreads.
        labels: The target tokens.
        smoothing: The probability that is taken from the label and spread over the classes.
        wrong_classes: Whether this probability is spread over the wrong classes only, instead of all classes.
    """
    real = labels != PAD
    logits = logits.float()
    log_p, closed = logits.log_softmax(-1), logits <= SUPPRESSED_LOGIT
    plain, total = -log_p.gather(-1, labels.long()[..., None])[..., 0], -log_p.masked_fill(closed, 0.0).sum(-1)
    smoothed = _Smoothing(smoothing, wrong_classes).loss(plain, total, logits.shape[-1] - closed.sum(-1))
    return torch.stack([(smoothed * real).sum(), (plain * real).sum()])


def alignment_loss(
    loss: Float[Tensor, 2],
    weights: Float[Tensor, "batch h target source"],
    alignment: Float[Tensor, "batch target source"],
    weight: float,
) -> Float[Tensor, 2]:
    """Add to the smoothed loss `weight` times the cross entropy between the first head's attention and an alignment."""
    nats = -(alignment * weights[:, 0].clamp(min=SMALLEST_ATTENTION).log()).sum()
    return loss + torch.stack([weight * nats, nats.new_zeros(())])


def ctc_loss(
    loss: Float[Tensor, 2],
    logits: Float[Tensor, "batch source V"],
    padding: Bool[Tensor, "batch 1 1 source"],
    labels: Int[Tensor, "batch target"],
    weight: float,
) -> Float[Tensor, 2]:
    """Add to the smoothed loss `weight` times the CTC loss, summed over the examples. PAD is the blank.

    The CTC loss is computed on the CPU for every device, because PyTorch's GPU kernel sums gradients in random order.
    """
    log_p, labels = logits.float().log_softmax(-1).transpose(0, 1).cpu(), labels.cpu()
    positions, tokens = (~padding[:, 0, 0]).sum(-1).cpu(), ((labels != PAD) & (labels != EOS)).sum(-1)
    nats = functional.ctc_loss(log_p, labels, positions, tokens, PAD, "sum", zero_infinity=True)
    return loss + torch.stack([weight * nats, nats.new_zeros(())]).to(loss.device)


def chunked_loss(
    x: Float[Tensor, "batch length d_model"],
    table: Float[Tensor, "rows d_model"],
    labels: Int[Tensor, "batch length"],
    smoothing: float,
    wrong_classes: bool,
    classes: int,
    bias: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, 2]:
    """Return `smoothed_loss` of the logits x tableᵀ + bias, without holding all logits in memory.

    Args:
        x: The decoder's outputs.
        table: The table of the output projection. Its rows after the first `classes` rows are padding.
        labels: The target tokens.
        smoothing: The probability that is taken from the label and spread over the classes.
        wrong_classes: Whether this probability is spread over the wrong classes only, instead of all classes.
        classes: The size of the vocabulary.
        bias: A bias on the logits. Classes whose bias is at most SUPPRESSED_LOGIT are impossible.
    """
    real = labels != PAD
    x = x[real]
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        x, table = x.to(dtype), table.to(dtype)
    needs_gradient = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (x, table, bias))
    apply = cast("Callable[..., tuple[Tensor, Tensor]]", _ChunkedLoss.apply)
    smoothed, plain = apply(x, table, bias, labels[real], _Smoothing(smoothing, wrong_classes), classes, needs_gradient)
    return torch.stack([smoothed, plain])


class _Smoothing(NamedTuple):
    """Options of label smoothing: the probability to spread, and whether to spread it over the wrong classes only."""

    probability: float
    wrong_classes: bool

    def loss(self, plain: Tensor, total: Tensor, classes: Tensor | int) -> Tensor:
        """Return the cross entropy with smoothed labels.

        Args:
            plain: The negative log-probability of the label.
            total: The sum of the negative log-probabilities of all possible classes.
            classes: The number of possible classes.
        """
        spread = (total - plain) / (classes - 1) if self.wrong_classes else total / classes
        return (1 - self.probability) * plain + self.probability * spread

    def labels(self, classes: Tensor | int) -> tuple[Tensor | float, Tensor | float]:
        """Return the probabilities of a smoothed label: first of the true class, then of every other class."""
        other = self.probability / (classes - 1) if self.wrong_classes else self.probability / classes
        return 1 - self.probability + (0.0 if self.wrong_classes else other), other


class _ChunkedLoss(torch.autograd.Function):
    """Cross entropy in chunks. The forward pass already computes the gradients, chunk by chunk."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        table: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: _Smoothing,
        width: int,
        needs_gradient: bool,
    ) -> tuple[Tensor, Tensor]:
        x_gradient = torch.empty_like(x) if needs_gradient else None
        table_gradient = torch.zeros_like(table, dtype=torch.float32) if needs_gradient else None
        bias_gradient = torch.zeros_like(bias, dtype=torch.float32) if needs_gradient and bias is not None else None
        possible = None if bias is None else (bias[:width] > SUPPRESSED_LOGIT).float()
        classes = width if possible is None else possible.sum()
        sums = torch.zeros(2, device=x.device)
        rows = max(1, min(CHUNK // table.shape[0], x.shape[0]))
        # All chunks use the same memory, because allocating new memory takes longer than the computation.
        products = x.new_empty(rows, table.shape[0])
        for start in range(0, x.shape[0], rows):
            chunk, label = x[start : start + rows], labels[start : start + rows]
            product = torch.mm(chunk, table.T, out=products[: len(chunk)])
            blocks = max(1, product.numel() // _BLOCK) if x.device.type == "cpu" else 1
            for block, block_labels in zip(product.chunk(blocks), label.chunk(blocks), strict=True):
                float_block = block.float()
                if bias is not None:
                    float_block.add_(bias)
                logits = float_block[:, :width]
                plain, total = _logits_to_probabilities(logits, block_labels, possible)
                sums += torch.stack([smoothing.loss(plain, total, classes), plain])
                if needs_gradient:
                    _probabilities_to_gradient(logits, block_labels, smoothing, classes, possible)
                    float_block[:, width:] = 0.0
                    if bias_gradient is not None:
                        bias_gradient += float_block.sum(0)
                    if block.dtype != torch.float32:
                        block.copy_(float_block)
            if x_gradient is not None and table_gradient is not None:
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
            raise RuntimeError("chunked_loss supports one backward pass only: compute the loss again")
        ctx.used = True
        x_gradient.mul_(scale)
        scaled = (None if t is None else t.mul_(scale).to(dtype) for t, dtype in zip(others, ctx.dtypes, strict=True))
        return (x_gradient, *scaled, *(None,) * 4)


def _logits_to_probabilities(logits: Tensor, labels: Tensor, possible: Tensor | None) -> tuple[Tensor, Tensor]:
    """Overwrite logits [n, V] with probabilities. Return two sums of negative log-probabilities.

    The first sum is over the labels. The second sum is over all classes or, if `possible` is given, over the classes
    for which `possible` is 1.
    """
    label = logits.gather(-1, labels[:, None]).sum()
    total, classes = (
        (logits.sum(), logits.shape[-1]) if possible is None else ((logits @ possible).sum(), possible.sum())
    )
    highest = logits.amax(-1, keepdim=True)
    normaliser = logits.sub_(highest).exp_().sum(-1, keepdim=True)
    logits /= normaliser
    log_z = (highest + normaliser.log()).sum()
    return log_z - label, classes * log_z - total


def _probabilities_to_gradient(
    probabilities: Tensor, labels: Tensor, smoothing: _Smoothing, classes: Tensor | int, possible: Tensor | None
) -> None:
    """Overwrite probabilities with the gradient of the loss for the logits: probabilities minus smoothed labels."""
    own, other = smoothing.labels(classes)
    if smoothing.probability:
        probabilities -= other if possible is None else other * possible
    probabilities[torch.arange(len(labels), device=labels.device), labels] -= own - other

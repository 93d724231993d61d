"""Training losses, and log-probabilities of given tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from compiler.operations.probability import SMALLEST_ATTENTION, SUPPRESSED_LOGIT
from specs import EOS, PAD

CHUNK = 2**24
"""The number of logits in a chunk of the chunked loss: 64 MiB in float32. Larger chunks are not faster."""
_BLOCK = 2**19
"""The number of logits that a CPU converts to gradients at a time. They fit into the CPU's cache."""


def pick(
    log_probabilities: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length"]:
    """Return the log-probability of each label, or 0 if the label is PAD."""
    return log_probabilities.gather(-1, labels[..., None])[..., 0] * (labels != PAD)


def smoothed_loss(
    logits: Float[Tensor, "batch length V"], labels: Int[Tensor, "batch length"], smoothing: float, wrong_classes: bool
) -> Float[Tensor, 2]:
    """Return the cross entropy, summed over all labels: first with, then without label smoothing (section 5.4).

    Labels that are PAD are ignored.

    Args:
        logits: The logits. Classes whose logits are at most SUPPRESSED_LOGIT are impossible. Label smoothing
            gives them no probability.
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
    """Return the losses, with `weight` times the alignment loss added to the smoothed loss.

    The alignment loss is the cross entropy between the first head's attention weights and a word alignment.
    """
    nats = -(alignment * weights[:, 0].clamp(min=SMALLEST_ATTENTION).log()).sum()
    return loss + torch.stack([weight * nats, nats.new_zeros(())])


def ctc_loss(
    loss: Float[Tensor, 2],
    logits: Float[Tensor, "batch source V"],
    padding: Bool[Tensor, "batch 1 1 source"],
    labels: Int[Tensor, "batch target"],
    weight: float,
) -> Float[Tensor, 2]:
    """Return the losses, with `weight` times the CTC loss added to the smoothed loss. PAD is the blank.

    The CTC loss is summed over the examples. It is computed on the CPU for every device, because PyTorch's GPU kernel
    sums gradients in random order.
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
    """Options for label smoothing: the probability to spread, and whether to spread it over the wrong classes only."""

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
    """Overwrite probabilities with the gradient with respect to the logits: probabilities minus smoothed labels."""
    own, other = smoothing.labels(classes)
    if smoothing.probability:
        probabilities -= other if possible is None else other * possible
    probabilities[torch.arange(len(labels), device=labels.device), labels] -= own - other

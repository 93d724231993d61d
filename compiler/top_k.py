"""The best next tokens of every hypothesis, chosen in float32 and without chance."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from specs import BOS, EOS, PAD


class TopK(NamedTuple):
    """Of each row the top_k tokens but for PAD, BOS and what else is suppressed, the lower token first among equals."""

    values: Float32[Tensor, "rows count"]
    """Their log-probabilities, the greatest first; -inf where fewer than `count` are left."""
    tokens: Int[Tensor, "rows count"]
    ends: Float32[Tensor, " rows"]
    """The log-probability of EOS, which may or may not be among them; -inf where it is suppressed."""


def top_k(
    log_probabilities: Float32[Tensor, "rows vocabulary"],
    count: int,
    allowed: Bool[Tensor, "#rows vocabulary"] | None = None,
) -> TopK:
    """The `count` top_k tokens of each row, or as many as there are; of those that are `allowed`, if that is said.

    What is suppressed takes no part in the choice, and leaves the log-probabilities of the others as they are.
    """
    if allowed is not None:
        log_probabilities = torch.where(allowed, log_probabilities, -torch.inf)
    vocabulary, ends = log_probabilities.shape[1], log_probabilities[:, EOS]
    # PAD and BOS may be among the first, and one more than asked for shows whether the edge is a tie.
    _, tokens = log_probabilities.topk(min(count + 3, vocabulary), dim=1)
    values, tokens = _in_order(log_probabilities, tokens)
    if values.shape[1] <= count:
        return TopK(values, tokens, ends)
    edge = values[:, count - 1]
    tied = (edge == values[:, count]) & edge.isfinite()
    values, tokens = values[:, :count], tokens[:, :count]
    # Which of the equals topk takes is its own affair: take the lowest. A GPU is not asked whether there are any.
    if _is_asynchronous(log_probabilities):
        lowest = _lowest(log_probabilities, edge.unsqueeze(1), count)
        exact = _in_order(log_probabilities, lowest)
        values, tokens = (torch.where(tied.unsqueeze(1), a, b) for a, b in zip(exact, (values, tokens), strict=True))
    elif bool(tied.any()):
        values, tokens = values.clone(), tokens.clone()
        rows = log_probabilities[tied]
        values[tied], tokens[tied] = _in_order(rows, _lowest(rows, edge[tied].unsqueeze(1), count))
    return TopK(values, tokens, ends)


def _lowest(
    rows: Float32[Tensor, "rows vocabulary"], edge: Float32[Tensor, "rows 1"], count: int
) -> Int[Tensor, "rows count"]:
    """All tokens likelier than the edge, then the lowest of those that lie on it."""
    place = -torch.arange(rows.shape[1], dtype=torch.int32, device=rows.device)
    nowhere = torch.full_like(rows, -rows.shape[1], dtype=torch.int32)
    key = torch.where(rows == edge, place, nowhere.masked_fill(rows > edge, 1))
    for token in (PAD, BOS):
        key[:, token] = -rows.shape[1]
    return key.topk(count, dim=1).indices


def _in_order(
    log_probabilities: Float32[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows chosen"]
) -> tuple[Float32[Tensor, "rows chosen"], Int[Tensor, "rows chosen"]]:
    tokens = tokens.sort(dim=1).values
    values = log_probabilities.gather(1, tokens)
    values = values.masked_fill((tokens == PAD) | (tokens == BOS), -torch.inf)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values, tokens.gather(1, order)


def _is_asynchronous(tensor: Tensor) -> bool:
    """Whether its device works on while the host goes on."""
    return tensor.is_cuda

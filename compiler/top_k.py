"""Selection of the most probable tokens."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from compiler.program import TopK
from specs import BOS, EOS, PAD


def top_k(
    log_probabilities: Float32[Tensor, "rows vocabulary"],
    count: int,
    allowed: Bool[Tensor, "#rows vocabulary"] | None = None,
) -> TopK:
    """Return the `count` most probable tokens of each row. If several are equally probable, prefer the lowest IDs.

    Tokens that are not allowed are never returned. The log-probabilities of the other tokens do not change.

    Args:
        log_probabilities: The log-probabilities of all tokens, in nats.
        count: How many tokens to return for each row. If the vocabulary has fewer tokens, all of them are returned.
        allowed: True for the tokens that may be returned. None: all tokens may be returned.
    """
    if allowed is not None:
        log_probabilities = torch.where(allowed, log_probabilities, -torch.inf)
    vocabulary, ends = log_probabilities.shape[1], log_probabilities[:, EOS]
    # Take three more: PAD and BOS may be among the first, and the third one shows whether there is a tie at the end.
    _, tokens = log_probabilities.topk(min(count + 3, vocabulary), dim=1)
    values, tokens = _sort_by_value_and_id(log_probabilities, tokens)
    if values.shape[1] <= count:
        return TopK(values, tokens, ends)
    last = values[:, count - 1]
    is_tied = (last == values[:, count]) & last.isfinite()
    values, tokens = values[:, :count], tokens[:, :count]
    # torch.topk may return any of several equal values, so choose those with the lowest IDs. On a GPU, do this for
    # every row, because testing whether there are ties would wait for the GPU.
    if _is_asynchronous(log_probabilities):
        lowest = _lowest_ids(log_probabilities, last.unsqueeze(1), count)
        exact = _sort_by_value_and_id(log_probabilities, lowest)
        values, tokens = (torch.where(is_tied.unsqueeze(1), a, b) for a, b in zip(exact, (values, tokens), strict=True))
    elif bool(is_tied.any()):
        values, tokens = values.clone(), tokens.clone()
        rows = log_probabilities[is_tied]
        lowest = _lowest_ids(rows, last[is_tied].unsqueeze(1), count)
        values[is_tied], tokens[is_tied] = _sort_by_value_and_id(rows, lowest)
    return TopK(values, tokens, ends)


def _lowest_ids(
    rows: Float32[Tensor, "rows vocabulary"], last: Float32[Tensor, "rows 1"], count: int
) -> Int[Tensor, "rows count"]:
    """Return the most probable tokens of each row, in any order. Of tokens with a probability of `last`, use low IDs.

    Args:
        rows: The log-probabilities of all tokens.
        last: For each row, the log-probability of the least probable token to return.
        count: How many tokens to return.
    """
    size = rows.shape[1]
    negative_id = -torch.arange(size, dtype=torch.int32, device=rows.device)
    excluded = torch.full_like(rows, -size, dtype=torch.int32)
    priority = torch.where(rows == last, negative_id, excluded.masked_fill(rows > last, 1))
    for token in (PAD, BOS):
        priority[:, token] = -size
    return priority.topk(count, dim=1).indices


def _sort_by_value_and_id(
    log_probabilities: Float32[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows chosen"]
) -> tuple[Float32[Tensor, "rows chosen"], Int[Tensor, "rows chosen"]]:
    tokens = tokens.sort(dim=1).values
    values = log_probabilities.gather(1, tokens)
    values = values.masked_fill((tokens == PAD) | (tokens == BOS), -torch.inf)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values, tokens.gather(1, order)


def _is_asynchronous(tensor: Tensor) -> bool:
    """Return whether operations on the tensor run asynchronously, as on a GPU."""
    return tensor.is_cuda

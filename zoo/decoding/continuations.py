"""The best next pieces of every sentence, chosen in float32 and without chance."""

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from specs import BOS, EOS, PAD


def continuations(
    log_probabilities: Float32[Tensor, "sentences*live vocabulary"],
    totals: Float32[Tensor, "sentences live"],
    must_end: Bool[Tensor, " sentences"],
    count: int,
) -> tuple[Float32[Tensor, "sentences n"], Int[Tensor, "sentences n"], Int[Tensor, "sentences n"]]:
    """The `count` likeliest continuations of each sentence, likeliest first: totals, parents, pieces.

    `totals` are the log-probabilities of the live hypotheses, a parent is the index of one of them. PAD and
    BOS are impossible (-inf), and so is all but EOS where `must_end`. Among equal totals the lower parent
    comes first, then the likelier piece, then the lower piece; no other row of the batch has a say.
    """
    sentences, live = totals.shape
    values, pieces = likeliest(log_probabilities, count)
    ending = torch.full_like(values, -torch.inf)
    ending[:, 0] = log_probabilities[:, EOS]
    only_end = must_end.repeat_interleave(live).unsqueeze(1)
    values = torch.where(only_end, ending, values)
    pieces = torch.where(only_end, EOS, pieces)

    width = values.shape[1]
    reached = (totals.reshape(-1, 1) + values).view(sentences, live * width)
    reached, order = best(reached, count)
    return reached, order // width, pieces.view(sentences, live * width).gather(1, order)


def best(
    values: Float32[Tensor, "rows items"], count: int
) -> tuple[Float32[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The `count` greatest of each short row and their places; among equals the lower place comes first."""
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count], order[:, :count]


def likeliest(
    log_probabilities: Float32[Tensor, "rows vocabulary"], count: int
) -> tuple[Float32[Tensor, "rows count"], Int[Tensor, "rows count"]]:
    """The `count` likeliest pieces of each row but for PAD and BOS, the lower piece first among equals."""
    vocabulary = log_probabilities.shape[1]
    # PAD and BOS may be among the first, and one more than asked for shows whether the edge is a tie.
    _, pieces = log_probabilities.topk(min(count + 3, vocabulary), dim=1)
    values, pieces = _in_order(log_probabilities, pieces)
    if values.shape[1] <= count:
        return values, pieces
    edge = values[:, count - 1]
    tied = (edge == values[:, count]) & edge.isfinite()
    values, pieces = values[:, :count], pieces[:, :count]
    if bool(tied.any()):  # which of the equals topk takes is its own affair: take the lowest
        values, pieces = values.clone(), pieces.clone()
        rows = log_probabilities[tied]
        values[tied], pieces[tied] = _in_order(rows, _lowest(rows, edge[tied].unsqueeze(1), count))
    return values, pieces


def _lowest(
    rows: Float32[Tensor, "rows vocabulary"], edge: Float32[Tensor, "rows 1"], count: int
) -> Int[Tensor, "rows count"]:
    """All pieces likelier than the edge, then the lowest of those that lie on it."""
    place = -torch.arange(rows.shape[1], device=rows.device)
    key = torch.where(rows == edge, place, torch.where(rows > edge, 1, -rows.shape[1]))
    key[:, [PAD, BOS]] = -rows.shape[1]
    return key.topk(count, dim=1).indices


def _in_order(
    log_probabilities: Float32[Tensor, "rows vocabulary"], pieces: Int[Tensor, "rows chosen"]
) -> tuple[Float32[Tensor, "rows chosen"], Int[Tensor, "rows chosen"]]:
    pieces = pieces.sort(dim=1).values
    values = log_probabilities.gather(1, pieces)
    values = values.masked_fill((pieces == PAD) | (pieces == BOS), -torch.inf)
    values, order = best(values, values.shape[1])
    return values, pieces.gather(1, order)

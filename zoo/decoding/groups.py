"""Sentences of about the same length together, so that little of a batch is padding."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from specs import PAD

SHORTEST = 16
"""A shorter sentence takes as much room as this: its translation and the vocabulary's logits need it."""


def groups(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indices of sentences, longest first, such that rows * longest <= `tokens`; a longer one goes alone."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    made: list[list[int]] = []
    room = 0
    for index in order:
        if room == 0:
            made.append([])
            room = max(1, tokens // max(lengths[index], SHORTEST))
        made[-1].append(index)
        room -= 1
    return made


def padded(rows: Sequence[Sequence[int]], device: torch.device | str) -> Int[Tensor, "rows longest"]:
    """One tensor of rows of different length, filled up with PAD."""
    width = max(map(len, rows))
    filled = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long, device=device)

"""Sentences of about the same length together, so that little of a batch is padding."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from specs import PAD

SHORTEST = 16
"""A shorter sentence takes as much room as this: its translation and the vocabulary's logits need it."""


def room(longest: int, tokens: int) -> int:
    """How many sentences go together, such that rows * longest <= `tokens`; a longer one goes alone."""
    return max(1, tokens // max(longest, SHORTEST))


def groups(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Indices of sentences, longest first, that go together."""
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    made: list[list[int]] = []
    free = 0
    for index in order:
        if free == 0:
            made.append([])
            free = room(lengths[index], tokens)
        made[-1].append(index)
        free -= 1
    return made


def padded(rows: Sequence[Sequence[int]], device: torch.device | str) -> Int[Tensor, "rows longest"]:
    """One tensor of rows of different length, filled up with PAD."""
    width = max(map(len, rows))
    filled = [[*row, *[PAD] * (width - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long, device=device)

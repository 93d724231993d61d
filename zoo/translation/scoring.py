"""The probability of given translations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compiler.program import Scoring
from zoo.report import Progress
from zoo.search.groups import groups, padded
from zoo.translation.translation import ForcedScore


@torch.no_grad()
def forced(
    program: Scoring,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    tokens: int,
    device: torch.device,
    progress: Progress,
) -> list[ForcedScore]:
    """Of each source (with EOS) and target (from BOS to EOS), in batches of so many tokens."""
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    found = [ForcedScore(())] * len(lengths)
    for group in groups(lengths, tokens):
        given = padded([targets[index] for index in group], device)
        scores = program.score(padded([sources[index] for index in group], device), given)
        for index, row in zip(group, scores.tolist(), strict=True):
            found[index] = ForcedScore(tuple(row[: len(targets[index]) - 1]))
        progress.advance(len(group))
    return found

"""The probability of given translations."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from compiler.program import Scoring
from specs import ZooError
from zoo.generation.groups import groups, padded
from zoo.generation.translation import ForcedScore
from zoo.report import Progress
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory


@torch.no_grad()
def forced(
    program: Scoring,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    tokens: int,
    device: torch.device,
    progress: Progress,
    first: int = 1,
) -> list[ForcedScore]:
    """Of each source (with EOS) and target (from BOS to EOS), in batches of so many tokens.

    `first` is the number of the first pair in errors. Raises ZooError where the memory does not suffice for one of them
    alone.
    """
    lengths = [max(map(len, pair)) for pair in zip(sources, targets, strict=True)]
    found = [ForcedScore(())] * len(lengths)
    for group in groups(lengths, tokens):
        rows = _rows(program, sources, targets, group, device, first)
        for index, row in zip(group, rows, strict=True):
            found[index] = ForcedScore(tuple(row[: len(targets[index]) - 1]))
        progress.advance(len(group))
    return found


def _rows(
    program: Scoring,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    group: Sequence[int],
    device: torch.device,
    first: int,
) -> list[list[float]]:
    """Those of a batch; of its halves, where the memory does not suffice for the whole."""
    try:
        given = padded([targets[index] for index in group], device)
        found: list[list[float]] = program.score(padded([sources[index] for index in group], device), given).tolist()
        return found
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
    if len(group) > 1:
        middle = len(group) // 2
        parts = (group[:middle], group[middle:])
        return [row for part in parts for row in _rows(program, sources, targets, part, device, first)]
    lengths = len(sources[group[0]]) - 1, len(targets[group[0]]) - 2
    raise ZooError(
        f"there is not enough memory to score pair {group[0] + first:,} alone: {lengths[0]:,} tokens of source and "
        f"{lengths[1]:,} of target",
        hint="a sentence a line: break it where its sentences end",
        exit_code=1,
    )

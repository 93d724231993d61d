"""Batched beam search with an admissible stop (paper, section 6.1). Greedy search is a beam of one."""

import math
from collections.abc import Sequence
from typing import cast

import torch
from jaxtyping import Int
from torch import Tensor

from specs import BOS, ZooError
from zoo.decoding.frontier import Frontier
from zoo.decoding.hypothesis import Hypothesis
from zoo.decoding.steps import State, Steps


@torch.no_grad()
def search(
    program: Steps[State],
    source: Int[Tensor, "rows source"],
    limits: Sequence[int],
    *,
    beam: int,
    alpha: float,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """The `n_best` best hypotheses found for each row of the source, best first.

    `beam` hypotheses of a sentence live at a time. Each step takes the 2 * beam likeliest continuations:
    those that end are finished and ranked by their score, the first `beam` of the others live on. (A beam of
    one takes the likeliest alone, and so is greedy search.) A sentence is left when no live hypothesis can
    still win. `limits` says how many pieces, EOS not counted, a
    translation of each row may have; there it has to end. BOS and PAD are never produced. What is found for
    a row depends on no other row, ties included. Fewer than `n_best` come back only where no more were met.

    Raises ZooError for a beam, alpha or n_best out of range, and for a program whose probabilities are not
    usable.
    """
    check(beam, alpha, n_best)
    if len(limits) != source.shape[0] or any(limit < 0 for limit in limits):
        raise ValueError(f"{len(limits)} limits for {source.shape[0]} sources: one each is needed, 0 or more")
    found: list[list[Hypothesis]] = [[] for _ in limits]
    if not found:
        return found
    state = program.encode(source)
    frontier = Frontier(limits, beam=beam, alpha=alpha, n_best=n_best, device=source.device)
    token = torch.full((len(limits),), BOS, dtype=torch.long, device=source.device)
    while True:
        log_probabilities, state = program.decode_step(state, token)
        parents, done = frontier.advance(log_probabilities.float())
        moved = _moved(parents, token.shape[0])
        *ended, changed = cast("list[bool]", torch.cat([done, moved]).tolist())  # all that the host waits for
        if any(ended):
            for sentence, hypotheses in frontier.finished(ended):
                found[sentence] = _usable(hypotheses)
            if all(ended):
                return found
            parents = frontier.leave(parents, ended)
        if changed or any(ended):
            rows = parents.flatten()
            same = rows.shape[0] == token.shape[0] and not any(ended)
            state = program.select(state, rows, within_sentences=same)
        token = frontier.token()


def check(beam: int, alpha: float, n_best: int) -> None:
    """Raises ZooError unless 1 <= n_best <= beam and alpha is a number from 0 to 10."""
    for name, value in (("beam", beam), ("n_best", n_best)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ZooError(f"`{name}` is {value!r}: it must be a whole number of at least 1")
    if n_best > beam:
        raise ZooError(
            f"`n_best` is {n_best}, but a beam of {beam} finds only {beam}",
            hint=f"widen the beam to {n_best}, or ask for {beam} at most",
        )
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= 10:
        raise ZooError(f"`alpha` is {alpha!r}: it must be a number from 0 to 10")


def _moved(parents: Int[Tensor, "sentences live"], rows: int) -> Tensor:
    """Whether the state has to be rearranged: a copy of the whole cache, so not without need."""
    flat = parents.flatten()
    if flat.shape[0] != rows:
        return torch.ones(1, dtype=torch.bool, device=parents.device)
    return (flat != torch.arange(rows, device=parents.device)).any().unsqueeze(0)


def _usable(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    if not hypotheses or any(math.isnan(hypothesis.score) for hypothesis in hypotheses):
        raise ZooError(
            "the model's log-probabilities are not usable numbers (nan or -inf)",
            hint="`zoo verify NAME` checks a published model; a training may have diverged",
            exit_code=1,
        )
    return hypotheses

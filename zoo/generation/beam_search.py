"""Beam search (paper, section 6.1). A beam of size 1 is greedy search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor
from torch.nn.functional import pad

from compiler.program import State, StepwiseDecoder, TopK
from specs import EOS
from zoo.generation.batching import Source
from zoo.generation.constraints import Constraint
from zoo.generation.hypotheses import LengthPenalty, SearchHistory, Selection, length_penalty

StoppingRule = Literal["admissible", "shrinking", "full"]


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """Beam search with `size` live (unfinished) hypotheses per sentence. It returns the `n_best` finished ones.

    Each step takes the 2 * `size` most probable continuations, or 1 if the size is 1. Those that end with EOS are
    finished, and ranked by score. The first `size` of the others are the new live hypotheses. There are three stopping
    rules:

    - "admissible": the search ends when no live hypothesis can still become one of the `n_best`.
    - "full": the search ends when `size` hypotheses have finished, as in fairseq and CTranslate2. Only the first `size`
      continuations of a step may finish.
    - "shrinking": each finished hypothesis reduces the beam size by one, as in Marian. Each step takes as many
      continuations as there are live hypotheses. Live hypotheses are cut off at the maximum length.
    """

    size: int
    alpha: float
    n_best: int = 1
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    stopping_rule: StoppingRule = "admissible"

    @property
    def reorders_rows(self) -> bool:
        """Whether a hypothesis may continue a hypothesis that was in a different row of the same sentence."""
        return self.size > 1

    @property
    def candidates(self) -> int:
        """The number of continuations per sentence that a step takes."""
        return self.size if self.size == 1 or self.stopping_rule == "shrinking" else 2 * self.size

    def new_history(self, source: Source) -> SearchHistory:
        """Return an empty search history for a sentence."""
        return SearchHistory(
            source,
            self.n_best,
            partial(length_penalty, alpha=self.alpha, kind=self.length_penalty),
            ranked=True,
            max_finished=self.size if self.stopping_rule == "full" else None,
            truncate=self.stopping_rule == "shrinking",
        )

    def step(
        self,
        program: StepwiseDecoder[State],
        state: State,
        token: Int[Tensor, " rows"],
        totals: Float32[Tensor, "sentences rows"],
        histories: Sequence[SearchHistory],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> tuple[Selection, State]:
        """Run one decoding step. Return the selected candidates of each sentence, and the new decoder state."""
        continuations, state = program.top_k(state, token.unsqueeze(1), self.candidates, allowed)
        return self.select(continuations, totals, [history.must_end for history in histories]), state

    def select(
        self, continuations: TopK, totals: Float32[Tensor, "sentences rows"], must_end: Sequence[bool]
    ) -> Selection:
        """Return the best candidates of each sentence. A candidate is a row (a hypothesis) with one more token.

        A sentence's result is independent of the other sentences. Candidates with equal log-probabilities are ordered
        by row, then by the probability of the new token, then by its ID.

        Args:
            continuations: The most probable next tokens of each row.
            totals: Log-probability of each row so far.
            must_end: For each sentence, whether EOS is the only possible next token.
        """
        sentences, rows = totals.shape
        if any(must_end):
            continuations = _force_end(continuations, must_end, rows)
        width = continuations.values.shape[1]
        new_totals = totals.unsqueeze(2) + continuations.values.view(sentences, rows, width)
        new_totals = new_totals.view(sentences, rows * width)
        tokens = continuations.tokens.reshape(sentences, rows * width)
        if (missing := self.candidates - rows * width) > 0:  # the vocabulary is very small
            new_totals, tokens = pad(new_totals, (0, missing), value=-torch.inf), pad(tokens, (0, missing), value=EOS)
        new_totals, order = _stable_top(new_totals, self.candidates)
        tokens = tokens.gather(1, order)
        ranks = torch.arange(self.candidates, device=new_totals.device)
        if self.stopping_rule == "full":
            new_totals = new_totals.masked_fill((ranks >= self.size) & (tokens == EOS), -torch.inf)
        elif self.stopping_rule == "shrinking" and rows == self.size:
            new_totals = new_totals.masked_fill(ranks >= totals.isfinite().sum(1, keepdim=True), -torch.inf)
        live_totals, live = _stable_top(new_totals.masked_fill(tokens == EOS, -torch.inf), self.size)
        return Selection(new_totals, (order // width).clamp_(max=rows - 1), tokens, live, live_totals)


def _force_end(continuations: TopK, must_end: Sequence[bool], rows: int) -> TopK:
    """Return the continuations, with EOS as the only one for sentences that must end."""
    device = continuations.values.device
    flags = torch.tensor(must_end).to(device, non_blocking=True).repeat_interleave(rows).unsqueeze(1)
    only_end = torch.full_like(continuations.values, -torch.inf)
    only_end[:, 0] = continuations.ends
    return TopK(
        torch.where(flags, only_end, continuations.values),
        torch.where(flags, EOS, continuations.tokens),
        continuations.ends,
    )


def _stable_top(
    values: Float32[Tensor, "sentences items"], count: int
) -> tuple[Float32[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """Return the `count` largest values of each row and their indices. Equal values are ordered by index."""
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count], order[:, :count]

"""Beam search's choice: the top_k continuations of each sentence (paper, section 6.1). A beam of one is greedy."""

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
from zoo.generation.chooser import Chosen
from zoo.generation.constraint import Constraint
from zoo.generation.history import History
from zoo.generation.hypothesis import LengthPenalty, length_penalty
from zoo.generation.source import Source

StoppingRule = Literal["admissible", "shrinking", "full"]


@dataclass(frozen=True, slots=True)
class Beam:
    """`size` hypotheses of a sentence live at a time, top_k first; `n_best` of those that ended are wanted.

    A step takes the 2 * `size` top_k continuations: those that end are ranked by their score, the first `size` of
    the others live on. (A beam of one takes the top_k alone.) In one that is `full` only the first `size` of all
    may end, and the search is over when `size` have ended. So fairseq and CTranslate2 search. One that is `shrinking`
    takes as many as live, at first `size`, so that each that ends leaves it one narrower; what lives at the limit is
    cut off. So Marian searches.
    """

    size: int
    alpha: float
    n_best: int = 1
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    stopping_rule: StoppingRule = "admissible"

    @property
    def moves(self) -> bool:
        return self.size > 1

    @property
    def candidates(self) -> int:
        return self.size if self.size == 1 or self.stopping_rule == "shrinking" else 2 * self.size

    def history(self, source: Source) -> History:
        penalty = partial(length_penalty, alpha=self.alpha, kind=self.length_penalty)
        enough = self.size if self.stopping_rule == "full" else None
        return History(source, self.n_best, penalty, ranked=True, enough=enough, cut=self.stopping_rule == "shrinking")

    def step(
        self,
        program: StepwiseDecoder[State],
        state: State,
        token: Int[Tensor, " rows"],
        totals: Float32[Tensor, "sentences rows"],
        histories: Sequence[History],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> tuple[Chosen, State]:
        found, state = program.top_k(state, token, self.candidates, allowed)
        return self.choose(found, totals, [history.must_end for history in histories]), state

    def choose(self, found: TopK, totals: Float32[Tensor, "sentences rows"], must_end: Sequence[bool]) -> Chosen:
        """Among equal totals the lower parent comes first, then the likelier token, then the lower one.

        At most EOS is possible where a sentence `must_end`; no other sentence has a say.
        """
        sentences, rows = totals.shape
        if any(must_end):
            found = _ended(found, must_end, rows)
        width = found.values.shape[1]
        reached = (totals.unsqueeze(2) + found.values.view(sentences, rows, width)).view(sentences, rows * width)
        tokens = found.tokens.reshape(sentences, rows * width)
        if (missing := self.candidates - rows * width) > 0:  # a vocabulary of a few tokens
            reached, tokens = pad(reached, (0, missing), value=-torch.inf), pad(tokens, (0, missing), value=EOS)
        reached, order = _best(reached, self.candidates)
        tokens = tokens.gather(1, order)
        places = torch.arange(self.candidates, device=reached.device)
        if self.stopping_rule == "full":
            reached = reached.masked_fill((places >= self.size) & (tokens == EOS), -torch.inf)
        elif self.stopping_rule == "shrinking" and rows == self.size:
            reached = reached.masked_fill(places >= totals.isfinite().sum(1, keepdim=True), -torch.inf)
        live_totals, live = _best(reached.masked_fill(tokens == EOS, -torch.inf), self.size)
        return Chosen(reached, (order // width).clamp_(max=rows - 1), tokens, live, live_totals)


def _ended(found: TopK, must_end: Sequence[bool], rows: int) -> TopK:
    """With nothing but EOS where a sentence must end."""
    flags = torch.tensor(must_end).to(found.values.device, non_blocking=True).repeat_interleave(rows).unsqueeze(1)
    only = torch.full_like(found.values, -torch.inf)
    only[:, 0] = found.ends
    return TopK(torch.where(flags, only, found.values), torch.where(flags, EOS, found.tokens), found.ends)


def _best(
    values: Float32[Tensor, "sentences items"], count: int
) -> tuple[Float32[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """The `count` greatest of each row and their places; among equals the lower place comes first."""
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count], order[:, :count]

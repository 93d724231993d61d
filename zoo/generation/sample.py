"""Sampling: tokens drawn from the model's distribution, or from the likelier part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import torch
from jaxtyping import Bool, Float32, Float64, Int
from torch import Tensor

from compiler.program import State, StepwiseDecoder, top_k
from compiler.seeds import stream
from specs import BOS, EOS, PAD
from zoo.generation.chooser import Chosen
from zoo.generation.constraint import Constraint
from zoo.generation.history import History
from zoo.generation.hypothesis import LengthPenalty, length_penalty
from zoo.generation.source import Source


@dataclass(frozen=True, slots=True)
class Sample:
    """`count` translations of a sentence, each drawn by itself.

    The probabilities of a step are softmax(log-probabilities / temperature), of the `top_k` top_k tokens if it is
    not 0, and of these the fewest top_k that together reach `top_p`. Each translation has a stream of random
    numbers of its own, so that it depends on no other one and on no other sentence. The length penalty only scores.
    What the constraint bars has no share.
    """

    count: int
    alpha: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"

    @property
    def moves(self) -> bool:
        return False

    def history(self, source: Source) -> History:
        text = (source.line, source.part) if source.part else (source.line,)
        streams = tuple(Random(stream(self.seed, "sample", *text, number)) for number in range(self.count))
        penalty = partial(length_penalty, alpha=self.alpha, kind=self.length_penalty)
        return History(source, self.count, penalty, ranked=False, streams=streams)

    def step(
        self,
        program: StepwiseDecoder[State],
        state: State,
        token: Int[Tensor, " rows"],
        totals: Float32[Tensor, "sentences rows"],
        histories: Sequence[History],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> tuple[Chosen, State]:
        log_probabilities, state = program.decode_step(state, token)
        if totals.shape[1] < self.count:  # the first of all tokens
            log_probabilities = log_probabilities.repeat_interleave(self.count, 0)
            totals = totals.expand(-1, self.count)
            if allowed is not None:
                allowed = allowed.expand(len(token), -1).repeat_interleave(self.count, 0)
        numbers = [[each.random() for each in history.streams] for history in histories]
        uniform = torch.tensor(numbers, dtype=torch.float64).to(token.device, non_blocking=True)
        must_end = torch.tensor([history.must_end for history in histories]).to(token.device, non_blocking=True)
        drawn = self.drawn(log_probabilities, uniform.flatten(), allowed)
        return self.choose(log_probabilities, totals, drawn, must_end, first=len(token) == len(histories)), state

    def choose(
        self,
        log_probabilities: Float32[Tensor, "rows V"],
        totals: Float32[Tensor, "sentences count"],
        drawn: Int[Tensor, " rows"],
        must_end: Bool[Tensor, " sentences"],
        *,
        first: bool,
    ) -> Chosen:
        """Row j goes on from row j, or at `first` from the only one there is."""
        tokens = torch.where(must_end.unsqueeze(1), EOS, drawn.view(totals.shape))
        reached = totals + log_probabilities.gather(1, tokens.view(-1, 1)).view(totals.shape)
        rows = torch.arange(self.count, device=tokens.device).expand(totals.shape)
        live_totals = reached.masked_fill(tokens == EOS, -torch.inf)
        return Chosen(reached, rows * (not first), tokens, rows, live_totals)

    def drawn(
        self,
        log_probabilities: Float32[Tensor, "rows V"],
        uniform: Float64[Tensor, " rows"],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> Int[Tensor, " rows"]:
        """The token of each row at which its cumulative distribution passes a number from [0, 1)."""
        if self.top_k or self.top_p < 1:
            values, tokens, _ = top_k(log_probabilities, self.top_k or log_probabilities.shape[1], allowed)
        else:
            tokens = None
            values = log_probabilities.clone() if allowed is None else log_probabilities.where(allowed, -torch.inf)
            for token in (PAD, BOS):  # not both by one index, which a GPU would wait for
                values[:, token] = -torch.inf
        weights = ((values - values.amax(1, keepdim=True)).double() / self.temperature).softmax(1)
        if self.top_p < 1:
            weights = weights * (weights.cumsum(1) - weights < self.top_p)
        reached = weights.cumsum(1)
        place = torch.searchsorted(reached, uniform.unsqueeze(1) * reached[:, -1:], right=True)
        place = place.clamp(max=values.shape[1] - 1)
        return (place if tokens is None else tokens.gather(1, place)).squeeze(1)

"""Sampling: draw each token at random from all tokens, or only from the most probable tokens."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from compiler.lazy import decoder, torch
from compiler.program import State, StepwiseDecoder
from compiler.seeds import stream
from specs import BOS, EOS, PAD
from zoo.generation.constraints import Constraint
from zoo.generation.hypotheses import LengthPenalty, SearchHistory, Selection
from zoo.generation.translation import SearchInput
from zoo.models.shortlist import Shortlist

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Float64, Int
    from torch import Tensor

    from zoo.generation.batch import Batch


@dataclass(frozen=True, slots=True)
class Sampling:
    """Search strategy that samples `n_best` independent translations per sentence.

    Tokens are drawn from softmax(log-probabilities / temperature). This distribution is restricted to the `top_k` most
    probable tokens (0: all tokens), and then to the smallest set of most probable tokens whose total probability is at
    least `top_p`. Forbidden tokens have probability 0. The length penalty only affects the reported scores.

    Each translation has its own random number generator, whose seed depends on `seed`, the sentence's index and the
    number of the translation. A translation therefore does not depend on other translations or sentences.
    """

    n_best: int
    alpha: float
    temperature: float
    top_k: int
    top_p: float
    seed: int
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    shortlist: Shortlist | None = None

    stopping_rule = None
    """There is no stopping rule: the search ends when all translations are finished. They are not ranked."""
    reorders_rows = False
    """Whether a row may continue a hypothesis in a different row."""

    @property
    def rows(self) -> int:
        """The number of rows (hypotheses) that a sentence needs."""
        return self.n_best

    @property
    def batch_key(self) -> Hashable:
        """The batch key. Sentences with the same key can share a batch, even with different seeds."""
        return Sampling, self.n_best, self.temperature, self.top_k, self.top_p, self.constraint, self.shortlist

    def searcher(self, program: StepwiseDecoder[State], rows: int) -> None:
        """Return None, because compiled models have no search that samples (see `BeamSearch.searcher`)."""

    def new_history(self, source: SearchInput) -> SearchHistory:
        """Return an empty search history for a sentence, with one random number generator per sample."""
        position = (source.index, source.part) if source.part else (source.index,)
        streams = tuple(Random(stream(self.seed, "sample", *position, number)) for number in range(self.n_best))
        return SearchHistory(source, self, streams)

    def step(self, batch: Batch[State], allowed: Bool[Tensor, "#rows V"] | None, rows: int) -> tuple[Selection, State]:
        """Run one decoding step: draw a token for each row, or choose EOS if the row's sentence must end.

        Return the selection and the new decoder state.
        """
        token, totals, histories = batch.token, batch.totals, batch.histories
        log_probabilities, state = batch.program.advance(batch.state, token.unsqueeze(1))
        log_probabilities = log_probabilities[:, 0]
        if totals.shape[1] < self.n_best:  # the first step: one row per sentence becomes `n_best` rows
            log_probabilities = log_probabilities.repeat_interleave(self.n_best, 0)
            totals = totals.expand(-1, self.n_best)
            if allowed is not None:
                allowed = allowed.expand(len(token), -1).repeat_interleave(self.n_best, 0)
        numbers = [[generator.random() for generator in history.random_streams] for history in histories]
        uniform = torch.tensor(numbers, dtype=torch.float64).to(token.device, non_blocking=True)
        must_end = torch.tensor([history.must_end for history in histories]).to(token.device, non_blocking=True)
        drawn = self.draw(log_probabilities, uniform.flatten(), allowed)
        tokens = torch.where(must_end.unsqueeze(1), EOS, drawn.view(totals.shape))
        new_totals = totals + log_probabilities.gather(1, tokens.view(-1, 1)).view(totals.shape)
        # Row j continues row j of the previous step. In the first step, all rows continue the only row of the sentence.
        live = torch.arange(self.n_best, device=tokens.device).expand(totals.shape)
        parents = live * (len(token) != len(histories))
        return Selection(new_totals, parents, tokens, live, new_totals.masked_fill(tokens == EOS, -torch.inf)), state

    def draw(
        self,
        log_probabilities: Float32[Tensor, "rows V"],
        uniform: Float64[Tensor, " rows"],
        allowed: Bool[Tensor, "#rows V"] | None = None,
    ) -> Int[Tensor, " rows"]:
        """Draw one token per row by inverse transform sampling.

        Args:
            log_probabilities: The model's natural log-probabilities of the next token.
            uniform: One random number from [0, 1) per row.
            allowed: Mask of the tokens that may be drawn. If None, allow all tokens except PAD and BOS.
        """
        if self.top_k or self.top_p < 1:
            values, tokens, _ = decoder.top_k(log_probabilities, self.top_k or log_probabilities.shape[1], allowed)
        else:
            tokens = None
            values = log_probabilities.clone() if allowed is None else log_probabilities.where(allowed, -torch.inf)
            for token in (PAD, BOS):  # one after the other, because indexing with a list would synchronise a GPU
                values[:, token] = -torch.inf
        weights = ((values - values.amax(1, keepdim=True)).double() / self.temperature).softmax(1)
        if self.top_p < 1:
            weights = weights * (weights.cumsum(1) - weights < self.top_p)
        cumulative = weights.cumsum(1)
        position = torch.searchsorted(cumulative, uniform.unsqueeze(1) * cumulative[:, -1:], right=True)
        position = position.clamp(max=values.shape[1] - 1)
        return (position if tokens is None else tokens.gather(1, position)).squeeze(1)

"""Beam search (paper, section 6.1). A beam of size 1 is greedy search."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, cast

from compiler.lazy import torch
from compiler.program import SearchingDecoder, SearchingProgram, State, StepwiseDecoder, TopK
from specs import EOS
from zoo.generation.constraints import BracketConstraint, Constraint, SuppressedTokens
from zoo.generation.hypotheses import LengthPenalty, SearchHistory, Selection
from zoo.generation.translation import SearchInput
from zoo.models.shortlist import Shortlist

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int
    from torch import Tensor

    from zoo.generation.batch import Batch

StoppingRule = Literal["admissible", "shrinking", "full"]

_SHARED_SIZE = 8
"""Beams up to this size share a batch. Larger beams share a batch if they round up to the same power of two.

In a shared batch, each sentence has as many rows as the largest beam. Surplus rows are computed, but not used.
"""


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """Beam search with `size` live (unfinished) hypotheses per sentence. It returns the `n_best` finished hypotheses.

    Each step takes the 2 * `size` most probable continuations, or only the best one if `size` is 1. Continuations that
    end with EOS are finished hypotheses, which are ranked by score. The `size` most probable other continuations are
    the live hypotheses of the next step. There are three stopping rules:

    - "admissible": the search ends when no live hypothesis can still become one of the `n_best`.
    - "full": the search ends when `size` hypotheses have finished, as in fairseq and CTranslate2. Only the `size`
      most probable continuations of a step may finish.
    - "shrinking": each finished hypothesis reduces the beam size by one, as in Marian. Each step takes as many
      continuations as there are live hypotheses. Hypotheses that are still live one token after the maximum length are
      cut off there, without EOS.

    With a `shortlist`, a translation may only contain the tokens that the shortlist lists for its source.
    """

    size: int
    alpha: float
    n_best: int = 1
    constraint: Constraint | None = None
    length_penalty: LengthPenalty = "gnmt"
    stopping_rule: StoppingRule = "admissible"
    shortlist: Shortlist | None = None

    reorders_rows = True
    """Whether a row may continue a hypothesis in a different row."""

    @property
    def rows(self) -> int:
        """The number of rows (hypotheses) that a sentence needs."""
        return self.size

    @property
    def batch_key(self) -> Hashable:
        """The batch key. Sentences with the same key can share a batch."""
        size = max(_SHARED_SIZE, 1 << (self.size - 1).bit_length())
        return BeamSearch, size, self.constraint, self.shortlist

    @property
    def candidates(self) -> int:
        """The number of continuations that each step takes per sentence."""
        return self.size if self.size == 1 or self.stopping_rule == "shrinking" else 2 * self.size

    @property
    def suppressed(self) -> SuppressedTokens | None:
        """The constraint if it is a `SuppressedTokens` without an inner constraint, otherwise None."""
        rule = self.constraint
        return rule if isinstance(rule, SuppressedTokens) and rule.inner is None else None

    @property
    def trees(self) -> BracketConstraint | None:
        """The constraint if it is a `BracketConstraint`, otherwise None."""
        return self.constraint if isinstance(self.constraint, BracketConstraint) else None

    def searcher(self, program: StepwiseDecoder[State], beam: int) -> SearchingDecoder[State] | None:
        """Return the compiled model's own beam search if it supports this strategy, otherwise None.

        Args:
            program: The compiled model.
            beam: The largest beam size in the batch.
        """
        if not (self.constraint is None or self.suppressed or self.trees):
            return None
        searcher = program.searcher if isinstance(program, SearchingProgram) else None
        required = {"trees": self.trees is not None, "shortlist": self.shortlist is not None}
        return searcher if searcher is not None and searcher.can_search(beam, **required) else None

    def new_history(self, source: SearchInput) -> SearchHistory:
        """Return an empty search history for a sentence."""
        return SearchHistory(source, self)

    def step(self, batch: Batch[State], allowed: Bool[Tensor, "#rows V"] | None, rows: int) -> tuple[Selection, State]:
        """Run one decoding step. Return the selected candidates for each sentence, and the new decoder state.

        A candidate is a row (a hypothesis) with one more token. A sentence's result is independent of the other
        sentences. Candidates with equal log-probabilities are ordered by row, then by the probability of the new token,
        then by its ID.

        Args:
            batch: The batch. Do not use its decoder state afterwards. The strategies of the sentences may differ, but
                must have the same batch key.
            allowed: Mask of the tokens that the constraint allows. If None, allow all tokens.
            rows: Number of rows per sentence after the step, at least the largest `rows` of the strategies.
        """
        beams, totals = [cast(Self, history.strategy) for history in batch.histories], batch.totals
        limits, size, candidates = None, self.size, self.candidates
        if {(beam.size, beam.stopping_rule) for beam in beams} != {(rows, self.stopping_rule)}:
            limits = _Limits.of(beams, totals.device)
            size, candidates = rows, max(beam.candidates for beam in beams)
        continuations, state = batch.program.top_k(batch.state, batch.token.unsqueeze(1), candidates, allowed)
        sentences, rows_before = totals.shape
        must_end = [history.must_end for history in batch.histories]
        if any(must_end):
            continuations = _force_end(continuations, must_end, rows_before)
        width = continuations.values.shape[1]
        new_totals = totals.unsqueeze(2) + continuations.values.view(sentences, rows_before, width)
        new_totals = new_totals.view(sentences, rows_before * width)
        tokens = continuations.tokens.reshape(sentences, rows_before * width)
        candidates = max(candidates, rows)
        if (missing := candidates - rows_before * width) > 0:  # the vocabulary is very small, or a beam is larger
            pad = torch.nn.functional.pad
            new_totals, tokens = pad(new_totals, (0, missing), value=-torch.inf), pad(tokens, (0, missing), value=EOS)
        new_totals, order = _stable_top(new_totals, candidates)
        tokens = tokens.gather(1, order)
        ranks = torch.arange(candidates, device=new_totals.device)
        if limits:
            new_totals = limits.mask(new_totals, tokens, totals)
        elif self.stopping_rule == "full":
            new_totals = new_totals.masked_fill((ranks >= size) & (tokens == EOS), -torch.inf)
        elif self.stopping_rule == "shrinking" and rows_before == size:
            new_totals = new_totals.masked_fill(ranks >= totals.isfinite().sum(1, keepdim=True), -torch.inf)
        live_totals, live = _stable_top(new_totals.masked_fill(tokens == EOS, -torch.inf), size)
        if limits:
            live_totals = live_totals.masked_fill(ranks[:size] >= limits.sizes, -torch.inf)
        return Selection(new_totals, (order // width).clamp_(max=rows_before - 1), tokens, live, live_totals), state


class _Limits(NamedTuple):
    """Limits on the candidates for each sentence, for batches whose sentences differ in beam size or stopping rule."""

    sizes: Int[Tensor, "sentences 1"]
    """Beam size. A smaller beam does not use all rows of the batch. Unused rows have the total -inf."""
    max_candidates: Int[Tensor, "sentences 1"]
    max_ending: Int[Tensor, "sentences 1"]
    """Number of candidates that may end with EOS: the beam size for the rule "full", otherwise all candidates."""
    shrinking: Bool[Tensor, "sentences 1"]

    @classmethod
    def of(cls, beams: Sequence[BeamSearch], device: torch.device) -> Self:
        """Return the limits on the candidates in a batch, given the beam search for each sentence."""
        values = []
        for beam in beams:
            max_ending = beam.size if beam.stopping_rule == "full" else beam.candidates
            values.append([beam.size, beam.candidates, max_ending, beam.stopping_rule == "shrinking"])
        columns = torch.tensor(values).to(device, non_blocking=True).unsqueeze(2).unbind(1)
        sizes, candidates, ending, shrinking = columns
        return cls(sizes, candidates, ending, shrinking.bool())

    def mask(
        self,
        new_totals: Float32[Tensor, "sentences candidates"],
        tokens: Int[Tensor, "sentences candidates"],
        totals: Float32[Tensor, "sentences rows"],
    ) -> Float32[Tensor, "sentences candidates"]:
        """Return `new_totals` with -inf for each candidate that exceeds the limits of its sentence."""
        ranks = torch.arange(tokens.shape[1], device=tokens.device)
        excluded = (ranks >= self.max_candidates) | ((ranks >= self.max_ending) & (tokens == EOS))
        if totals.shape[1] > 1:
            excluded |= self.shrinking & (ranks >= totals.isfinite().sum(1, keepdim=True))
        return new_totals.masked_fill(excluded, -torch.inf)


def _force_end(continuations: TopK, must_end: Sequence[bool], rows: int) -> TopK:
    """Make EOS the only continuation of the sentences that must end."""
    device = continuations.values.device
    flags = torch.tensor(must_end).to(device, non_blocking=True).repeat_interleave(rows).unsqueeze(1)
    only_end = torch.full_like(continuations.values, -torch.inf)
    only_end[:, 0] = continuations.ends
    values, tokens = torch.where(flags, only_end, continuations.values), torch.where(flags, EOS, continuations.tokens)
    return TopK(values, tokens, continuations.ends)


def _stable_top(
    values: Float32[Tensor, "sentences items"], count: int
) -> tuple[Float32[Tensor, "sentences count"], Int[Tensor, "sentences count"]]:
    """Return the `count` largest values of each row and their indices. Equal values are ordered by index."""
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values[:, :count], order[:, :count]

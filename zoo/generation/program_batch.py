"""Batch whose beam search runs in the program, many steps per call, without tensor operations between the steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

import numpy as np

from compiler.program import BeamOptions, SearchingDecoder, State, StepwiseDecoder
from specs import EOS
from zoo.generation.batch import Batch, start_constraint
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.hypotheses import LengthPenalty, SearchHistory, StopReason, length_penalty
from zoo.generation.translation import Translation

if TYPE_CHECKING:
    import torch
    from jaxtyping import Bool, Int64

MAX_MICROSECONDS = 5000
"""Time after which a call of the program returns, so that other sentences can join and cancelled ones can leave.

Many steps of a small model fit into this time. If one step takes longer, each call runs one step.
"""


def start_batch(
    program: StepwiseDecoder[State], histories: Sequence[SearchHistory], device: torch.device | str
) -> RunningBatch:
    """Return a new batch. Its search runs in the program if the program and the strategy support this."""
    strategy = histories[0].strategy
    if strategy.runs_in_program:
        if _can_search(type(program)):
            return ProgramBatch(cast("SearchingDecoder[State]", program), histories)
        searcher, trees = getattr(program, "searcher", None), isinstance(strategy.constraint, BracketConstraint)
        beam = max(history.strategy.rows for history in histories)
        if searcher and searcher.can_search(beam, trees=trees, shortlist=strategy.shortlist is not None):
            return ProgramBatch(searcher, histories)
    return Batch.start(program, histories, device)


@cache
def _can_search(program_class: type) -> bool:
    return issubclass(program_class, SearchingDecoder)


class RunningBatch(Protocol):
    """Interface of `Batch` and `ProgramBatch` for the engine. All batches with one key have the same class."""

    histories: Sequence[SearchHistory]

    @property
    def rows(self) -> int:
        """The number of rows (hypotheses) per sentence."""

    def prepare_to_join(self, rows: int) -> list[SearchHistory]:
        """Prepare a new batch to `join` one with `rows` rows per sentence. Return the histories that are done."""

    def step(self, min_rows: int = 0) -> list[SearchHistory]:
        """Run one or more decoding steps. Return the histories of the sentences that are done."""

    def join(self, other: Any) -> RunningBatch:
        """Return a batch with the sentences of this batch, followed by the sentences of `other`."""

    def abandon(self) -> None:
        """End the search, because nobody waits for any of its sentences."""


class ProgramBatch(Generic[State]):
    """Batch of sentences whose beam search runs in the program. The results equal those of `Batch`, bit for bit.

    Sentences may have different beam sizes. Each has only as many rows as it has live hypotheses.
    """

    rows = 0
    """Batches can join whatever their numbers of rows."""

    def __init__(self, program: SearchingDecoder[State], histories: Sequence[SearchHistory]) -> None:
        """Encode the sentences, and let the decoder read their prefixes, which must have the same length."""
        self.program, self.histories = program, histories
        constraint = histories[0].strategy.constraint
        rule = constraint if isinstance(constraint, SuppressedTokens) else None
        self._allowed = None if rule is None else _allowed_tokens(rule)
        sources = [history.source for history in histories]
        if constraint is not None and sources[0].prefix:
            start_constraint(constraint, sources, "cpu")  # refuse prefixes that are not allowed
        self._state = program.start_search(
            [source.tokens for source in sources],
            [source.prefix for source in sources],
            [_options(history, rule) for history in histories],
            [_penalties(history) for history in histories],
            _shortlists(histories),
        )
        if isinstance(constraint, BracketConstraint):
            self._state = program.constrain(self._state, constraint.rules(sources))

    def prepare_to_join(self, rows: int) -> list[SearchHistory]:
        """Do nothing, because batches can join before their first step, whatever their numbers of rows."""
        return []

    def step(self, min_rows: int = 0) -> list[SearchHistory]:
        """Run steps until a quarter of the sentences are done or MAX_MICROSECONDS have passed.

        Returns:
            The histories of the sentences that are done.
        """
        kept = [number for number, history in enumerate(self.histories) if not history.done]
        if len(kept) < len(self.histories):  # the others were cancelled
            self.histories = [self.histories[number] for number in kept]
            self._state = self.program.keep(self._state, kept)
        results, self._state = self.program.search(self._state, MAX_MICROSECONDS, self._allowed)
        done = [self.histories[result.sentence] for result in results]
        for history, result in zip(done, results, strict=True):
            prefix = history.source.prefix
            found = [Translation("", score, total, (*prefix, *tokens)) for tokens, total, score in result.hypotheses]
            history.set_result(found, cast(StopReason, result.stop_reason))
        if done:
            self.histories = [history for history in self.histories if not history.done]
        return done

    def join(self, other: ProgramBatch[State]) -> ProgramBatch[State]:
        """Return a batch with the sentences of this batch, followed by the sentences of `other`."""
        self._state = self.program.join(self._state, other._state)
        self.histories = [*self.histories, *other.histories]
        return self

    def abandon(self) -> None:
        """End the search, and free its slots."""
        self._state = self.program.keep(self._state, [])


def _options(history: SearchHistory, rule: SuppressedTokens | None) -> BeamOptions:
    beam, source = cast(BeamSearch, history.strategy), history.source
    return BeamOptions(
        size=beam.size,
        candidates=beam.candidates,
        n_best=beam.n_best,
        full=beam.stopping_rule == "full",
        shrinking=beam.stopping_rule == "shrinking",
        min_length=min(rule.min_length, source.max_length) if rule else 0,
        max_length=source.max_length,
    )


def _shortlists(histories: Sequence[SearchHistory]) -> list[Int64[np.ndarray, " listed"]] | None:
    """Return the tokens that each sentence may choose. None: all tokens."""
    if (shortlist := histories[0].strategy.shortlist) is None:
        return None
    return [shortlist.tokens_of(history.source.tokens, history.source.prefix) for history in histories]


def _penalties(history: SearchHistory) -> tuple[float, ...]:
    """Return the length penalties that the search for a sentence needs, or more."""
    beam = cast(BeamSearch, history.strategy)
    return _penalty_table(beam.alpha, beam.length_penalty, 1 << (history.source.max_length + 1).bit_length())


@lru_cache(maxsize=256)
def _penalty_table(alpha: float, kind: LengthPenalty, count: int) -> tuple[float, ...]:
    """Return the penalties of all lengths below `count`. A hypothesis with EOS has at least one token."""
    return (0.0, *(length_penalty(length, alpha, kind) for length in range(1, count)))


@lru_cache(maxsize=16)
def _allowed_tokens(rule: SuppressedTokens) -> Bool[np.ndarray, "2 V"]:
    """Return the tokens that hypotheses may choose: those that are too short for EOS, and others."""
    allowed = np.ones((2, rule.vocabulary_size), bool)
    allowed[:, list(rule.tokens)] = False
    allowed[0, EOS] = False
    return allowed

"""Scores of hypotheses, the search history for a sentence, and the interface of search strategies."""

from __future__ import annotations

import math
from random import Random
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from specs import EOS, ZooError
from zoo.generation.translation import Hypothesis, SearchInput

if TYPE_CHECKING:
    from jaxtyping import Float32, Int, Int64
    from torch import Tensor

    from zoo.generation.beam_search import BeamSearch
    from zoo.generation.sampling import Sampling

LengthPenalty = Literal["gnmt", "power"]


def length_penalty(length: int, alpha: float, kind: LengthPenalty = "gnmt") -> float:
    """Return the length penalty. The score of a hypothesis is its log-probability divided by this penalty.

    Args:
        length: Number of tokens, including EOS.
        alpha: Strength of the penalty. 0 turns it off.
        kind: "gnmt" for ((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14), "power" for length ** alpha.
    """
    return float(length**alpha if kind == "power" else ((5 + length) / 6) ** alpha)


class Selection(NamedTuple):
    """Candidates (hypotheses with one more token) that a decoding step has selected for each sentence.

    Unused entries have the log-probability -inf.
    """

    totals: Float32[Tensor, "sentences candidates"]
    """Log-probability of each candidate, summed over all its tokens."""
    parents: Int[Tensor, "sentences candidates"]
    """For each candidate, the row (hypothesis) that it continues, counted within the sentence."""
    tokens: Int[Tensor, "sentences candidates"]
    """The token that each candidate adds."""
    live: Int[Tensor, "sentences rows"]
    """Indices of the candidates that become the rows of the next step."""
    live_totals: Float32[Tensor, "sentences rows"]
    """Log-probability of each row of the next step, or -inf if the row has ended."""


class StepRecord(NamedTuple):
    """Copy of a `Selection` on the host, without `live_totals`."""

    totals: Float32[np.ndarray, "sentences candidates"]
    parents: Int64[np.ndarray, "sentences candidates"]
    tokens: Int64[np.ndarray, "sentences candidates"]
    live: Int64[np.ndarray, "sentences rows"]


SearchStrategy: TypeAlias = "BeamSearch | Sampling"
"""Strategy that chooses the next tokens. Several workers can share one object."""

StopReason = Literal["exhausted", "decided", "full", "length", "cancelled"]
"""Reason why the search for a sentence has stopped: no live hypothesis is left, no live hypothesis can become one of
the `n_best`, the beam is full of finished hypotheses, the maximum length is reached, or the request was cancelled."""


class FinishedHypothesis(NamedTuple):
    """Finished hypothesis. Its tokens can be traced back from the step and the candidate that finished it."""

    score: float
    """Log-probability divided by the length penalty."""
    total: float
    """Log-probability of the hypothesis."""
    step: int
    """Index of the step that finished the hypothesis."""
    candidate: int
    """Index of the finished candidate in this step."""


class SearchHistory:
    """History of the search for one sentence, on the host: the candidates of each step, and the finished hypotheses.

    In beam search, only the `n_best` best finished hypotheses are kept. The search ends when no live (unfinished)
    hypothesis can still become one of them. With the stopping rule "full", it also ends when the number of
    finished hypotheses reaches the beam size. In sampling, all finished hypotheses are kept, in row order.

    When a hypothesis has reached the maximum length, the next token must be EOS. The stopping rule "shrinking" sets
    `truncate`: then, the next token may be any token, and the hypothesis ends with this token, as in Marian.
    """

    def __init__(self, source: SearchInput, strategy: SearchStrategy, random_streams: tuple[Random, ...] = ()) -> None:
        """Start the search history for a sentence.

        Args:
            source: The sentence.
            strategy: The strategy that chooses the tokens.
            random_streams: Random number generators, one per row, if the strategy samples.
        """
        self.source, self.strategy, self.random_streams = source, strategy, random_streams
        self.truncate = strategy.stopping_rule == "shrinking"
        self._is_ranked = strategy.stopping_rule is not None  # sampling has no stopping rule, and ranks nothing
        self.length = len(source.prefix)
        """Number of tokens so far, including tokens of steps that `add` has not recorded yet."""
        self.stop_reason: StopReason | None = None
        """Reason why the search has stopped. None while the recorded steps do not determine the result."""
        self.max_penalty = self._penalty(source.max_length + 1)
        """Length penalty of the longest possible hypothesis."""
        self._steps: list[tuple[StepRecord, int]] = []
        self._finished: list[FinishedHypothesis] = []
        self._result: list[Hypothesis] = []
        self._finished_count = 0  # including hypotheses that are not among the `n_best`

    @property
    def done(self) -> bool:
        """Whether the steps recorded so far determine the result."""
        return self.stop_reason is not None

    @property
    def must_end(self) -> bool:
        """Whether the next token must be EOS."""
        return not self.truncate and self.length == self.source.max_length

    @property
    def complete(self) -> bool:
        """Whether the sentence needs no further decoding step."""
        return self.done or self.length > self.source.max_length

    def add(self, record: StepRecord, sentence: int, best_live: float, has_ended: bool) -> None:
        """Record a decoding step.

        Args:
            record: The candidates of the step for all sentences in the batch.
            sentence: Index of this sentence in `record`.
            best_live: The highest log-probability of an unfinished hypothesis after the step.
            has_ended: Whether a candidate of this sentence has ended with EOS.
        """
        self._steps.append((record, sentence))
        length = len(self.source.prefix) + len(self._steps)
        last = length > self.source.max_length
        all_finish = last and self.truncate
        if has_ended or all_finish:
            totals, tokens = record.totals[sentence].tolist(), record.tokens[sentence].tolist()
            self._finish(totals, tokens, self._penalty(length), all_finish)
        reason = self._find_stop_reason(best_live) if self._finished else None
        self.stop_reason = reason or ("length" if last else None)

    def set_result(self, hypotheses: list[Hypothesis], reason: StopReason) -> None:
        """Set the result of a search that the compiled model ran. No steps are recorded for such a search."""
        self._result, self.stop_reason = hypotheses, reason

    def hypotheses(self) -> list[Hypothesis]:
        """Return the finished hypotheses. Beam search returns the best hypothesis first.

        Raises:
            ZooError: No hypothesis has finished, or the score of a hypothesis is not finite.
        """
        found = self._result or [Hypothesis(self._tokens(each), each.total, each.score) for each in self._finished]
        if not found or not all(math.isfinite(hypothesis.score) for hypothesis in found):
            raise ZooError(
                "the model's log-probabilities are not finite (nan or -inf)",
                hint="for a published model, run `zoo verify NAME`; for your own run, check whether training diverged",
                exit_code=1,
            )
        return found

    def _penalty(self, length: int) -> float:
        """Return the length penalty for a number of tokens, including EOS. The penalty never decreases with length."""
        return length_penalty(length, self.strategy.alpha, self.strategy.length_penalty)

    def _finish(self, totals: list[float], tokens: list[int], penalty: float, all_finish: bool) -> None:
        """Add the candidates of the last step that end with EOS, or all candidates if `all_finish` is true.

        If scores are equal, earlier hypotheses come first.
        """
        step = len(self._steps) - 1
        for candidate, (total, token) in enumerate(zip(totals, tokens, strict=True)):
            if (all_finish or token == EOS) and total != -math.inf:
                self._finished.append(FinishedHypothesis(total / penalty, total, step, candidate))
                self._finished_count += 1
        self._finished.sort(key=lambda finished: -finished.score if self._is_ranked else finished.candidate)
        del self._finished[self.strategy.n_best :]

    def _find_stop_reason(self, best_live: float) -> StopReason | None:
        """Return the reason why the search for this sentence can stop, or None if it must continue.

        The search can stop if enough hypotheses have finished, or if no live hypothesis can still become one of the
        `n_best`. The score of a live hypothesis has an upper bound, because its log-probability can only fall, and the
        length penalty has a maximum.
        """
        if best_live == -math.inf:
            return "exhausted"
        if len(self._finished) == self.strategy.n_best and self._finished[-1].score >= best_live / self.max_penalty:
            return "decided"
        if self.strategy.stopping_rule == "full" and self._finished_count >= self.strategy.rows:
            return "full"
        return None

    def _tokens(self, finished: FinishedHypothesis) -> tuple[int, ...]:
        """Return the tokens of a finished hypothesis, by following the parents back to the first token."""
        record, sentence = self._steps[finished.step]
        row, token = record.parents[sentence, finished.candidate], int(record.tokens[sentence, finished.candidate])
        tokens = [token] if token != EOS else []
        for record, sentence in reversed(self._steps[: finished.step]):
            candidate = record.live[sentence, row]
            tokens.append(int(record.tokens[sentence, candidate]))
            row = record.parents[sentence, candidate]
        return (*self.source.prefix, *reversed(tokens))

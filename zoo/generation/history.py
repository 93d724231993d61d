"""What a search remembers of one sentence: which rows went on from which, and what has ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32, Int64

from specs import EOS
from zoo.generation.hypothesis import Hypothesis, require_usable
from zoo.generation.source import Source


class StepRecord(NamedTuple):
    """What a step has chosen (see `Chosen`), on the host."""

    totals: Float32[np.ndarray, "sentences candidates"]
    parents: Int64[np.ndarray, "sentences candidates"]
    tokens: Int64[np.ndarray, "sentences candidates"]
    live: Int64[np.ndarray, "sentences rows"]


class _Ended(NamedTuple):
    score: float
    total: float
    step: int
    place: int


class History:
    """Grows with each step, on the host, from what the step has chosen.

    `wanted` hypotheses are looked for. Ranked ones are the best that have ended, and the search is over when no live
    one can still be among them, or `enough` have ended; others are kept in the order of their rows. What lives at the
    limit has to end with EOS, unless it is `cut`: then its last token may be any, and stands in the place of EOS.
    """

    def __init__(
        self,
        source: Source,
        wanted: int,
        penalty: Callable[[int], float],
        *,
        ranked: bool,
        enough: int | None = None,
        cut: bool = False,
        streams: tuple[Random, ...] = (),
    ) -> None:
        """`penalty` is what a log-probability is divided by, by the length with EOS; it grows with that."""
        self.source, self.wanted, self.penalty, self.ranked, self.cut = source, wanted, penalty, ranked, cut
        self.enough, self.streams = enough, streams
        """Where chance comes from, one for each row."""
        self.begun = len(source.prefix)
        """Tokens that were chosen, or are being chosen by a step that has not reported yet."""
        self.done = False
        self._longest = penalty(source.limit + 1)
        self._steps: list[tuple[StepRecord, int]] = []
        self._ended: list[_Ended] = []
        self._met = 0  # all that have ended, wanted or not

    @property
    def must_end(self) -> bool:
        """Whether the next token has to be EOS."""
        return not self.cut and self.begun == self.source.limit

    @property
    def over(self) -> bool:
        """Whether no further step is needed."""
        return self.done or self.begun > self.source.limit

    def add(self, record: StepRecord, row: int, best: float, ends: bool) -> None:
        """A step, where this sentence is one row; the best total of what has not ended, and whether something has."""
        self._steps.append((record, row))
        length = len(self.source.prefix) + len(self._steps)
        last = length > self.source.limit
        every = last and self.cut
        if ends or every:
            self._end(record.totals[row].tolist(), record.tokens[row].tolist(), self.penalty(length), every)
        self.done = last or (bool(self._ended) and self._decided(best))

    def hypotheses(self) -> list[Hypothesis]:
        """Raises ZooError where the program's probabilities were no numbers."""
        require_usable([ended.score for ended in self._ended])
        return [Hypothesis(self._pieces(ended), ended.total, ended.score) for ended in self._ended]

    def _end(self, totals: list[float], tokens: list[int], penalty: float, every: bool) -> None:
        """Ranks what ends now, `every` one or those with EOS, among what ended before; the earlier one wins a tie."""
        step = len(self._steps) - 1
        for place, (total, token) in enumerate(zip(totals, tokens, strict=True)):
            if (every or token == EOS) and total != -math.inf:
                self._ended.append(_Ended(total / penalty, total, step, place))
                self._met += 1
        self._ended.sort(key=(lambda ended: -ended.score) if self.ranked else (lambda ended: ended.place))
        del self._ended[self.wanted :]

    def _decided(self, best: float) -> bool:
        """Whether no live hypothesis can still enter the list, or none is waited for.

        A log-probability only falls, and is divided by at most the penalty of the longest translation.
        """
        full = len(self._ended) == self.wanted
        proven = best == -math.inf or (full and self._ended[-1].score >= best / self._longest)
        return proven or (self.enough is not None and self._met >= self.enough)

    def _pieces(self, ended: _Ended) -> tuple[int, ...]:
        record, sentence = self._steps[ended.step]
        row, token = record.parents[sentence, ended.place], int(record.tokens[sentence, ended.place])
        found = [token] if token != EOS else []
        for record, sentence in reversed(self._steps[: ended.step]):
            place = record.live[sentence, row]
            found.append(int(record.tokens[sentence, place]))
            row = record.parents[sentence, place]
        return (*self.source.prefix, *reversed(found))

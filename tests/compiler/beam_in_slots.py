"""Selection of hypotheses in slots in Python, as the kernel of `compiler.cuda.search` does it on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from compiler.instruction import SentenceState
from compiler.slots import RESULT_HEAD, Field, Numbers, SlotLayout, Slots
from specs import BOS, EOS, PAD


def select(slots: Slots, logits: Tensor) -> None:
    """Select the hypotheses of the next step in all slots, like `compiler.cuda.search.select`."""
    layout, allowed = slots.layout, slots.allowed.numpy()
    log_probabilities = logits.float().log_softmax(-1).view(slots.count, layout.rows, -1).numpy()
    for number, slot in enumerate(slots.table.numpy()):
        if slot[Field.STATE] == SentenceState.RUNNING:
            _Beam(layout, slot).step(log_probabilities[number], allowed)
        slots.states[number] = int(slot[Field.STATE])


class _Beam:
    """Step of the beam search in one slot. `compiler.cuda.search` has the same in one kernel."""

    def __init__(self, layout: SlotLayout, slot: Numbers) -> None:
        self.layout, self.slot, columns = layout, slot, layout.columns
        self.tokens = slot[columns.tokens : columns.totals]
        self.totals = slot[columns.totals : columns.forced].view(np.float32)
        self.penalties = slot[columns.penalties : columns.results].view(np.float64)
        shape = (layout.rows, layout.capacity)
        self.sequences = slot[columns.sequences : columns.ancestors].reshape(shape)
        self.ancestors = slot[columns.ancestors : columns.width].reshape(shape)
        self.results = slot[columns.results : columns.sequences].reshape(-1, layout.result_width)
        self.scores = self.results[:, :2].view(np.float64)[:, 0]

    def __getattr__(self, name: str) -> Any:
        return int(self.slot[Field[name.upper()]])

    def step(self, log_probabilities: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_]) -> None:
        """Continue the hypotheses with the most probable tokens."""
        length, written = self.length, self.length - self.prefix
        self.slot[Field.LENGTH] += 1
        if length < self.prefix:
            token = int(self.slot[self.layout.columns.forced + length])
            self.tokens[0], self.ancestors[0, length] = token, 0
            self.totals[0] += log_probabilities[0, token]
            return
        candidates = self._candidates(log_probabilities, allowed[int(length >= self.min_length)], length)
        if np.isnan([total for total, *_ in candidates]).any():
            # End with a hypothesis that has no usable score.
            self.scores[0], self.results[0, 2:3].view(np.float32)[0], self.results[0, 3] = np.nan, np.nan, 0
            self.slot[Field.KEPT], self.slot[Field.STATE] = 1, SentenceState.EXHAUSTED
            return
        limit = np.isfinite(self.totals).sum() if self.shrinking and written else self.candidates
        candidates = sorted(candidates, key=lambda c: (-c[0], c[1], -c[2], c[3]))[:limit]
        is_last, chosen = self.length > self.max_length, list[tuple[Any, int, int]]()
        for rank, (total, row, _, token) in enumerate(candidates):
            ends = token == EOS
            if not ends and len(chosen) < self.size:
                chosen.append((total, row, token))
            if ends and not (self.full_rule and rank >= self.size):
                self._finish(total, self.sequences[row, :written])
            if not ends and is_last and self.shrinking:
                self._finish(total, np.append(self.sequences[row, :written], token))
        parents = [row for _, row, _ in chosen]
        for table in (self.sequences, self.ancestors):
            table[: len(chosen)] = table[parents]
        self.totals.fill(-np.inf)
        for number, (total, row, token) in enumerate(chosen):
            self.totals[number], self.tokens[number] = total, token
            self.sequences[number, written], self.ancestors[number, length] = token, row
        self.slot[Field.STATE] = self._state(is_last)

    def _candidates(
        self, log_probabilities: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_], length: int
    ) -> list[tuple[Any, int, Any, int]]:
        """Return total, row, log-probability and token of each possible continuation."""
        found = []
        for row in np.flatnonzero(self.totals != -np.inf).tolist():
            values = np.where(allowed, log_probabilities[row], np.float32(-np.inf))
            values[[PAD, BOS]] = -np.inf
            best = np.argsort(-values, kind="stable")[: self.candidates]
            for token in [EOS] if length == self.max_length and not self.shrinking else best.tolist():
                if values[token] != -np.inf:
                    found.append((self.totals[row] + values[token], row, values[token], token))
        return found

    def _finish(self, total: Any, tokens: npt.NDArray[np.int32]) -> None:
        """Keep a finished hypothesis if fewer than `n_best` are better or as good."""
        score = np.float64(total) / self.penalties[self.length]
        order, place = self.finished, self.kept
        self.slot[Field.FINISHED] += 1
        if place == self.n_best:
            place = max(range(place), key=lambda n: (-self.scores[n], self.results[n, 4]))
            if score <= self.scores[place]:
                return
        else:
            self.slot[Field.KEPT] += 1
        row = self.results[place]
        self.scores[place], row[2:3].view(np.float32)[0] = score, total
        row[3], row[4] = len(tokens), order
        row[RESULT_HEAD : RESULT_HEAD + len(tokens)] = tokens

    def _state(self, is_last: bool) -> SentenceState:
        if self.totals[0] == -np.inf:
            return SentenceState.EXHAUSTED
        best = np.float64(self.totals[0]) / self.penalties[self.max_length + 1]
        if self.kept == self.n_best and self.scores[: self.kept].min() >= best:
            return SentenceState.DECIDED
        if self.full_rule and self.finished >= self.size:
            return SentenceState.FULL
        return SentenceState.LENGTH if is_last else SentenceState.RUNNING

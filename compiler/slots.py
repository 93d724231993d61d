"""Slots for a beam search on the device: one row of numbers for each sentence that is being decoded.

A slot contains the search options for a sentence, its live hypotheses, and its finished hypotheses. Step by step,
`compiler.cuda.search.select` selects the best continuations, exactly as `zoo.generation.beam_search` does. Keys and
values of earlier tokens are not moved when hypotheses are reordered. Instead, for each hypothesis and position, the
slot stores the index of the row that computed these keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int
from torch import Tensor

from compiler.instruction import SentenceState
from compiler.program import BeamOptions
from specs import BOS

Numbers = npt.NDArray[np.int32]


class Field(IntEnum):
    """Scalar columns of a slot (see `SlotLayout`)."""

    STATE = 0
    LENGTH = 1
    """Number of tokens so far, including the prefix. This is the position of the next token that the decoder reads."""
    FINISHED = 2
    """Number of finished hypotheses, including dropped hypotheses."""
    KEPT = 3
    """Number of finished hypotheses that are kept."""
    SOURCE = 4
    """Number of source tokens."""
    SIZE = 5
    CANDIDATES = 6
    N_BEST = 7
    FULL_RULE = 8
    SHRINKING = 9
    MIN_LENGTH = 10
    MAX_LENGTH = 11
    PREFIX = 12
    """Number of tokens in the prefix."""


SCALARS = 16
"""Number of columns for the fields. The arrays of a slot begin after these columns."""
RESULT_HEAD = 6
"""Number of columns before the tokens of a finished hypothesis. They contain the score (64 bits), the log-probability,
the number of tokens, the order, and an unused column."""


class Columns(NamedTuple):
    """First column of each array in a slot."""

    tokens: int
    """The live hypotheses' last tokens."""
    totals: int
    """The live hypotheses' log-probabilities. Rows without a hypothesis contain -inf."""
    forced: int
    """The prefix tokens."""
    penalties: int
    """The length penalties for 0 to `capacity` + 1 tokens."""
    results: int
    """The finished hypotheses."""
    sequences: int
    """An array [rows, capacity]: the tokens of live hypotheses, without the prefix."""
    ancestors: int
    """An array [rows, capacity]: the cache row with the keys and values for each token."""
    width: int
    """Number of columns in a slot."""


@dataclass(frozen=True)
class SlotLayout:
    """Layout of a slot: a row of 32-bit integers that contains the beam search state of one sentence.

    Log-probabilities are stored as the bits of a float32. Length penalties and scores are float64 numbers, which take
    up two columns each.
    """

    rows: int
    """Largest beam size."""
    capacity: int
    """Maximum number of tokens in a hypothesis, with prefix and EOS. It is an even number."""
    source: int
    """Largest number of source tokens."""
    n_best: int
    """Largest number of finished hypotheses that are kept."""
    candidates: int
    """Largest number of continuations that a step selects."""

    @property
    def result_width(self) -> int:
        """Number of columns that each finished hypothesis takes up in a slot."""
        return RESULT_HEAD + self.capacity

    @cached_property
    def columns(self) -> Columns:
        """The first column of each array in a slot."""
        finished, live = self.n_best * self.result_width, self.rows * self.capacity
        widths = (SCALARS, self.rows, self.rows, self.capacity, 2 * (self.capacity + 2), finished, live, live)
        return Columns(*accumulate(widths))

    def arrays(self, slots: Tensor) -> list[Tensor]:
        """Split slots [n, width] into the arrays of the layout. Each array is a view with its own shape."""
        parts = [slots[:, start:end] for start, end in pairwise((0, *self.columns))]
        rows, results = (self.rows, self.capacity), (self.n_best, self.result_width)
        return [*parts[:5], parts[5].view(len(slots), *results), *(part.view(len(slots), *rows) for part in parts[6:])]

    def new(
        self,
        options: Sequence[BeamOptions],
        sources: Sequence[int],
        prefixes: Sequence[Sequence[int]],
        penalties: Sequence[Sequence[float]],
    ) -> Numbers:
        """Return the initial slots for n sentences, [n, width].

        Args:
            options: Beam search options for each sentence.
            sources: Number of source tokens in each sentence.
            prefixes: Tokens that the output for each sentence must begin with.
            penalties: For each sentence, the length penalties for 0, 1, 2, ... tokens, at least up to `max_length` + 1.
        """
        columns = self.columns
        slots = np.zeros((len(options), columns.width), np.int32)
        slots[:, Field.STATE], slots[:, Field.SOURCE], slots[:, columns.tokens] = SentenceState.RUNNING, sources, BOS
        slots[:, Field.SIZE : Field.PREFIX] = options
        slots[:, columns.totals + 1 : columns.forced] = np.float32(-np.inf).view(np.int32)
        tables = slots[:, columns.penalties : columns.results].view(np.float64)
        alike: dict[int, list[int]] = {}
        for number, (prefix, values) in enumerate(zip(prefixes, penalties, strict=True)):
            alike.setdefault(id(values), []).append(number)
            if prefix:
                slots[number, Field.PREFIX] = len(prefix)
                slots[number, columns.forced : columns.forced + len(prefix)] = prefix
        for numbers in alike.values():  # most sentences share one table of penalties
            table = np.array(penalties[numbers[0]])[: tables.shape[1]]
            tables[numbers, : len(table)] = table
        return slots

    def read(self, slots: Numbers) -> list[list[tuple[list[int], float, float]]]:
        """Return the finished hypotheses of each slot, best first, as (tokens without prefix, log-probability, score).

        Args:
            slots: One slot per row. The columns after the results may be omitted.
        """
        columns = slots[:, self.columns.results : self.columns.sequences]
        results = columns.reshape(len(slots), self.n_best, self.result_width)
        scores = results[..., :2].copy().view(np.float64)[..., 0].tolist()
        totals = results[..., 2:3].copy().view(np.float32)[..., 0].tolist()
        lengths, orders, all_found = results[..., 3].tolist(), results[..., 4].tolist(), []
        parts = (results[..., RESULT_HEAD:], lengths, totals, scores, orders, slots[:, Field.KEPT].tolist())
        for tokens, length, total, score, order, kept in zip(*parts, strict=True):
            ranked = sorted(range(kept), key=lambda n: (-score[n], order[n]))
            all_found.append([(tokens[n, : length[n]].tolist(), total[n], score[n]) for n in ranked])
        return all_found


@dataclass(frozen=True)
class BufferSizes:
    """Sizes of the buffers that a decoder needs in addition to the slots."""

    caches: Mapping[str, int]
    """For each self-attention, the number of features in its keys and values."""
    recurrent: Mapping[str, Sequence[int]]
    """For each other state, its shape without the hypothesis axis."""
    memory: int
    """The number of features in the memory's keys and values, for all layers together."""
    vocabulary: int


class Slots:
    """Device memory for a beam search: a slot per sentence, and the decoder's caches and states for all hypotheses."""

    def __init__(self, layout: SlotLayout, count: int, like: Tensor, sizes: BufferSizes) -> None:
        """Allocate the buffers. All slots are initially free.

        Args:
            layout: Layout of a slot.
            count: Number of slots.
            like: A tensor with the device of all buffers, and the data type of caches, memory and recurrent states.
            sizes: Sizes of the buffers other than the slots.
        """
        self.layout, self.count = layout, count
        self.table = torch.zeros((count, layout.columns.width), dtype=torch.int32, device=like.device)
        rows = count * layout.rows
        self.caches = {name: like.new_zeros(rows, layout.capacity, width) for name, width in sizes.caches.items()}
        self.recurrent = {name: like.new_zeros(rows + 1, *shape) for name, shape in sizes.recurrent.items()}
        self.memory = like.new_zeros(count, layout.source, sizes.memory)
        self.states = torch.zeros(count, dtype=torch.int32, device=like.device)
        """The states of all slots after the last step."""
        self.allowed = torch.ones((2, sizes.vocabulary), dtype=torch.bool, device=like.device)
        """Mask of permitted tokens. Row 0 applies to hypotheses below the minimum length, row 1 to all others."""

    @cached_property
    def rows(self) -> int:
        """Batch size of a decoder step: the number of slots times the largest beam size."""
        return self.count * self.layout.rows

    @property
    def bytes(self) -> int:
        """Total size of all buffers, in bytes."""
        buffers = (self.table, self.memory, *self.caches.values(), *self.recurrent.values())
        return sum(buffer.nbytes for buffer in buffers)

    @property
    def by_slot(self) -> list[Tensor]:
        """Caches and states as views. The first axis is the slot, and the second axis is the hypothesis."""
        states = (state[:-1] for state in self.recurrent.values())
        buffers = (*self.caches.values(), *states)
        return [buffer.view(self.count, self.layout.rows, *buffer.shape[1:]) for buffer in buffers]

    def parents(self) -> Int[Tensor, " rows"]:
        """Return the row of each hypothesis's parent in the previous step, or `rows` before the first token."""
        lengths = self.table[:, Field.LENGTH].long()
        ancestors = self.layout.arrays(self.table)[-1]
        last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, self.layout.rows, 1)
        first = torch.arange(self.count, device=lengths.device)[:, None] * self.layout.rows
        parents = first + ancestors.gather(2, last)[..., 0]
        return torch.where(lengths[:, None] > 0, parents, self.rows).flatten()

"""Slots of a beam search that runs on the device: one row of numbers for each sentence that is being decoded.

A slot contains the options of a sentence, its live hypotheses, and its finished hypotheses. Step by step, `advance`
selects the best continuations, exactly as `zoo.generation.beam_search` does. Keys and values of earlier tokens are not
moved when hypotheses are reordered. Instead, for each hypothesis and position, the slot stores the index of the row
that computed these keys and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from compiler import cuda
from compiler.instruction import SentenceState
from compiler.operations.attention import HeadColumns
from compiler.program import BeamOptions
from specs import BOS

Numbers = npt.NDArray[np.int32]


class Field(IntEnum):
    """Columns of a slot (see `SlotLayout`) that contain one number each."""

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


@dataclass(frozen=True)
class SlotLayout:
    """Layout of a slot, which is a row of 32-bit integers with the beam search state of one sentence.

    Most properties give the first column of an array in the slot. Log-probabilities are stored as the bits of a
    float32. Length penalties and scores are stored as float64 in two columns.
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
    def tokens(self) -> int:
        """First column of the live hypotheses' last tokens."""
        return SCALARS

    @property
    def totals(self) -> int:
        """First column of the live hypotheses' log-probabilities. Rows without a hypothesis contain -inf."""
        return self.tokens + self.rows

    @property
    def forced(self) -> int:
        """First column of the prefix tokens."""
        return self.totals + self.rows

    @property
    def penalties(self) -> int:
        """First column of the length penalties for 0 to `capacity` + 1 tokens."""
        return self.forced + self.capacity

    @property
    def results(self) -> int:
        """First column of the finished hypotheses."""
        return self.penalties + 2 * (self.capacity + 2)

    @property
    def result_width(self) -> int:
        """Number of columns in a finished hypothesis."""
        return RESULT_HEAD + self.capacity

    @property
    def sequences(self) -> int:
        """First column of an array [rows, capacity]: the tokens of live hypotheses, without the prefix."""
        return self.results + self.n_best * self.result_width

    @property
    def ancestors(self) -> int:
        """First column of an array [rows, capacity]: the cache row with the keys and values for each token."""
        return self.sequences + self.rows * self.capacity

    @property
    def width(self) -> int:
        """Number of columns in a slot."""
        return self.ancestors + self.rows * self.capacity

    def arrays(self, slots: Tensor) -> list[Tensor]:
        """Split slots [n, width] into the arrays of the layout. Each array is a view with its own shape."""
        ends = (0, self.tokens, self.totals, self.forced, self.penalties, self.results, self.sequences, self.ancestors)
        parts = [slots[:, start:end] for start, end in pairwise((*ends, self.width))]
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
            prefixes: The prefix of each sentence.
            penalties: For each sentence, the length penalties for 0, 1, 2, ... tokens, at least up to `max_length` + 1.
        """
        slots = np.zeros((len(options), self.width), np.int32)
        slots[:, Field.STATE], slots[:, Field.SOURCE], slots[:, self.tokens] = SentenceState.RUNNING, sources, BOS
        slots[:, Field.SIZE : Field.PREFIX] = options
        slots[:, self.totals + 1 : self.forced] = np.float32(-np.inf).view(np.int32)
        tables = slots[:, self.penalties : self.results].view(np.float64)
        alike: dict[int, list[int]] = {}
        for number, (prefix, values) in enumerate(zip(prefixes, penalties, strict=True)):
            alike.setdefault(id(values), []).append(number)
            if prefix:
                slots[number, Field.PREFIX] = len(prefix)
                slots[number, self.forced : self.forced + len(prefix)] = prefix
        for numbers in alike.values():  # most sentences share one table of penalties
            table = np.array(penalties[numbers[0]])[: tables.shape[1]]
            tables[numbers, : len(table)] = table
        return slots

    def read(self, slots: Numbers) -> list[list[tuple[list[int], float, float]]]:
        """Return the finished hypotheses of slots, best first: tokens without prefix, log-probability and score.

        Args:
            slots: The slots, one per row, with all columns up to and including the results.
        """
        results = slots[:, self.results : self.sequences].reshape(len(slots), self.n_best, self.result_width)
        scores = results[..., :2].copy().view(np.float64)[..., 0].tolist()
        totals = results[..., 2:3].copy().view(np.float32)[..., 0].tolist()
        lengths, orders, all_found = results[..., 3].tolist(), results[..., 4].tolist(), []
        columns = (results[..., RESULT_HEAD:], lengths, totals, scores, orders, slots[:, Field.KEPT].tolist())
        for tokens, length, total, score, order, kept in zip(*columns, strict=True):
            ranked = sorted(range(kept), key=lambda n: (-score[n], order[n]))
            all_found.append([(tokens[n, : length[n]].tolist(), total[n], score[n]) for n in ranked])
        return all_found


class Slots:
    """Buffers of a beam search on a device: the slots, and the decoder's caches and states for all hypotheses."""

    def __init__(
        self,
        layout: SlotLayout,
        count: int,
        like: Tensor,
        *,
        widths: Sequence[int],
        recurrent: Sequence[Sequence[int]],
        memory_width: int,
        vocabulary: int,
    ) -> None:
        """Allocate free slots.

        Args:
            layout: Layout of a slot.
            count: Number of slots.
            like: A tensor with the device and data type of the features.
            widths: For each self-attention of the decoder, the number of features in its keys and values.
            recurrent: For each other state of the decoder, its shape without the hypothesis axis.
            memory_width: The number of features in the memory's keys and values, for all layers together.
            vocabulary: Size of the vocabulary.
        """
        self.layout, self.count = layout, count
        self.table = torch.zeros((count, layout.width), dtype=torch.int32, device=like.device)
        rows = count * layout.rows
        self.caches = [like.new_zeros(rows, layout.capacity, width) for width in widths]
        self.recurrent = [like.new_zeros(rows + 1, *shape) for shape in recurrent]
        self.memory = like.new_zeros(count, layout.source, memory_width)
        self.states = torch.zeros(count, dtype=torch.int32, device=like.device)
        """The states of all slots after the last step."""
        self.allowed = torch.ones((2, vocabulary), dtype=torch.bool, device=like.device)
        """Mask of permitted tokens. Row 0 applies to hypotheses below the minimum length, row 1 to all others."""

    @cached_property
    def rows(self) -> int:
        """Number of rows that a decoder step computes."""
        return self.count * self.layout.rows

    @property
    def bytes(self) -> int:
        """Total size of all buffers, in bytes."""
        return sum(buffer.nbytes for buffer in (self.table, self.memory, *self.caches, *self.recurrent))


def slot_embedding(
    slots: Slots, table: Float[Tensor, "V d"], scale: float, positions: Float[Tensor, "capacity d"] | None
) -> Float[Tensor, "rows 1 d"]:
    """Embed the last token of each hypothesis, and add its positional encoding (sections 3.4 and 3.5)."""
    return cuda.search.embed(slots, table, scale, positions)


def slot_self_attention(
    features: Float[Tensor, "rows 1 _"],
    cache: Float[Tensor, "rows capacity _"],
    slots: Slots,
    heads: HeadColumns,
    scale: float,
) -> Float[Tensor, "rows 1 h·d_v"]:
    """Return the self-attention of a decoder step, and write the new keys and values to the cache.

    Args:
        features: Features that contain queries, keys and values. The values follow the keys.
        cache: Keys and values of earlier positions, indexed by the row that computed them.
        slots: The slots. For each row and position, they contain the index of the cache row to read.
        heads: The columns of queries, keys and values.
        scale: Factor by which Q Kᵀ is multiplied.
    """
    return cuda.search.attend_cache(features, cache, slots, heads, scale)


def slot_parents(slots: Slots) -> Int[Tensor, " rows"]:
    """Return the row of the previous step that each hypothesis continues, or `slots.rows` before the first token."""
    layout, lengths = slots.layout, slots.table[:, Field.LENGTH].long()
    ancestors = layout.arrays(slots.table)[-1]
    last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, layout.rows, 1)
    first = torch.arange(slots.count, device=lengths.device)[:, None] * layout.rows
    parents = first + ancestors.gather(2, last)[..., 0]
    return torch.where(lengths[:, None] > 0, parents, slots.rows).flatten()


def slot_cross_attention(
    features: Float[Tensor, "rows 1 _"], slots: Slots, heads: HeadColumns, scale: float
) -> Float[Tensor, "rows 1 h·d_v"]:
    """Return the cross-attention of each hypothesis to the memory of its sentence.

    Args:
        features: Features that contain the queries.
        slots: The slots, with the memory.
        heads: The columns of queries in `features`, and of keys and values in the memory.
        scale: Factor by which Q Kᵀ is multiplied.
    """
    return cuda.search.attend_memory(features, slots, heads, scale)


def advance(slots: Slots, logits: Float[Tensor, "rows V"]) -> None:
    """Select the hypotheses of the next step in all slots, and write the state of each slot to `slots.states`.

    Args:
        slots: The slots.
        logits: The logits of the next token of each hypothesis.
    """
    cuda.search.select(slots, logits)

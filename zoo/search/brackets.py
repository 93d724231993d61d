"""Trees: what a parser writes are brackets that close again, over exactly the words of its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from specs import EOS, ZooError
from zoo.search.source import Source
from zoo.text.sentences import shown

ROOM = 16
"""Brackets by which the stacks grow."""
_COUNTS = 4


class Brackets:
    """A hypothesis is one constituent, or the only word itself.

    A bracket opens while words are left, and only if everything can still be closed within the limit. Another closes
    the constituent that was opened last, unless that is empty, and the root only after the last word. Then comes EOS,
    and nothing else. How many constituents of one child stand in one another is bounded by the limit alone.
    """

    def __init__(self, opening: Sequence[int], closing: Sequence[int], words: Sequence[int], size: int) -> None:
        """Pieces of a target vocabulary of `size`: opening brackets, the closing one of each, and words."""
        if len(opening) != len(closing):
            raise ValueError(f"{len(opening)} opening brackets and {len(closing)} closing ones")
        self._made = _tables(list(opening), list(closing), list(words), size)
        self._on = {torch.device("cpu"): self._made}

    def begun(self, sources: Sequence[Source], device: torch.device) -> Stacks:
        """Before the first piece. Raises ZooError where a tree has more pieces than the limit of its sentence."""
        for source in sources:
            _check(source)
        if device not in self._on:
            self._on[device] = _Tables(*(table.to(device) for table in self._made))
        counts = [[0, source.words, source.limit - source.words, 0] for source in sources]
        return Stacks(self._on[device], torch.tensor(counts, device=device), max(source.limit for source in sources))


def _check(source: Source) -> None:
    if source.words < 1:
        raise ValueError(f"there is no tree over the {source.words} words of sentence {source.index}")
    least = source.words if source.words == 1 else source.words + 2
    if source.limit < least:
        raise ZooError(
            f"the tree of sentence {source.index + 1:,}, {shown(source.text)}, has {least:,} pieces at least, and may "
            f"have {source.limit:,} at most",
            hint="raise `decoding.extra_length` of the model's spec; learned positions bound it, too",
        )


class _Tables(NamedTuple):
    """Cases are numbered by all that the rules ask: the counts, each up to 2, and the label on top."""

    effects: Int[Tensor, "V 5"]
    """Of each piece, on the counts, and the label that it goes on with."""
    weights: Int[Tensor, " counts"]
    """Of the counts, in the number of a case."""
    cases: Int[Tensor, " cases"]
    """The mask of each."""
    masks: Bool[Tensor, "masks V"]


class Stacks:
    """The open brackets of each hypothesis, in a row of numbers: four counts, no label, and that of each bracket.

    It counts the open brackets; the words that are left; the pieces that it has to spare, which neither those words
    nor the closing brackets take; and the brackets that were opened last. What lies above the top means nothing.
    """

    def __init__(self, tables: _Tables, counts: Int[Tensor, "rows 4"], most: int) -> None:
        """Empty stacks; no hypothesis has more than `most` pieces."""
        self._tables, self._most, self._read = tables, most, 0
        self._rows = self._with_room(counts)

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Which pieces may come next."""
        counts, stack = self._parts(0)
        label = stack.gather(1, counts.narrow(1, 0, 1)).squeeze(1)
        number = (counts.clamp(max=2) * self._tables.weights).sum(1) + label
        return self._tables.masks.index_select(0, self._tables.cases.index_select(0, number))

    def after(self, rows: Int[Tensor, " rows"] | None, pieces: Int[Tensor, " rows"]) -> Stacks:
        """Goes on from these rows, each with its piece."""
        if rows is not None:
            self._rows = self._rows.index_select(0, rows)
        self._read = min(self._read + 1, self._most + 1)
        if self._rows.shape[1] <= _COUNTS + self._read:
            self._rows = self._with_room(self._rows)
        effects = self._tables.effects.index_select(0, pieces)
        counts, above = self._parts(1)
        above.scatter_(1, counts.narrow(1, 0, 1), effects.narrow(1, _COUNTS, 1))
        # None falls below 0 but in rows that are no hypothesis, which take any piece.
        counts.add_(effects.narrow(1, 0, _COUNTS)).clamp_(min=0)
        return self

    def joined(self, other: Stacks) -> Stacks:
        """Those of both."""
        while self._rows.shape[1] < other._rows.shape[1]:
            self._rows = self._with_room(self._rows)
        while other._rows.shape[1] < self._rows.shape[1]:
            other._rows = self._with_room(other._rows)
        self._rows = torch.cat([self._rows, other._rows])
        self._most, self._read = max(self._most, other._most), max(self._read, other._read)
        return self

    def _parts(self, above: int) -> tuple[Int[Tensor, "rows 4"], Int[Tensor, "rows room"]]:
        """The counts, and the numbers from so many above the tops on: indices of both are depths."""
        width = self._rows.shape[1] - _COUNTS - above
        return self._rows.narrow(1, 0, _COUNTS), self._rows.narrow(1, _COUNTS + above, width)

    def _with_room(self, rows: Int[Tensor, "rows numbers"]) -> Int[Tensor, "rows more"]:
        return pad(rows, (0, ROOM), value=_unlabelled(self._tables))


def _unlabelled(tables: _Tables) -> int:
    """What stands for no label: the number after the last."""
    return len(tables.masks) // 4 - 1


def _tables(opening: list[int], closing: list[int], words: list[int], size: int) -> _Tables:
    labels, numbers = len(opening), torch.arange(len(opening))
    last, spare, left, depth = torch.cartesian_prod(*[torch.arange(3)] * _COUNTS).unbind(1)
    opens = (left > 0) & (spare == 2)  # for itself and the one that closes it
    word = (left > 0) & ((depth > 0) | (left == 1))
    closes = (last == 0) & ((depth == 2) | ((depth == 1) & (left == 0)))
    label = torch.where(closes.unsqueeze(1), torch.arange(labels + 1), labels)
    cases = (2 * opens + word.long()).unsqueeze(1) * (labels + 1) + label

    masks = torch.zeros(4, labels + 1, size, dtype=torch.bool)
    masks[2:, :, opening] = True
    masks[1::2, :, words] = True
    masks[:, numbers, closing] = True
    masks[0, labels, EOS] = True

    no_longer_last = -(2**31)
    effects = torch.tensor([0, 0, 0, no_longer_last, labels]).repeat(size, 1)
    effects[words, 1] = -1
    effects[closing, 0] = -1
    effects[opening, :_COUNTS] = torch.tensor([1, 0, -2, 1])
    effects[opening, _COUNTS] = numbers
    weights = torch.tensor([3**place for place in range(_COUNTS)]) * (labels + 1)
    return _Tables(effects, weights, cases.flatten(), masks.flatten(0, 1))

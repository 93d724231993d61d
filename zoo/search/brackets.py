"""Trees: what a parser writes are brackets that close again, over exactly the words of its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from specs import EOS, PAD, UNK, ZooError
from zoo.search.source import Source
from zoo.text.sentences import shown

ROOM = 16
"""Brackets by which the stacks grow."""
_COUNTS = 4


class Brackets:
    """A hypothesis is one constituent, or the only word itself.

    A bracket opens while words are left, and only if everything can still be closed within the limit. Another closes
    the constituent that was opened last, unless that is empty, and the root only after the last word. Then comes EOS,
    and nothing else. A word is written as its sentence spells it.
    """

    def __init__(
        self,
        opening: Sequence[int],
        closing: Sequence[int],
        words: Sequence[int],
        size: int,
        in_a_row: int | None = None,
    ) -> None:
        """Pieces of a target vocabulary of `size`: opening brackets, the closing one of each, and words.

        At most `in_a_row` brackets open one behind another; as many as the limit allows where it is None.
        """
        if len(opening) != len(closing):
            raise ValueError(f"{len(opening)} opening brackets and {len(closing)} closing ones")
        self._made = _tables(list(opening), list(closing), list(words), size, in_a_row)
        self._on = {torch.device("cpu"): self._made}

    def begun(self, sources: Sequence[Source], device: torch.device) -> Stacks:
        """Before the first piece. Raises ZooError where a tree has more pieces than the limit of its sentence."""
        for source in sources:
            _check(source)
        if device not in self._on:
            self._on[device] = _Tables(*(table.to(device) for table in self._made))
        counts = [[0, source.words, (source.limit - source.words) // 2, 0] for source in sources]
        most = max(source.limit for source in sources)
        return Stacks(self._on[device], torch.tensor(counts, device=device), most, _due(sources, device))


def _check(source: Source) -> None:
    if source.words < 1:
        raise ValueError(f"there is no tree over the {source.words} words of sentence {source.index}")
    least = source.words if source.words == 1 else source.words + 2
    if source.limit < least:
        raise ZooError(
            f"the tree of sentence {source.line + 1:,}, {shown(source.text)}, has {least:,} pieces at least, and may "
            f"have {source.limit:,} at most",
            hint="raise `decoding.extra_length` of the model's spec; learned positions bound it, too",
        )


def _due(sources: Sequence[Source], device: torch.device) -> Int[Tensor, "rows words"] | None:
    """What the next word is written as, by how many words are left; PAD where that may be any."""
    if not any(source.spelled for source in sources):
        return None
    rows = [[PAD, *(PAD if piece == UNK else piece for piece in reversed(source.spelled))] for source in sources]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)


class _Tables(NamedTuple):
    """Cases are numbered by all that the rules ask: the counts, each up to a most, and the label on top."""

    effects: Int[Tensor, "V 5"]
    """Of each piece, on the counts, and the label that it goes on with."""
    most: Int[Tensor, " counts"]
    """Of the counts, in a case."""
    weights: Int[Tensor, " counts"]
    """Of the counts, in the number of a case."""
    masks: Bool[Tensor, "cases V"]
    spelling: Bool[Tensor, "V V"]
    """What may be written where the next word is this piece: no other word. Any, where it is PAD."""


class Stacks:
    """The open brackets of each hypothesis.

    It counts those; the words that are left; the constituents that there may still be within the limit; and the
    brackets that were opened last, one after another. The label of the root is the second of a stack, after none, and
    what lies above the top means nothing.
    """

    def __init__(
        self, tables: _Tables, counts: Int[Tensor, "rows 4"], most: int, due: Int[Tensor, "rows words"] | None
    ) -> None:
        """Empty stacks; no hypothesis has more than `most` pieces, and the words are those that are `due`."""
        self._tables, self._most, self._read, self._due = tables, most, 0, due
        self._counts, self._stack = counts, counts.new_full((len(counts), ROOM), int(tables.weights[0]) - 1)

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Which pieces may come next."""
        label = self._stack.gather(1, self._counts.narrow(1, 0, 1)).squeeze(1)
        case = (self._counts.minimum(self._tables.most) * self._tables.weights).sum(1) + label
        masks = self._tables.masks.index_select(0, case)
        if self._due is None:
            return masks
        due = self._due.gather(1, self._counts.narrow(1, 1, 1)).squeeze(1)
        return masks.logical_and_(self._tables.spelling.index_select(0, due))

    def after(self, rows: Int[Tensor, " rows"] | None, pieces: Int[Tensor, " rows"]) -> Stacks:
        """Goes on from these rows, each with its piece."""
        if rows is not None:
            self._counts, self._stack = self._counts.index_select(0, rows), self._stack.index_select(0, rows)
            self._due = None if self._due is None else self._due.index_select(0, rows)
        self._read = min(self._read + 1, self._most + 1)
        if (room := self._stack.shape[1]) <= self._read:
            self._stack, room = pad(self._stack, (0, ROOM)), room + ROOM
        effects = self._tables.effects.index_select(0, pieces)
        above = self._stack.narrow(1, 1, room - 1)
        above.scatter_(1, self._counts.narrow(1, 0, 1), effects.narrow(1, _COUNTS, 1))
        # None falls below 0 but in rows that are no hypothesis, which take any piece.
        self._counts.add_(effects.narrow(1, 0, _COUNTS)).clamp_(min=0)
        return self

    def joined(self, other: Stacks) -> Stacks:
        """Those of both."""
        room = max(each._stack.shape[1] for each in (self, other))
        self._stack = torch.cat([pad(each._stack, (0, room - each._stack.shape[1])) for each in (self, other)])
        self._counts = torch.cat([self._counts, other._counts])
        if self._due is not None and other._due is not None:
            both = (self._due, other._due)
            words = max(due.shape[1] for due in both)
            self._due = torch.cat([pad(due, (0, words - due.shape[1])) for due in both])
        self._most, self._read = max(self._most, other._most), max(self._read, other._read)
        return self


def _tables(opening: list[int], closing: list[int], words: list[int], size: int, in_a_row: int | None) -> _Tables:
    labels, most = len(opening), torch.tensor([2, 2, 1, in_a_row or 1])
    values = torch.cartesian_prod(*(torch.arange(int(each) + 1) for each in most.flip(0))).unbind(1)
    last, free, left, depth = values
    weights = torch.tensor([1, 3, 9, 18]) * (labels + 1)  # a label may be none, which is after all others

    masks = torch.zeros(len(depth), labels + 1, size, dtype=torch.bool)
    opens = (left > 0) & (free > 0) & (in_a_row is None or last < in_a_row)
    word = (left > 0) & ((depth > 0) | (left == 1))
    closes = (last == 0) & ((depth > 1) | ((depth == 1) & (left == 0)))
    masks[:, :, opening] = opens.view(-1, 1, 1)
    masks[:, :, words] = word.view(-1, 1, 1)
    masks[:, torch.arange(labels), closing] = closes.unsqueeze(1)
    masks[:, :, EOS] = ((depth == 0) & (left == 0)).unsqueeze(1)

    no_longer_last = -(2**31)
    effects = torch.tensor([0, 0, 0, no_longer_last, labels]).repeat(size, 1)
    effects[words, 1] = -1
    effects[closing, 0] = -1
    effects[opening] = torch.tensor([1, 0, -1, 1, 0])
    effects[opening, _COUNTS] = torch.arange(labels)

    spelling = torch.ones(size, size, dtype=torch.bool)
    spelling[torch.tensor(words).unsqueeze(1), words] = torch.eye(len(words), dtype=torch.bool)
    return _Tables(effects, most, weights, masks.flatten(0, 1), spelling)

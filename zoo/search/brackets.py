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
        counts = [[0, source.words, source.limit - source.words] for source in sources]
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
    """Cases are numbered by all that the rules ask: what was last, the counts up to 2, and the label on top."""

    effects: Int[Tensor, "V 6"]
    """Of each piece, on the three counts; whether it goes above the top, the label there, and what a case begins at."""
    weights: Int[Tensor, " counts"]
    """Of the counts, in the number of a case."""
    cases: Int[Tensor, " cases"]
    """The mask of each."""
    masks: Bool[Tensor, "masks V"]


class Stacks:
    """The open brackets of each hypothesis.

    Its counts are of the open brackets, of the words that are left, and of the pieces that it has to spare: more than
    those words and the closing brackets take. Above the top of a stack there is no label.
    """

    def __init__(self, tables: _Tables, counts: Int[Tensor, "rows 3"], most: int) -> None:
        """Empty stacks; no hypothesis has more than `most` pieces."""
        self._tables, self._counts, self._most, self._read = tables, counts, most, 0
        self._stack = counts.new_full((len(counts), ROOM), _unlabelled(tables))
        self._begins = self._stack[:, :1]

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Which pieces may come next."""
        of_counts = (self._counts.clamp(max=2) * self._tables.weights).sum(1, keepdim=True)
        masks = self._tables.cases.index_select(0, (of_counts + self._begins).flatten())
        return self._tables.masks.index_select(0, masks)

    def after(self, rows: Int[Tensor, " rows"] | None, pieces: Int[Tensor, " rows"]) -> Stacks:
        """Goes on from these rows, each with its piece."""
        counts, stack = self._counts, self._stack
        if rows is not None:
            counts, stack = counts.index_select(0, rows), stack.index_select(0, rows)
        self._read = min(self._read + 1, self._most + 1)
        if stack.shape[1] < self._read + 2:
            stack = pad(stack, (0, ROOM), value=_unlabelled(self._tables))
        change, above, label, begins = self._tables.effects.index_select(0, pieces).split_with_sizes([3, 1, 1, 1], 1)
        counts = (counts + change).clamp_(min=0)  # rows that are no hypothesis take any piece
        depth = counts[:, :1]
        self._stack, self._counts = stack.scatter_(1, depth + above, label), counts
        self._begins = begins + stack.gather(1, depth)
        return self

    def joined(self, other: Stacks) -> Stacks:
        """Those of both."""
        room = max(self._stack.shape[1], other._stack.shape[1])
        stacks = [
            pad(stack, (0, room - stack.shape[1]), value=_unlabelled(self._tables))
            for stack in (self._stack, other._stack)
        ]
        self._stack, self._counts = torch.cat(stacks), torch.cat([self._counts, other._counts])
        self._begins = torch.cat([self._begins, other._begins])
        self._most, self._read = max(self._most, other._most), max(self._read, other._read)
        return self


def _unlabelled(tables: _Tables) -> int:
    """What stands for no label: the number after the last."""
    return len(tables.masks) // 4 - 1


def _tables(opening: list[int], closing: list[int], words: list[int], size: int) -> _Tables:
    labels, numbers = len(opening), torch.arange(len(opening))
    lasts, counts = torch.tensor([0, 1]), torch.tensor([0, 1, 2])
    opened, spare, left, depth = torch.cartesian_prod(lasts, counts, counts, counts).unbind(1)
    opens = (left > 0) & (spare == 2)  # itself and the one that closes it
    word = (left > 0) & ((depth > 0) | (left == 1))
    closes = (opened == 0) & ((depth == 2) | ((depth == 1) & (left == 0)))
    top = torch.where(closes.unsqueeze(1), torch.arange(labels + 1), labels)
    cases = (2 * opens + word.long()).unsqueeze(1) * (labels + 1) + top

    masks = torch.zeros(4, labels + 1, size, dtype=torch.bool)
    masks[2:, :, opening] = True
    masks[1::2, :, words] = True
    masks[:, numbers, closing] = True
    masks[0, labels, EOS] = True

    effects = torch.tensor([0, 0, 0, 1, labels, 0]).repeat(size, 1)
    effects[words, 1] = -1
    effects[closing, 0] = -1
    effects[opening, :4] = torch.tensor([1, 0, -2, 0])
    effects[opening, 4] = numbers
    effects[opening, 5] = 27 * (labels + 1)
    weights = torch.tensor([1, 3, 9]) * (labels + 1)
    return _Tables(effects, weights, cases.flatten(), masks.flatten(0, 1))

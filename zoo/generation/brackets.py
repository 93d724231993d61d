"""Trees: what a parser writes are brackets that close again, over exactly the words of its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor
from torch.nn.functional import pad

from specs import EOS, PAD, UNK
from zoo.generation.source import Source

ROOM = 16
"""Brackets by which the stacks grow."""
_COUNTS = 4
_OPENS, _WORD, _ENDS, _CLOSES = 1, 2, 4, 8
"""Kinds of tokens, a bit each: one is allowed where its kind is. Of closing brackets only that of the label on top."""


def least(words: int) -> int:
    """Tokens of the shortest tree over so many words."""
    return words if words == 1 else words + 2


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
        """Tokens of a target vocabulary of `size`: opening brackets, the closing one of each, and words.

        At most `in_a_row` brackets open one behind another; as many as the limit allows where it is None.
        """
        if len(opening) != len(closing):
            raise ValueError(f"{len(opening)} opening brackets and {len(closing)} closing ones")
        self._made = _tables(list(opening), list(closing), list(words), size, in_a_row)
        self._on = {torch.device("cpu"): self._made}

    def begun(self, sources: Sequence[Source], device: torch.device) -> Stacks:
        """Before the first token. Raises ValueError where each tree has more tokens than the limit of its sentence."""
        for source in sources:
            if source.words < 1 or source.limit < least(source.words):
                what = f"the {source.words} words of sentence {source.index}"
                raise ValueError(f"no tree over {what} has {source.limit} tokens at most")
        if device not in self._on:
            self._on[device] = _Tables(*(table.to(device) for table in self._made))
        counts = [[0, source.words, (source.limit - source.words) // 2, 0] for source in sources]
        most = max(source.limit for source in sources)
        return Stacks(self._on[device], torch.tensor(counts, device=device), most, _due(sources, device))


def _due(sources: Sequence[Source], device: torch.device) -> Int[Tensor, "rows words"] | None:
    """What the next word is written as, by how many words are left; PAD where that may be any."""
    if not any(source.spelled for source in sources):
        return None
    rows = [[PAD, *(PAD if token == UNK else token for token in reversed(source.spelled))] for source in sources]
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows], device=device)


class _Tables(NamedTuple):
    """Cases are numbered by the counts, each up to the most that the rules ask for.

    None is larger than V, but for a few columns: V is what somebody's spec says.
    """

    effects: Int[Tensor, "V 5"]
    """Of each token, on the counts, and the label that it goes on with."""
    most: Int[Tensor, " counts"]
    """Of the counts, in a case."""
    weights: Int[Tensor, " counts"]
    """Of the counts, in the number of a case."""
    masks: UInt8[Tensor, " cases"]
    """The kinds that are allowed, added up."""
    kinds: UInt8[Tensor, " V"]
    """Of each token; 0 of a closing bracket."""
    closing: Int[Tensor, " labels+1"]
    """The bracket of each label; PAD of none."""


class Stacks:
    """The open brackets of each hypothesis.

    It counts those; the words that are left; the constituents that there may still be within the limit; and the
    brackets that were opened last, one after another. The label of the root is the second of a stack, after none, and
    what lies above the top means nothing.
    """

    def __init__(
        self, tables: _Tables, counts: Int[Tensor, "rows 4"], most: int, due: Int[Tensor, "rows words"] | None
    ) -> None:
        """Empty stacks; no hypothesis has more than `most` tokens, and the words are those that are `due`."""
        self._tables, self._most, self._read, self._due = tables, most, 0, due
        self._counts, self._stack = counts, counts.new_full((len(counts), ROOM), len(tables.closing) - 1)

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Which tokens may come next."""
        tables, depth, left = self._tables, self._counts.narrow(1, 0, 1), self._counts.narrow(1, 1, 1)
        case = (self._counts.minimum(tables.most) * tables.weights).sum(1, keepdim=True)
        may = tables.masks[case]
        closing, closes = tables.closing[self._stack.gather(1, depth)], (may & _CLOSES).bool()
        if self._due is None:
            return (may & tables.kinds).bool().scatter_(1, closing, closes)
        due = self._due.gather(1, left)
        spelled = (may & _WORD) * (due != PAD)  # and no other word
        allowed = ((may ^ spelled) & tables.kinds).bool().scatter_(1, closing, closes)
        return allowed.scatter_(1, due, spelled.bool())

    def after(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> Stacks:
        """Goes on from these rows, each with its token."""
        if rows is not None:
            self._counts, self._stack = self._counts.index_select(0, rows), self._stack.index_select(0, rows)
            self._due = None if self._due is None else self._due.index_select(0, rows)
        self._read = min(self._read + 1, self._most + 1)
        if (room := self._stack.shape[1]) <= self._read:
            self._stack, room = pad(self._stack, (0, ROOM)), room + ROOM
        effects = self._tables.effects.index_select(0, tokens)
        above = self._stack.narrow(1, 1, room - 1)
        above.scatter_(1, self._counts.narrow(1, 0, 1), effects.narrow(1, _COUNTS, 1))
        # None falls below 0 but in rows that are no hypothesis, which take any token.
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

    opens = (left > 0) & (free > 0) & (in_a_row is None or last < in_a_row)
    word = (left > 0) & ((depth > 0) | (left == 1))
    ends = (depth == 0) & (left == 0)
    closes = (last == 0) & ((depth > 1) | ((depth == 1) & (left == 0)))
    masks = opens.byte() * _OPENS | word.byte() * _WORD | ends.byte() * _ENDS | closes.byte() * _CLOSES
    kinds = torch.zeros(size, dtype=torch.uint8)
    kinds[opening], kinds[words], kinds[EOS] = _OPENS, _WORD, _ENDS

    no_longer_last = -(2**31)
    effects = torch.tensor([0, 0, 0, no_longer_last, labels]).repeat(size, 1)
    effects[words, 1] = -1
    effects[closing, 0] = -1
    effects[opening] = torch.tensor([1, 0, -1, 1, 0])
    effects[opening, _COUNTS] = torch.arange(labels)
    return _Tables(effects, most, torch.tensor([1, 3, 9, 18]), masks, kinds, torch.tensor([*closing, PAD]))

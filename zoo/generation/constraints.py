"""Constraints on the tokens that a search may produce: suppressed tokens, minimum lengths, well-formed trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from compiler.lazy import torch
from compiler.program import TreeLimits, TreeRules
from specs import EOS, PAD, UNK
from zoo.generation.translation import SearchInput, concatenate, pad_sequences

if TYPE_CHECKING:
    from jaxtyping import Bool, Int, UInt8
    from torch import Tensor


class ConstraintState(Protocol):
    """State of a constraint for a batch. Like the decoder state, it has one row per hypothesis.

    The state consists of tensors, and its methods never wait for a GPU. `advance` must accept any token for a row whose
    hypothesis has ended. `advance` and `join` return a new state. The old states must not be used after that.
    """

    def allowed(self) -> Bool[Tensor, "#rows V"]:
        """Return a mask of the tokens that may come next.

        At least one token is allowed. At the maximum length, EOS is always allowed.
        """

    def advance(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> Self:
        """Return the state after the next token.

        Args:
            rows: For each new row, the index of the old row that it continues. None if the rows stay the same.
            tokens: The token that is appended to each new row.
        """

    def join(self, other: Self) -> Self:
        """Return this state with the rows of `other` appended."""


class Constraint(Protocol):
    """Constraint on the tokens that a search may choose. It has no mutable state, so worker threads can share it.

    The search never chooses forbidden tokens. Allowed tokens keep the model's log-probabilities, without
    renormalisation. PAD and BOS are always forbidden, even without a constraint. If an output must start with a prefix,
    the state has a single row for this sentence until the end of the prefix.
    """

    def start(self, sources: Sequence[SearchInput], device: torch.device | str) -> ConstraintState:
        """Return the state before the first token of the output (or of its prefix), with one row per sentence.

        The caller must ensure that each sentence has an output that satisfies the constraint.
        """


@dataclass(frozen=True, slots=True)
class SuppressedTokens:
    """Constraint that forbids certain tokens, and EOS before `min_length` tokens. It can wrap another constraint.

    EOS is always allowed at the maximum length, and if the inner constraint allows no other token.

    Attributes:
        tokens: The suppressed token IDs.
        vocabulary_size: Size of the target vocabulary.
        inner: Another constraint, which must be satisfied as well.
        min_length: Minimum number of tokens, excluding EOS.
    """

    tokens: tuple[int, ...]
    vocabulary_size: int
    inner: Constraint | None = None
    min_length: int = 0

    def start(self, sources: Sequence[SearchInput], device: torch.device | str) -> _SuppressionState:
        """Return the state before the first token, with one row per sentence."""
        kept = torch.ones(1, self.vocabulary_size, dtype=torch.bool)
        kept[:, list(self.tokens)] = False
        missing = [min(self.min_length, source.max_length) for source in sources]
        inner = None if self.inner is None else self.inner.start(sources, device)
        return _SuppressionState(kept.to(device), torch.tensor(missing).to(device), max(missing), inner)


class _SuppressionState(NamedTuple):
    """State of `SuppressedTokens`.

    It consists of the allowed tokens, the number of tokens until EOS is allowed, and the state of the inner constraint.
    """

    kept: Bool[Tensor, "1 V"]
    missing: Int[Tensor, " rows"]
    max_missing: int
    """Upper bound on `missing`, on the host, to avoid waiting for the device."""
    inner: ConstraintState | None

    def allowed(self) -> Bool[Tensor, "#rows V"]:
        kept = self.kept
        if self.max_missing > 0:
            kept = kept.repeat(len(self.missing), 1)
            kept[:, EOS] = self.missing <= 0
        if self.inner is None:
            return kept
        inner = self.inner.allowed()
        kept = inner & kept
        if self.max_missing > 0:
            kept[:, EOS] |= inner[:, EOS] & ~kept.any(1)  # a complete tree, after which only EOS is allowed
        return kept

    def advance(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> _SuppressionState:
        missing = (self.missing if rows is None else self.missing[rows]) - 1
        inner = None if self.inner is None else self.inner.advance(rows, tokens)
        return _SuppressionState(self.kept, missing, self.max_missing - 1, inner)

    def join(self, other: _SuppressionState) -> _SuppressionState:
        inner = None if self.inner is None or other.inner is None else self.inner.join(other.inner)
        missing = torch.cat([self.missing, other.missing])
        return _SuppressionState(self.kept, missing, max(self.max_missing, other.max_missing), inner)


_STACK_GROWTH = 16  # brackets
_COUNTERS = 4
_OPENING, _WORD, _END = 1, 2, 4
"""Token classes, one bit each. A closing bracket must match the top of the stack."""


def min_tree_tokens(words: int) -> int:
    """Return the number of tokens in the shortest tree over `words` words. A single word needs no brackets."""
    return words if words == 1 else words + 2


class BracketConstraint:
    """Constraint that makes every output a well-formed bracketed tree over exactly the words in its sentence.

    The tree is one constituent or, for a single word, the word itself. A bracket may open if words are left and all
    brackets can still be closed within the maximum length. A closing bracket must match the constituent that was opened
    last, which must not be empty. The outermost bracket closes after the last word, and then only EOS is allowed. The
    words appear in the order of the sentence. If `SearchInput.words` gives the token of a word, only this token is
    allowed.
    """

    def __init__(
        self,
        opening: Sequence[int],
        closing: Sequence[int],
        words: Sequence[int],
        vocabulary_size: int,
        max_consecutive: int | None = None,
    ) -> None:
        """Build the constraint's lookup tables.

        Args:
            opening: Token IDs of the opening brackets, one for each label.
            closing: Token IDs of the closing brackets, in the same order.
            words: Token IDs of all words.
            vocabulary_size: Size of the target vocabulary.
            max_consecutive: Maximum number of consecutive opening brackets. If None, there is no limit.
        """
        opening, closing, words = list(opening), list(closing), list(words)
        self._kinds = np.zeros(vocabulary_size, np.int32)
        self._max_opening_run = np.iinfo(np.int64).max if max_consecutive is None else max_consecutive
        self._kinds[words] = 1
        for label, brackets in enumerate(zip(opening, closing, strict=True), 1):
            self._kinds[list(brackets)] = 2 * label, 2 * label + 1
        token_classes = torch.zeros(vocabulary_size, dtype=torch.uint8)
        token_classes[opening], token_classes[words], token_classes[EOS] = _OPENING, _WORD, _END
        reset = -(2**31)  # clamped to 0: no bracket has just opened
        effects = torch.tensor([0, 0, 0, reset, len(opening)]).repeat(vocabulary_size, 1)
        effects[words, 1] = -1
        effects[closing, 0] = -1
        effects[opening] = torch.tensor([1, 0, -1, 1, 0])
        effects[opening, _COUNTERS] = torch.arange(len(opening))
        closing_of_label = torch.tensor([*closing, PAD])
        self._tables = _Tables(effects, token_classes, closing_of_label, torch.tensor(self._max_opening_run))

    def start(self, sources: Sequence[SearchInput], device: torch.device | str) -> BracketState:
        """Return the state before the first token, with one row per sentence.

        The `max_length` of each sentence must be large enough for a complete tree.
        """
        tables = _Tables(*(table.to(device) for table in self._tables))
        limits = [_limits_of(source) for source in sources]
        counters = torch.tensor([[0, each.words, each.constituents, 0] for each in limits], device=device)
        stack = counters.new_full((len(sources), _STACK_GROWTH), len(tables.closing) - 1)
        max_length = max(source.max_length for source in sources)
        words = pad_sequences([[PAD, *reversed(each.word_tokens)] for each in limits], device)
        return BracketState(tables, counters, max_length, words, stack)

    def rules(self, sources: Sequence[SearchInput]) -> TreeRules:
        """Convert the constraint for these sentences to the form that a `SearchingDecoder` accepts."""
        return TreeRules(self._kinds, self._max_opening_run, [_limits_of(source) for source in sources])


def _limits_of(source: SearchInput) -> TreeLimits:
    """Return the limits on a sentence's tree. In `word_tokens` of the result, PAD allows any word token."""
    words = [PAD if token == UNK else token for token in source.words]
    return TreeLimits(len(words), (source.max_length - len(words)) // 2, words)


class _Tables(NamedTuple):
    """Lookup tables for the rules of `BracketConstraint`. To save memory, the tables have few entries per token."""

    effects: Int[Tensor, "V 5"]
    """Changes of the four counters for each token, and the label that the token pushes on the stack."""
    token_classes: UInt8[Tensor, " V"]
    """Class of each token as a bit; 0 for closing brackets."""
    closing: Int[Tensor, " labels+1"]
    """Closing bracket of each label. The last entry is PAD, for the empty stack."""
    max_opening_run: Int[Tensor, ""]
    """Maximum number of consecutive opening brackets."""


@dataclass
class BracketState:
    """Stack of open brackets and four counters for each hypothesis.

    The counters are, in this order: open brackets, words left, constituents that still fit into the maximum length, and
    consecutive opening brackets at the end. The bottom of each stack is a sentinel. Entries above the top of the
    stack are undefined.

    Attributes:
        tables: The rules, on the device of the batch.
        counters: The counters of each row.
        max_length: Maximum number of tokens in a hypothesis.
        words: Word tokens of each row. Entry n is the next word when n words are left. PAD allows any word token.
        stack: The stack of each row.
        tokens_read: Upper bound on the number of tokens that any row has read.
    """

    tables: _Tables
    counters: Int[Tensor, "rows 4"]
    max_length: int
    words: Int[Tensor, "rows words"]
    stack: Int[Tensor, "rows depth"]
    tokens_read: int = 0

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Return a mask of the tokens that may come next."""
        tables, (depth, words_left, _, opening_run) = self.tables, self.counters.chunk(_COUNTERS, 1)
        is_open, has_words, has_space, has_just_opened = (self.counters > 0).chunk(_COUNTERS, 1)
        next_word = self.words.gather(1, words_left)
        is_fixed = next_word != PAD
        may_open = has_words & has_space & (opening_run < tables.max_opening_run)
        may_write = has_words & (is_open | (words_left == 1))
        may_close = is_open & ~has_just_opened & ((depth > 1) | ~has_words)
        classes = may_open * _OPENING + (may_write & ~is_fixed) * _WORD + ~(is_open | has_words) * _END
        allowed = (classes.byte() & tables.token_classes).bool()
        allowed.scatter_(1, tables.closing[self.stack.gather(1, depth)], may_close)
        return allowed.scatter_(1, next_word, may_write & is_fixed)

    def advance(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> BracketState:
        """Return the state after one more token in each row (see `ConstraintState.advance`)."""
        if rows is not None:
            self.counters, self.stack = self.counters.index_select(0, rows), self.stack.index_select(0, rows)
            self.words = self.words.index_select(0, rows)
        self.tokens_read = min(self.tokens_read + 1, self.max_length + 1)
        if (capacity := self.stack.shape[1]) <= self.tokens_read:
            self.stack, capacity = torch.nn.functional.pad(self.stack, (0, _STACK_GROWTH)), capacity + _STACK_GROWTH
        effects = self.tables.effects.index_select(0, tokens)
        above_sentinel = self.stack.narrow(1, 1, capacity - 1)
        above_sentinel.scatter_(1, self.counters.narrow(1, 0, 1), effects.narrow(1, _COUNTERS, 1))
        # Counters of rows whose hypothesis has ended could fall below 0, because these rows take any token.
        self.counters.add_(effects.narrow(1, 0, _COUNTERS)).clamp_(min=0)
        return self

    def join(self, other: BracketState) -> BracketState:
        """Return this state with the rows of `other` appended."""
        self.stack = concatenate(self.stack, other.stack)
        self.counters = torch.cat([self.counters, other.counters])
        self.words = concatenate(self.words, other.words)
        self.max_length = max(self.max_length, other.max_length)
        self.tokens_read = max(self.tokens_read, other.tokens_read)
        return self

"""BPE codes from subword-nmt and fastBPE: lists of merges that split words into subwords (Sennrich et al. 2016)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

SEPARATOR = "@@"
"""Marker at the end of each subword, except the last subword of a word."""
_END = "</w>"
_VERSION = re.compile(r"#version: 0\.([12])(\.0+)*")
_CACHED_WORDS = 1 << 16
_MAX_CACHED_LENGTH = 64  # characters


class BPECodes:
    """BPE codes, which split words into subwords.

    Attributes:
        vocabulary: Known subwords with their separators, such as `lo@@`. Unknown subwords are split again. If the
            vocabulary is empty, all subwords are known.
    """

    def __init__(self, content: str, vocabulary: Collection[str] = ()) -> None:
        """Parse the content of a BPE codes file.

        The formats 0.1 and 0.2 of subword-nmt have one pair of symbols per line. The format of fastBPE adds a count to
        each line. In format 0.1, the end of a word is a separate symbol. In the others, it is part of the last symbol.

        Args:
            content: Content of the file.
            vocabulary: Known subwords, for codes that are applied with a vocabulary threshold.

        Raises:
            ValueError: The version is not supported, or a line is invalid.
        """
        self.vocabulary = frozenset(vocabulary)
        lines = content.rstrip("\n").split("\n")
        first, columns = 1, len(lines[0].split(" "))
        self._has_separate_end = columns == 2
        if lines[0].startswith("#"):
            version = _VERSION.fullmatch(lines[0].strip())
            if version is None:
                raise ValueError(f"`{lines[0][:50]}` is not a known version of BPE codes")
            self._has_separate_end = version[1] == "1"
            first, columns = 2, 2
            del lines[0]
        pairs = list[tuple[str, str]]()
        for number, line in enumerate(lines, start=first):
            symbols = line.strip("\r ").split(" ")
            if len(symbols) != columns or columns not in (2, 3) or not all(symbols):
                raise ValueError(f"line {number:,} is not a pair of symbols: `{line[:50]}`")
            pairs.append((symbols[0], symbols[1]))
        self._ranks = {pair: rank for rank, pair in reversed(list(enumerate(pairs)))}
        self._parts = {left + right: (left, right) for left, right in self._ranks}
        self._split_cached = lru_cache(_CACHED_WORDS)(self._split)

    def split(self, word: str) -> Sequence[str]:
        """Return the subwords of a word, without separators.

        If the codes file has format 0.1 and there is a vocabulary, the last subword may be empty, as in subword-nmt.
        """
        return self._split_cached(word) if len(word) <= _MAX_CACHED_LENGTH else self._split(word)

    def _split(self, word: str) -> tuple[str, ...]:
        if len(word) < 2:
            return (word,)
        *subwords, last = self._merge([*word, _END] if self._has_separate_end else [*word[:-1], word[-1] + _END])
        if last != _END:
            subwords.append(last.removesuffix(_END))
        if self.vocabulary:
            final = len(subwords) - 1
            subwords = [each for n, part in enumerate(subwords) for each in self._split_unknown(part, n == final)]
        return tuple(subwords)

    def _merge(self, symbols: list[str]) -> list[str]:
        """Merge pairs of symbols. Pairs with the lowest rank are merged first, from left to right.

        A heap makes the time almost linear in the length of the word, which may be 100,000 characters.
        """
        end = len(symbols)
        symbols = [*symbols, ""]  # no pair has an empty symbol, so nothing merges with the end or with merged symbols
        before, after = list(range(-1, end)), list(range(1, end + 1))
        ranks = ((self._ranks.get((symbols[i], symbols[i + 1])), i) for i in range(end))
        heap = [(rank, i) for rank, i in ranks if rank is not None]
        heapify(heap)
        while heap:
            rank, merged = heap[0][0], list[int]()
            while heap and heap[0][0] == rank:
                _, left = heappop(heap)
                right = after[left]
                if self._ranks.get((symbols[left], symbols[right])) != rank:
                    continue  # an earlier merge has changed this pair
                symbols[left] += symbols[right]
                symbols[right] = ""
                after[left] = after[right]
                before[after[left]] = left
                merged.append(left)
            for position in merged:
                for left in (before[position], position):
                    pair = symbols[left], symbols[after[left]] if left >= 0 else ""
                    if (new_rank := self._ranks.get(pair)) is not None:
                        heappush(heap, (new_rank, left))
        return [symbol for symbol in symbols if symbol]

    def _split_unknown(self, subword: str, is_final: bool) -> Iterator[str]:
        """Undo the merges of a subword until each part is in the vocabulary or cannot be split. Yield the parts."""
        pending = [(subword, is_final)]
        while pending:
            part, is_final = pending.pop()
            known = part if is_final else part + SEPARATOR
            left, right = self._parts.get(part + _END if is_final else part, ("", ""))
            if known in self.vocabulary or not left or (is_final and not right.endswith(_END)):
                yield part
            else:
                pending += [(right.removesuffix(_END) if is_final else right, is_final), (left, False)]

"""Sources that are longer than they should be, or have unknown characters: counted while they come, told once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specs import UNK
from zoo.generation.source import Source
from zoo.report import Report
from zoo.text.sentences import excerpt


@dataclass(frozen=True, slots=True)
class Split:
    """A text that is translated in parts; its translation starts with `prefix`, and `tokens` end with EOS."""

    index: int
    tokens: tuple[int, ...]
    parts: tuple[str, ...]
    prefix: str
    text: str


class Lengths:
    """`longest` is the longest source of the training, `most` the longest that is translated whole; in tokens.

    While it is entered it counts, at the end it tells `report`.
    """

    def __init__(self, longest: int | None, most: int, report: Report, unknown: str | None, parts: str) -> None:
        """`unknown` is what becomes of unknown `parts` (characters, words), None where that needs no warning."""
        self._consequence, self._parts = unknown, parts
        self._longest, self._most, self._report = longest, most, report
        self._all = self._long = self._split = self._unknown = 0
        self._longest_of: dict[bool, Source | Split] = {}  # of those that were split, and of the others
        self._first_unknown: Source | Split | None = None

    def count(self, several: Iterable[Source | Split]) -> None:
        """Takes note of what was read."""
        for each in several:
            split = isinstance(each, Split)
            self._all += 1
            self._split += split
            if UNK in each.tokens:
                self._unknown += 1
                self._first_unknown = self._first_unknown or each
            self._long += not split and self._longest is not None and len(each.tokens) - 1 > self._longest
            if split not in self._longest_of or len(self._longest_of[split].tokens) < len(each.tokens):
                self._longest_of[split] = each

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        """Warns, once, of all that were counted."""
        if self._long:
            self._report.warn(
                f"longer than any source in training ({self._longest:,} tokens): {self._long:,} of {self._all:,}, "
                f"{self._at_most(False)}; translated whole, but perhaps not well"
            )
        if self._split:
            self._report.warn(
                f"longer than `decoding.max_source_length` ({self._most:,} tokens): {self._split:,} of {self._all:,}, "
                f"{self._at_most(True)}; translated in parts, which end where sentences do"
            )
        if self._consequence and (first := self._first_unknown):
            self._report.warn(
                f"{self._parts} that the model does not know: in {self._unknown:,} of {self._all:,}, first in text "
                f"{first.index + 1:,} ({excerpt(first.text)}); {self._consequence}"
            )

    def _at_most(self, split: bool) -> str:
        longest = self._longest_of[split]
        return f"at most {len(longest.tokens) - 1:,} tokens, text {longest.index + 1:,} ({excerpt(longest.text)})"

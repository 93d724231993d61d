"""Kinds of spans: parts of a text that a translation must keep, such as amounts, dates, links and placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import time
from typing import Self

from zoo.text.notation import Notation, roman
from zoo.text.span_patterns import HALF_DAY, patterns_of

_FRACTIONS = frozenset(["1/2", "1/4", "3/4"])
_QUARTERS = (15, 30, 45)
"""Minutes of a time that a translation may write as a word, such as "half"."""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a text that a translation must keep, but may write in the notation of the target language.

    Attributes:
        start: Position of the first character.
        text: The characters.
        values: The possible values of the text. For example, "1.234" may be 1234 or 1.234.
        spellings: How the span may be written in a translation, with the best spelling first.
        unit: The unit of an amount, such as `km`, or an empty string.
        small: The value of a number that may be written as a word, such as "three". Otherwise None.
        minutes: The possible meanings of a time, in minutes after midnight. Empty if the span cannot be a time.
        noun: A word that the translation must also contain, such as "century" for "XIX". Empty if there is none.
        ends_sentence: Whether only a full stop follows the span.
    """

    start: int
    text: str
    values: frozenset[Hashable]
    spellings: tuple[str, ...] = field(compare=False)
    unit: str = ""
    small: int | None = None
    minutes: tuple[int, ...] = ()
    noun: str = field(default="", compare=False)
    ends_sentence: bool = field(default=False, compare=False)

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    @property
    def readings(self) -> frozenset[Hashable]:
        """The values, and the times of day. Two spans agree if they have a reading in common."""
        return self.values.union(time(*divmod(minutes, 60)) for minutes in self.minutes)

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text in a language contains the span, literally or as words."""
        return False

    def has_word_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains a word for a small number, such as "three"."""
        words = patterns_of(notation.code).small
        return self.small is not None and self.small < len(words) and bool(words[self.small].search(text))


class LiteralSpan(Span):
    """Span that is copied literally, such as a link, a placeholder or the name of a person. The value is the text."""

    __slots__ = ()

    @classmethod
    def at(cls, start: int, text: str) -> Self:
        """Create the span of a text at a position."""
        return cls(start, text, frozenset([text]), (text,))

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the span as a separate word."""
        edges = r"(?<!\w)" * self.text[0].isalnum(), r"(?![\w/])" * self.text[-1].isalnum()
        return re.search(f"{edges[0]}{re.escape(self.text)}{edges[1]}", text) is not None


@dataclass(frozen=True, slots=True)
class CalendarSpan(Span):
    """Name of a month or weekday. The value is the index of the name in the months, followed by the weekdays."""

    values: frozenset[int]

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the name in the language of the notation."""
        names = patterns_of(notation.code).names
        return any(names[index].search(text) for index in self.values)


class DateSpan(Span):
    """Date with a year, in digits.

    The value is a tuple of the day, the month and the last two digits of the year in ascending order, because languages
    differ in the order of these numbers.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NumberSpan(Span):
    """Number, amount, phone number, or time of day. The values are decimal numbers."""

    values: frozenset[str]

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the number in words, as a range or as a Roman numeral."""
        if any(each(text, notation) for each in (self.has_word_in, self.has_ends_in, self._has_roman_in)):
            return True
        patterns = patterns_of(notation.code)
        spoken = {notation.spoken_forms.get(words.casefold()) for words in patterns.spoken.findall(text)}
        if spoken.intersection(minutes % HALF_DAY for minutes in self.minutes):
            return True
        if not (self.values & _FRACTIONS or any(minutes % 60 in _QUARTERS for minutes in self.minutes)):
            return False
        rest = patterns.spoken.sub("", text)  # other times in words, such as "half past six", are not this time
        if re.search(notation.quarters, rest, re.IGNORECASE):
            return True
        hours = {minutes // 60 % 12 or 12 for minutes in self.minutes}
        words = [word for hour in hours for word in patterns.small[hour : hour + 1]]  # such as "neun Uhr dreißig"
        return bool(patterns.large.search(rest)) and any(word.search(rest) for word in words)

    def has_ends_in(self, text: str, notation: Notation) -> bool:
        """Return whether the span is a range such as "5-10", and a text contains both numbers, such as "5 to 10"."""
        ranges = (re.fullmatch(r"(\d+)-(\d+)", value) for value in self.values)
        separator = rf"\s?(?:[-–—]|{notation.ranges})\s?"
        return any(ends and re.search(rf"(?<!\d){ends[1]}{separator}{ends[2]}(?!\d)", text) for ends in ranges)

    def _has_roman_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the number (up to 39) as a Roman numeral, such as "siglo XIX" for "19th"."""
        ending, small = notation.roman_ending, [each for each in self.values if re.fullmatch("[1-3]?[0-9]", each)]
        return ending is not None and any(re.search(rf"\b{roman(int(each))}{ending}\b", text) for each in small)


def match_spans(
    spans: Iterable[Span], others: Sequence[Span], keys: Callable[[Span], Iterable[Hashable]]
) -> list[tuple[Span, Span]]:
    """Pair each span with the first unused span in `others` that shares a key with it.

    Spans without a partner are omitted.

    Args:
        spans: The spans, in order of priority.
        others: The spans to choose from. Each span is used at most once.
        keys: Function that returns the keys of a span, such as its readings.
    """
    numbers: dict[Hashable, list[int]] = {}
    for number in reversed(range(len(others))):
        for key in keys(others[number]):
            numbers.setdefault(key, []).append(number)
    pairs, used = list[tuple[Span, Span]](), set[int]()
    for span in spans:
        free = []
        for candidates in (numbers.get(key, []) for key in keys(span)):
            while candidates and candidates[-1] in used:
                candidates.pop()
            free += candidates[-1:]
        if free:
            used.add(min(free))
            pairs.append((span, others[min(free)]))
    return pairs

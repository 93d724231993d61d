"""Kinds of spans: parts of a text that a translation must keep, such as amounts, dates, links and placeholders."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

from zoo.text.notation import Notation, roman
from zoo.text.span_patterns import HALF_DAY, patterns_of

_FRACTIONS = frozenset(["1/2", "1/4", "3/4"])
_QUARTERS = (15, 30, 45)
"""Minutes of a time that a translation may write as a word, such as "half"."""
_PLAIN_NUMBER = re.compile(r"\d+(?:\.º?|er?|s)?")
"""A number that a translation may write as a word. Models often write English ordinals, such as "2nd", wrongly."""
_CONTINUES = re.compile(r"\s[a-zäöü]")
_DETERMINER = re.compile(r"\b(?:a|the|this|every|each)\s$", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """Part of a text that a translation must keep, but may write in the notation of the target language.

    Attributes:
        start: Position of the first character.
        text: The span as it is written in the text.
        values: The possible values of the text. For example, "1.234" may be 1234 or 1.234. Two spans agree if they have
            a value in common.
        spellings: How the span may be written in a translation, with the best spelling first.
    """

    start: int
    text: str
    values: frozenset[Hashable]
    spellings: tuple[str, ...] = field(compare=False)

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    @property
    def keys(self) -> frozenset[Hashable]:
        """The keys that identify matching spans: the values or, for an amount, pairs of a value and the unit.

        In a sentence pair, spans that share a key get the same copy symbol.
        """
        return self.values

    @property
    def may_be_word(self) -> bool:
        """Whether a translation may write the whole span as a word. Copy symbols do not replace such spans."""
        return False

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text in the language of `notation` contains the span, literally or in words."""
        return False

    def written(self, before: str, ending: str, after: str) -> str:
        """Return the best spelling with its ending, adapted to the surrounding translation.

        Args:
            before: The translation before the span.
            ending: The ending of a time or an ordinal that the model has written after the span, such as a dot.
            after: The translation after the ending.
        """
        return _joined(self.spellings[0], ending)


class LiteralSpan(Span):
    """Span that is copied literally, such as a link, a placeholder or the name of a person."""

    @classmethod
    def at(cls, start: int, text: str) -> Self:
        """Create a span from its start position and its text."""
        return cls(start, text, frozenset([text]), (text,))

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the span as a separate word."""
        edges = r"(?<!\w)" * self.text[0].isalnum(), r"(?![\w/])" * self.text[-1].isalnum()
        return re.search(f"{edges[0]}{re.escape(self.text)}{edges[1]}", text) is not None


@dataclass(frozen=True)
class CalendarSpan(Span):
    """Name of a month or weekday. The value is its index in the list of months followed by weekdays."""

    values: frozenset[int]
    may_be_word = True

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the month or weekday, in the language of `notation`."""
        names = patterns_of(notation.code).names
        return any(names[index].search(text) for index in self.values)


class DateSpan(Span):
    """Date with a year, in digits.

    The value is a tuple of the day, the month and the last two digits of the year. The tuple is sorted, because
    languages write these numbers in different orders.
    """

    def written(self, before: str, ending: str, after: str) -> str:
        """Return the date and its ending. A dot within a sentence is dropped (see `_inner_ending`)."""
        return _joined(self.spellings[0], _inner_ending(ending, after))


@dataclass(frozen=True)
class NumberSpan(Span):
    """Number, or phone number. The values are decimal numbers.

    Attributes:
        small: The value, if the number may be written as a word such as "three". Otherwise None.
    """

    values: frozenset[str]
    small: int | None = None

    @property
    def may_be_word(self) -> bool:
        """Whether the number may be written as a word. False for numbers with a unit or a currency."""
        return self.small is not None and _PLAIN_NUMBER.fullmatch(self.spellings[-1]) is not None

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the number in words, as a Roman numeral or, for a range, as two numbers."""
        is_found = any(each(text, notation) for each in (self.has_word_in, self.has_ends_in, self._has_roman_in))
        return is_found or (not _FRACTIONS.isdisjoint(self.values) and _has_quarter(text, notation))

    def has_word_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains a word for the number, if the number is small."""
        words = patterns_of(notation.code).small
        return self.small is not None and self.small < len(words) and bool(words[self.small].search(text))

    def has_ends_in(self, text: str, notation: Notation) -> bool:
        """Return whether the span is a range such as "5-10", and a text contains both numbers, such as "5 to 10"."""
        ranges = (re.fullmatch(r"(\d+)-(\d+)", value) for value in self.values)
        separator = rf"\s?(?:[-–—]|{notation.ranges})\s?"
        return any(ends and re.search(rf"(?<!\d){ends[1]}{separator}{ends[2]}(?!\d)", text) for ends in ranges)

    def _has_roman_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains the number (up to 39) as a Roman numeral, such as "siglo XIX" for "19th"."""
        ending, small = notation.roman_ending, [each for each in self.values if re.fullmatch("[1-3]?[0-9]", each)]
        return ending is not None and any(re.search(rf"\b{roman(int(each))}{ending}\b", text) for each in small)


@dataclass(frozen=True)
class AmountSpan(NumberSpan):
    """Number with a unit, such as `km`."""

    unit: str = ""

    @property
    def keys(self) -> frozenset[Hashable]:
        """The keys that identify matching spans: pairs of a possible value and the unit."""
        return frozenset((value, self.unit) for value in self.values)


@dataclass(frozen=True)
class TimeSpan(NumberSpan):
    """Time of day, in digits or in words.

    The values are times in ISO 8601 notation, such as "T09:30". For a full hour, as in "9 o'clock", the hour is also a
    value.

    Attributes:
        minutes: The possible times of day, in minutes after midnight.
    """

    minutes: tuple[int, ...] = ()
    may_be_word = False

    def is_in(self, text: str, notation: Notation) -> bool:
        """Return whether a text contains words for the time or for its hour."""
        patterns = patterns_of(notation.code)
        spoken = {notation.spoken_forms.get(words.casefold()) for words in patterns.spoken.findall(text)}
        if super().is_in(text, notation) or spoken.intersection(minutes % HALF_DAY for minutes in self.minutes):
            return True
        hours = {minutes // 60 % 12 or 12 for minutes in self.minutes if minutes % 60 in _QUARTERS}
        words = [word for hour in hours for word in patterns.small[hour : hour + 1]]  # such as "neun Uhr dreißig"
        rest = patterns.spoken.sub("", text)
        has_words = patterns.large.search(rest) is not None and any(word.search(rest) for word in words)
        return has_words or (bool(hours) and _has_quarter(text, notation))

    def written(self, before: str, ending: str, after: str) -> str:
        """Return the time and its ending. If the time is in words, drop any ending except a dot."""
        spelling = self.spellings[0]
        if re.search(r"\d", spelling):
            return _joined(spelling, ending)
        if _DETERMINER.search(before):
            spelling = spelling.removeprefix("a ")  # "the quarter past nine train"
        if not re.search(r"\w", before) and (self.start or self.text[0].isupper()):
            spelling = spelling[0].upper() + spelling[1:]
        return _joined(spelling, "." if ending == "." else "")


@dataclass(frozen=True)
class CenturySpan(NumberSpan):
    """Century in Roman numerals.

    Attributes:
        noun: The word for "century" in the target language. If it is not "", the translation must also contain it.
    """

    noun: str = field(default="", compare=False)

    def written(self, before: str, ending: str, after: str) -> str:
        """Return the number and its ending. Add the word for "century" if the translation does not contain it."""
        if self.noun.casefold() in f"{before}\n{after}".casefold():
            return _joined(self.spellings[0], ending)
        return _joined(f"{self.spellings[0]} {self.noun}", _inner_ending(ending, after))


def _joined(spelling: str, ending: str) -> str:
    """Append an ending to a spelling, unless the spelling already has this ending."""
    return spelling if spelling.endswith(ending) or ending.strip() in spelling.split() else spelling + ending


def _inner_ending(ending: str, after: str) -> str:
    """Return the ending, or "" if the ending is a dot and the sentence continues after the dot.

    Such a dot belongs to an ordinal, as in "am 13. um 9 Uhr".
    """
    return "" if ending == "." and _CONTINUES.match(after) else ending


def _has_quarter(text: str, notation: Notation) -> bool:
    """Return whether a text contains a word for a quarter or half, except in times such as "half past six"."""
    rest = patterns_of(notation.code).spoken.sub("", text)
    return re.search(notation.quarters, rest, re.IGNORECASE) is not None


def match_spans(
    spans: Iterable[Span], others: Sequence[Span], keys: Callable[[Span], Iterable[Hashable]]
) -> list[tuple[Span, Span]]:
    """Pair each span with the first unused span in `others` that shares a key with it.

    Spans without a partner are omitted.

    Args:
        spans: The spans, in order of priority.
        others: The spans to choose from. Each span is used at most once.
        keys: Function that returns the keys of a span, such as its values.
    """
    numbers = defaultdict[Hashable, deque[int]](deque)
    for number, other in enumerate(others):
        for key in keys(other):
            numbers[key].append(number)
    pairs, used = list[tuple[Span, Span]](), set[int]()
    for span in spans:
        queues = [numbers[key] for key in keys(span)]
        for queue in queues:
            while queue and queue[0] in used:
                queue.popleft()
        if free := [queue[0] for queue in queues if queue]:
            used.add(min(free))
            pairs.append((span, others[min(free)]))
    return pairs

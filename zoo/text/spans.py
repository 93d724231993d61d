"""Find spans that a translation must keep, such as amounts, dates, links and placeholders, and compare them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from zoo.text.language_codes import base_language
from zoo.text.notation import Notation, listed_names, notation_of, number_values, roman
from zoo.text.span_kinds import (
    AmountSpan,
    CalendarSpan,
    CenturySpan,
    DateSpan,
    LiteralSpan,
    NumberSpan,
    Span,
    TimeSpan,
    match_spans,
)
from zoo.text.span_patterns import CURRENCIES, HALF_DAY, LARGEST_WORD, PLAIN, patterns_of

_LAST_DAY, _LAST_MONTH = 31, 12
_MAX_CAPITALISED = 0.6
"""Share of capitalised words above which a text is a heading, in which capitals do not mark names."""
_MAX_BEFORE = 20
"""Number of characters before a span in which to search for words that change its meaning."""
_NUMBER_AT_END = re.compile(r"(?<=[^\W\d])\d+$")


def never(word: str) -> bool:
    """Return False. Pass this function as `is_rare` if no word counts as rare."""
    return False


class Differences(NamedTuple):
    """Numbers, links and the like that differ between a text and its translation."""

    missing: list[Span]
    """Spans in the text that are missing from the translation."""
    added: list[Span]
    """Numbers that the translation has added or repeated."""
    as_words: list[Span]
    """Numbers that the translation may contain as words."""


def find_spans(text: str, source: str, target: str = "") -> list[Span]:
    """Return the spans in a text that a translation must keep, such as numbers and links, in order.

    Args:
        text: Text in which to find spans.
        source: Language code of the text. The language determines what a comma in a number means.
        target: Language code of the translation. It determines how the spans are spelled in the translation.
    """
    notation = notation_of(base_language(source))
    if PLAIN.fullmatch(text) and not patterns_of(notation.code).in_plain.search(text):
        return []  # the pattern of all spans takes thirty times as long
    reader = _SpanReader(text, notation, notation_of(base_language(target)))
    return [span for match in reader.matches if (span := reader.read(match))]


def find_names(text: str, source: str, target: str, is_rare: Callable[[str], bool] = never) -> list[LiteralSpan]:
    """Find the words in a text that belong to names. Return an empty list for languages without a file in `notations/`.

    Names are words after titles such as "Mr", the names in `names.txt`, and rare words that are capitalised within
    a sentence. In German, all nouns are capitalised, so rare words do not count as names.

    Args:
        text: Text in which to find names.
        source: Language code of the text.
        target: Language code of the translation.
        is_rare: Function that returns whether a word is so rare that a model probably cannot translate or copy it.
    """
    codes = base_language(source), base_language(target)
    if not all(notation_of(code).code for code in codes):
        return []
    patterns, not_names = patterns_of(codes[0]), notation_of(codes[0]).not_names
    names = {word for match in patterns.title.finditer(text) for word in (match["names"] or "").split()}
    names.update(listed_names().intersection(patterns.word.findall(text)))
    if not_names and sum(word[0].isupper() for word in text.split()) <= _MAX_CAPITALISED * len(text.split()):
        for word in patterns.capitalised.findall(text):
            is_known = word.isupper() or not_names.intersection([word, *re.split("['’-]", word)])
            if not is_known and is_rare(word):
                names.add(word)
    return [LiteralSpan.at(match.start(), match[0]) for match in patterns.word.finditer(text) if match[0] in names]


def needs_translation(text: str) -> bool:
    """Return whether a text has letters outside links, placeholders and the like."""
    return any(map(str.isalpha, patterns_of("").span.sub(lambda match: " " if match["literal"] else match[0], text)))


def compare(source: str, target: str, source_language: str, target_language: str) -> Differences:
    """Compare the numbers, links and the like in a text and its translation.

    A whole number up to twelve may be in digits or in words, and may occur more than once in the translation.

    Args:
        source: Source text.
        target: Translation of the source text.
        source_language: Language code of the source text.
        target_language: Language code of the translation.
    """
    codes = base_language(source_language), base_language(target_language)
    from_notation, notation = map(notation_of, codes)
    wanted, found = find_spans(source, *codes), find_spans(target, codes[1])
    matches = match_spans(wanted, found, lambda span: span.values)
    matched, unmatched = {span for span, _ in matches}, {*found}.difference(other for _, other in matches)
    forms = notation.unit_forms | notation.unclear_forms
    units = {forms.get(form.casefold(), "") for form in patterns_of(notation.code).unit.findall(target)}
    units = (units | {span.unit for span in found if isinstance(span, AmountSpan)}) - {""}
    literals = {span for span in (*wanted, *found) if isinstance(span, LiteralSpan)}
    numbers = [span for span in found if isinstance(span, NumberSpan)]
    ranges = {span for span in numbers if span.has_ends_in(source, from_notation)}
    small = {span for span in wanted if isinstance(span, NumberSpan) and span.small is not None}
    parts = {number for span in ranges for number in re.findall(r"\d+", span.text)}
    parts |= {number for span in literals.intersection(found) for number in _NUMBER_AT_END.findall(span.text)}
    missing, as_words = list[Span](), list[Span]()
    for span in wanted:
        if isinstance(span, AmountSpan) and span.unit not in units and (notation.small or units):
            missing.append(span)
        elif span not in matched and span.is_in(target, notation):
            as_words += [] if span in literals else [span]
        elif span not in matched and span.text not in parts:
            missing.append(span)
    known = {value for span in small for value in span.values}
    known |= {number for span in as_words for number in re.findall(r"\d+", span.text)}  # "half past 9" for "9:30"
    others = unmatched - ranges - literals
    added = [span for span in found if span in others and not span.values & known]
    if (not notation.small and not added) or re.search(from_notation.parts_of_hours, source, re.IGNORECASE):
        as_words += [span for span in missing if span in small]
        missing = [span for span in missing if span not in small]
    if (not from_notation.small and not missing) or patterns_of(from_notation.code).large.search(source):
        added = []
    spelled = {span for span in numbers if span.has_word_in(source, from_notation)}
    return Differences(missing, [span for span in added if span not in spelled], as_words)


class _SpanReader:
    """Reader for the spans in a text. Each kind of span has its own method `_read_KIND`, such as `_read_date`.

    Attributes:
        matches: Regular expression matches for the parts of the text that may be spans.
    """

    def __init__(self, text: str, source: Notation, target: Notation) -> None:
        """Find the parts of a text that may be spans.

        Args:
            text: Text in which to find spans.
            source: Notation of the text.
            target: Notation of the translation.
        """
        self._text, self._source, self._target, self._patterns = text, source, target, patterns_of(source.code)
        self.matches = list(self._patterns.span.finditer(text))
        # A text in one other script is an error.
        self._keeps_foreign = bool(target.code and re.search("[a-zA-Z]", text))

    def read(self, match: re.Match[str]) -> Span | None:
        """Read the span that one of `matches` found. Return None if the translation need not keep it."""
        span: Span | None = getattr(self, f"_read_{match.lastgroup}")(match)
        return span

    def _read_literal(self, match: re.Match[str]) -> Span:
        return LiteralSpan.at(match.start(), match[0].rstrip())

    def _read_foreign(self, match: re.Match[str]) -> Span | None:
        """Read words in a foreign script, which are copied.

        Return None if the target language may use this script, or if the text has no Latin letters.
        """
        return self._read_literal(match) if self._keeps_foreign else None

    def _read_century(self, match: re.Match[str]) -> Span:
        """Read a century in Roman numerals."""
        digits = match[0].rstrip("erèm")
        number = next(number for number in range(1, 40) if roman(number) == digits)
        ordinal = f"{number}{self._target.ending(str(number), is_ordinal=True, is_day=False)}"
        spelling = digits if self._target.roman_ending == "" else ordinal
        small, noun = number if number <= LARGEST_WORD else None, self._target.century_noun
        return CenturySpan(match.start(), match[0], frozenset([str(number)]), (spelling, match[0]), small, noun)

    def _read_name(self, match: re.Match[str]) -> Span | None:
        """Read the name of a month or weekday."""
        if not self._target.months:
            return None
        index = next(index for index, each in enumerate(self._patterns.names) if each.fullmatch(match[0]))
        months = [names.split("|")[:1] for names in self._target.months]
        names = [*months, *(names.split("|") for names in self._target.weekdays)][index]
        return CalendarSpan(match.start(), match[0], frozenset([index]), tuple(names))

    def _read_date(self, match: re.Match[str]) -> Span:
        """Read a date with a year. If the order of day and month is clear, rewrite the date for the target language."""
        numbers, spelling, mark = re.findall(r"\d+", match[0]), match[0], self._target.date_mark
        follows_sign = self._text.endswith(("/", "=", ":", "\\"), 0, match.start())
        if mark and self._month_first is not None and not (match["ymd"] or follows_sign or self._is_named(match)):
            day, month = numbers[1::-1] if self._month_first else numbers[:2]
            is_date = 1 <= int(day) <= _LAST_DAY and 1 <= int(month) <= _LAST_MONTH
            if is_date and re.fullmatch("(19|20)[0-9]{2}", numbers[2]):
                spelling = mark.join([day, month, numbers[2]])
        value = tuple(sorted(int(each) % 100 for each in numbers))
        return DateSpan(match.start(), match[0], frozenset([value]), (spelling,))

    @cached_property
    def _month_first(self) -> bool | None:
        """Whether the dates in the text begin with the month, or None if this is unknown or varies between dates."""
        if self._source.date_mark:
            return False
        dates = (match[0] for match in self.matches if match["dmy"])
        numbers = [list(map(int, re.findall(r"\d+", date)[:2])) for date in dates]
        orders = {second > _LAST_MONTH for first, second in numbers if max(first, second) > _LAST_MONTH}
        return orders.pop() if len(orders) == 1 else None

    def _read_short(self, match: re.Match[str]) -> Span:
        """Read a German date without a year, such as "24.12." after "am"."""
        (day, month), mark = re.findall(r"\d+", match[0]), self._target.date_mark
        stop = "" if re.search(r"\w", self._text[match.end() :]) else "."
        spelling = f"{day}{mark}{month}{stop}" if mark else match[0]
        values = frozenset([f"{day}/{month}", *number_values(f"{day}.{month}", ".")])
        return NumberSpan(match.start(), match[0], values, (spelling,))

    def _read_spoken(self, match: re.Match[str]) -> Span | None:
        """Read a time in words, such as "half past nine"."""
        minutes = self._source.spoken_forms.get(match[0].casefold())  # None for "fıve": patterns also match a dotless i
        spellings = tuple(words for words, each in self._target.spoken_minutes.items() if each == minutes)
        is_other = self._patterns.not_before_spoken.search(self._text, *_before(match))
        if is_other or minutes is None or not spellings:
            return None
        both = minutes, minutes + HALF_DAY
        return TimeSpan(match.start(), match[0], _times(both), spellings[-1:], None, both)

    def _read_phone(self, match: re.Match[str]) -> Span:
        return NumberSpan(match.start(), match[0], frozenset([re.sub(r"[^\d+]", "", match[0])]), (match[0],))

    def _read_time(self, match: re.Match[str]) -> TimeSpan:
        hour, minute = int(match["hour"]), int(match["minute"] or (match["dotted"] or match["point"] or ".0")[1:])
        clock, first = self._clock(match), hour % 24 * 60 + minute
        start = self._start_of_range(match, first)
        minutes: tuple[int, ...] = (first,)
        if start is not None:
            minutes = (start,)
        elif clock in ("am", "pm"):
            minutes = (first % HALF_DAY + (clock == "pm") * HALF_DAY,)
        elif 0 < hour <= LARGEST_WORD and clock != "day" and (clock or not self._source.reads_24_hours):
            minutes = (first, (first + HALF_DAY) % (2 * HALF_DAY))
        values = _times(minutes).union([] if minute or clock in ("am", "pm") else [str(hour)])  # "at 9" for "um 9 Uhr"
        small = None if minute else (hour - 1) % 12 + 1
        is_last = match.end() == len(self._text) and re.match(self._source.sentence, self._text)
        text = match[0].removesuffix("." * bool(is_last))  # the dot of "a.m." is also the full stop
        spellings = self._target.write_times(minutes) if clock or start is not None else []
        return TimeSpan(match.start(), text, values, tuple(spellings) or (text,), small, minutes)

    def _clock(self, match: re.Match[str]) -> str:
        """Return the key in `Notation.clock` that applies to a time, or "" for a time with a colon and no words."""
        if marker := _marker(match):
            clocks = self._patterns.clock.items()
            return next(clock for clock, each in clocks if each.fullmatch(self._text, *match.span(marker)))
        return "" if match["colon"] else "day" if self._source.reads_24_hours else "either"

    def _start_of_range(self, match: re.Match[str], minutes: int) -> int | None:
        """Return the start of a time range such as "3 to 5 p.m.", in minutes after midnight, or None for other times.

        The first time may be a.m. or p.m. Choose the latest meaning that is before the second time.
        """
        is_start = match["until"] is not None and not _marker(match)
        end = self._patterns.span.search(self._text, match.end()) if is_start else None
        if not (end and end["time"]):
            return None
        halves = [minutes % HALF_DAY, minutes % HALF_DAY + HALF_DAY]
        if self._source.reads_24_hours and not end["half"]:
            halves = [minutes]
        last = self._read_time(end).minutes[0]
        return max((each for each in halves if each < last), default=halves[-1])

    def _read_number(self, match: re.Match[str]) -> Span:
        number = re.sub(r"\d", lambda digit: str(int(digit[0])), match["value"])  # to ASCII digits
        values = number_values(number, self._source.decimal_marks)
        unit = self._source.unit_forms.get(_symbol(match).casefold(), "")
        spellings = [self._amount(match, number, value, unit) for value in values]
        if self._target.group == "\u202f":
            spellings += [each.replace("\u202f", " ") for each in spellings if "\u202f" in each]
        single = re.fullmatch(r"\d+([.,])\d+", number)
        # "2.80" may be a section or a time, but "€2.80" is the same amount in all languages, unlike "€2.80bn".
        is_scaled = match["scale"] or (match["before"] and self._text[match.end("value") :][:1].isalpha())
        is_amount = unit and not is_scaled and not self._is_word(match, unit)
        is_clear = re.fullmatch(r"[1-9]\d{0,2}.\d{3}", number) or (is_amount and re.fullmatch(r"\d+.\d\d?", number))
        if self._is_named(match) or (single and single[1] not in self._source.decimal_marks and not is_clear):
            spellings = [match[0]]
        sign, is_short = _sign(match), number.isdecimal() and len(number) <= 2
        is_small = is_short and int(number) <= LARGEST_WORD and not (sign or match["numero"])
        small = int(number) if is_small else None
        signed = frozenset("-" * bool(sign) + each for each in values)
        start, spelled = match.start(), tuple(spellings)
        if not (sign or unit) and len(number) <= len("21") and self._patterns.hours.match(self._text, match.end()):
            # Without a preposition, "21 h" may be a time or a duration.
            minutes = tuple(int(number) % 12 * 60 + half for half in (0, HALF_DAY))
            return TimeSpan(start, match[0], signed | _times(minutes), spelled, small, minutes)
        parts = start, match[0], signed, spelled, small
        return AmountSpan(*parts, unit) if unit else NumberSpan(*parts)

    def _amount(self, match: re.Match[str], number: str, value: str, unit: str) -> str:
        """Write a number with its unit in the notation of the target language.

        Args:
            match: Regular expression match of the number.
            number: The number in ASCII digits.
            value: A possible value of the number (see `number_values`).
            unit: The unit, such as `km`, or an empty string.
        """
        source, target = self._source, self._target
        if match["numero"]:
            return f"{target.numero} {target.write_number(value, number)}" if target.numero else match[0]
        per = f"/{(target.per or source.per)[source.per.index(match['per'])]}" if match["per"] else ""
        scale = match["scale"] or ""
        if forms := target.scales.get(source.scale_forms.get(scale.strip().casefold(), "")):
            scale = f" {target.in_number(forms, value)}"
        amount = self._count(match, number, value) + scale
        if _is_currency(match, unit) and target.currency_first:
            return f"{_sign(match)}{unit}{amount}{per}"
        return f"{_sign(match)}{amount}{self._unit(match, unit, value)}{per}"

    def _count(self, match: re.Match[str], number: str, value: str) -> str:
        """Write a number, with the ending of an ordinal or a decade, but without its unit."""
        target = self._target
        may_be_day = value.isdecimal() and len(value) <= 2
        follows_month = may_be_day and self._patterns.before_day.search(self._text, *_before(match))
        is_day = bool(follows_month or (may_be_day and self._patterns.after_day.match(self._text, match.end())))
        count = target.write_number(value, number) + target.ending(value, bool(match["ordinal"]), is_day)
        may_be_decade = match["decade"] != "s" or len(value) > 2 or value.endswith("0")
        is_decade = match["decade"] or (match["decade"] == "" and target.decade.startswith("{"))
        return target.decade.format(count) if may_be_decade and is_decade else count

    def _unit(self, match: re.Match[str], unit: str, value: str) -> str:
        """Return the unit in the target language, preceded by a space if the language requires one."""
        target, symbol = self._target, _symbol(match)
        if match["scale"] and unit in target.scaled_units:
            return target.scaled_units[unit]
        if match["before"] or (_is_currency(match, unit) and target.code):
            return f" {unit}"
        if symbol == "%" and target.code:
            return target.percent
        written = match["unit"] or ""
        if unit not in target.units or not self._is_word(match, unit):
            return written
        forms = target.units[unit]
        if written.startswith("-"):
            return target.unit_after_hyphen.format(singular=forms[0], plural=forms[-1])
        return f" {target.in_number(forms, value)}"

    def _is_word(self, match: re.Match[str], unit: str) -> bool:
        """Return whether the unit of a number is a word in the source language, such as "metres", not a symbol."""
        return _symbol(match).casefold() in map(str.casefold, self._source.units.get(unit, ()))

    def _is_named(self, match: re.Match[str]) -> bool:
        """Return whether a word such as "version" or "chapter" precedes a number."""
        return self._patterns.named.search(self._text, *_before(match)) is not None


def _times(minutes: Iterable[int]) -> frozenset[str]:
    """Convert minutes after midnight to times such as "T09:30"."""
    return frozenset(f"T{each // 60:02}:{each % 60:02}" for each in minutes)


def _before(match: re.Match[str]) -> tuple[int, int]:
    """Return the start and end of the text in which to search for words before a match."""
    return max(match.start() - _MAX_BEFORE, 0), match.start()


def _marker(match: re.Match[str]) -> str | None:
    """Return the name of the group that matched words such as "p.m." after a time, or None if there are none."""
    return next((group for group in ("clock", "half", "marked") if match[group]), None)


def _sign(match: re.Match[str]) -> str:
    """Return the sign of a number. A word such as "minus" becomes "-"."""
    sign = match["debt"] or match["sign"] or ""
    return "-" if sign.strip().isalpha() else sign


def _symbol(match: re.Match[str]) -> str:
    """Return the unit before or after a number, as it is written."""
    return (match["before"] or match["form"] or "").strip()


def _is_currency(match: re.Match[str], unit: str) -> bool:
    """Return whether a number has a currency symbol, such as "€", or a currency code before the number."""
    return unit in CURRENCIES and (_symbol(match) == unit or bool(match["before"]))

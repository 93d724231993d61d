"""Find spans that a translation must keep, such as amounts, dates, links and placeholders, and compare them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from zoo.text.language_codes import base_language
from zoo.text.notation import Notation, listed_names, notation_of
from zoo.text.span_patterns import CURRENCIES, HALF_DAY, LARGEST_WORD, PLAIN, patterns_of

_LONGEST_NUMBER = 40
_LAST_DAY, _LAST_MONTH = 31, 12
_MAX_CAPITALISED = 0.6
"""Share of capitalised words above which a text is a heading, in which capitals do not mark names."""


def never(word: str) -> bool:
    """Return False. Pass this function as `is_rare` if no word counts as rare."""
    return False


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a text that a translation must keep, but may write in the notation of the target language.

    Attributes:
        start: Position of the first character.
        text: The characters.
        readings: The possible values of the text. For example, "1.234" may be 1234 or 1.234. Two spans agree if they
            have a value in common.
        unit: The unit of an amount, such as `km`, or an empty string.
        numeric: Whether the span is an amount, a date, a month, a weekday, a time or a phone number. Other spans are
            copied literally.
        ends_sentence: Whether only a full stop follows the span.
        small: The value of a number that may be written as a word, such as "three". Otherwise -1.
        spellings: How the span may be written in a translation, with the best spelling first.
    """

    start: int
    text: str
    readings: frozenset[str]
    unit: str = ""
    numeric: bool = True
    small: int = -1
    ends_sentence: bool = field(default=False, compare=False)
    spellings: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def literal(cls, start: int, text: str) -> Self:
        """Create a span that is copied literally."""
        return cls(start, text, frozenset([text]), numeric=False, spellings=(text,))

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether the span is the name of a month or weekday."""
        return any(reading.startswith("name ") for reading in self.readings)

    @property
    def minutes(self) -> list[int]:
        """The possible meanings of a time, in minutes after midnight. Empty if the span is not a time."""
        return [int(reading.removeprefix("time ")) for reading in self.readings if reading.startswith("time ")]


class Differences(NamedTuple):
    """Numbers, links and the like that differ between a text and its translation."""

    missing: list[Span]
    """Spans of the text that are missing from the translation."""
    added: list[Span]
    """Numbers that the translation has added or repeated."""
    as_words: list[Span]
    """Numbers that the translation may contain as words."""


def find_spans(text: str, source: str, target: str = "") -> list[Span]:
    """Return the spans of a text that a translation must keep, such as numbers and links, in order.

    Args:
        text: The text.
        source: Language code of the text. The language determines what a comma in a number means.
        target: Language code of the translation. It determines how the spans are spelled in the translation.
    """
    return list(_find(text, notation_of(base_language(source)), notation_of(base_language(target))))


def find_names(text: str, source: str, target: str, is_rare: Callable[[str], bool] = never) -> list[Span]:
    """Find the words in a text that belong to names. Return an empty list for languages without a file in `notations/`.

    Names are words after titles such as "Mr", the names in `names.txt`, and rare words that are capitalised within
    a sentence. In German, all nouns are capitalised, so rare words do not count as names.

    Args:
        text: The text.
        source: Language code of the text.
        target: Language code of the translation.
        is_rare: Function that returns whether a word is so rare that a model probably cannot translate or copy it.
    """
    codes = base_language(source), base_language(target)
    if not all(notation_of(code).code for code in codes):
        return []
    patterns, not_names = patterns_of(codes[0]), notation_of(codes[0]).not_names
    titled = (match for match in patterns.title.finditer(text) if match["names"])
    names = {word for match in titled for word in match["names"].split()}
    names.update(listed_names().intersection(patterns.word.findall(text)))
    if not_names and sum(word[0].isupper() for word in text.split()) <= _MAX_CAPITALISED * len(text.split()):
        for word in patterns.capitalised.findall(text):
            is_known = word.isupper() or not_names.intersection([word, *re.split("['’-]", word)])
            if not is_known and is_rare(word):
                names.add(word)
    return [Span.literal(match.start(), match[0]) for match in patterns.word.finditer(text) if match[0] in names]


def needs_translation(text: str) -> bool:
    """Return whether a text has letters outside links, placeholders and the like."""
    if not any(map(str.isalpha, text)):
        return False
    return any(map(str.isalpha, patterns_of("").span.sub(lambda match: " " if match["literal"] else match[0], text)))


def compare(source: str, target: str, source_language: str, target_language: str) -> Differences:
    """Compare the numbers, links and the like in a text and its translation.

    A whole number up to twelve may be in digits or in words. The translation may repeat such a number.

    Args:
        source: The text.
        target: Its translation.
        source_language: Language code of the text.
        target_language: Language code of the translation.
    """
    source_code, target_code = base_language(source_language), base_language(target_language)
    wanted, found = find_spans(source, source_code, target_code), find_spans(target, target_code)
    from_notation, notation = notation_of(source_code), notation_of(target_code)
    known = {reading for span in wanted if span.small >= 0 for reading in span.readings}
    units = {span.unit for span in found} | _units(target, notation)
    missing, as_words = list[Span](), list[Span]()
    matches = match_spans(wanted, found, lambda span: span.readings)
    matched, unmatched = {span for span, _ in matches}, {*found}.difference(other for _, other in matches)
    ranges = {span for span in found if _has_ends(span, source, from_notation)}
    in_ranges = {number for span in ranges for number in re.findall(r"\d+", span.text)}
    in_ranges |= {number for span in found if not span.numeric for number in re.findall(r"(?<=[^\W\d])\d+$", span.text)}
    for span in wanted:
        kept_unit = span.unit in {"", *units} or not (notation.small or units - {""})
        is_written = kept_unit and span not in matched and _is_written(span, target, notation)
        if is_written and span.numeric:
            as_words.append(span)
        if not (is_written or (kept_unit and (span in matched or span.text in in_ranges))):
            missing.append(span)
    known |= {number for span in as_words for number in re.findall(r"\d+", span.text)}  # "half past 9" for "9:30"
    unknown = (each for each in found if each in unmatched and not each.readings & known)
    added = [each for each in unknown if each.numeric and each not in ranges]
    if (not notation.small and not added) or re.search(from_notation.parts_of_hours, source, re.IGNORECASE):
        as_words += [span for span in missing if span.small >= 0]
        missing = [span for span in missing if span.small < 0]
    if (not from_notation.small and not missing) or patterns_of(from_notation.code).large.search(source):
        added = []
    return Differences(missing, [each for each in added if not _has_word(each, source, from_notation)], as_words)


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


def _units(text: str, notation: Notation) -> set[str]:
    """Return the units that a text contains as symbols or words, such as `km`."""
    forms = notation.unit_forms | notation.unclear_forms
    return {forms.get(form.casefold(), "") for form in patterns_of(notation.code).unit.findall(text)}


def _is_written(span: Span, text: str, notation: Notation) -> bool:
    """Return whether a text contains a span, literally or as words."""
    if span.is_name:
        (name,) = span.readings
        return patterns_of(notation.code).names[int(name.removeprefix("name "))].search(text) is not None
    if not span.numeric:
        edges = r"(?<!\w)" * span.text[0].isalnum(), r"(?![\w/])" * span.text[-1].isalnum()
        return re.search(f"{edges[0]}{re.escape(span.text)}{edges[1]}", text) is not None
    if _has_word(span, text, notation) or _has_ends(span, text, notation) or _has_roman(span, text, notation):
        return True
    patterns = patterns_of(notation.code)
    if any(span.readings & _spoken_readings(words, notation) for words in patterns.spoken.findall(text)):
        return True
    is_part = any(minutes % 60 in (15, 30, 45) for minutes in span.minutes)
    if not (is_part or span.readings & {"1/2", "1/4", "3/4"}):
        return False
    rest = patterns.spoken.sub("", text)  # other times in words, such as "half past six", are not this time
    if re.search(notation.quarters, rest, re.IGNORECASE):
        return True
    hours = {minutes // 60 % 12 or 12 for minutes in span.minutes}
    words = [word for hour in hours for word in patterns.small[hour : hour + 1]]  # such as "neun Uhr dreißig"
    return bool(patterns.large.search(rest)) and any(word.search(rest) for word in words)


def _has_ends(span: Span, text: str, notation: Notation) -> bool:
    """Return whether a text contains both numbers of a range, such as "5 to 10" for the span "5-10"."""
    ends = re.fullmatch(r"(\d+)-(\d+)", min(span.readings))
    return bool(ends and re.search(rf"(?<!\d){ends[1]}\s?(?:[-–—]|{notation.ranges})\s?{ends[2]}(?!\d)", text))


def _has_roman(span: Span, text: str, notation: Notation) -> bool:
    """Return whether a text contains a span's number (up to 39) as a Roman numeral, such as "siglo XIX" for "19th"."""
    numbers = [int(each) for each in span.readings if re.fullmatch("[1-3]?[0-9]", each)]
    if notation.roman_ending is None or not numbers:
        return False
    return re.search(rf"\b{_roman(numbers[0])}{notation.roman_ending}\b", text) is not None


def _roman(number: int) -> str:
    """Write a number below 40 as a Roman numeral."""
    return "X" * (number // 10) + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[number % 10]


def _has_word(span: Span, text: str, notation: Notation) -> bool:
    """Return whether a text contains a word for the number in a span, such as "three"."""
    words = patterns_of(notation.code).small
    return 0 <= span.small < len(words) and words[span.small].search(text) is not None


def _find(text: str, source: Notation, target: Notation) -> Iterator[Span]:
    patterns = patterns_of(source.code)
    if PLAIN.fullmatch(text) and not patterns.in_plain.search(text):
        return  # the pattern of all spans takes thirty times as long
    keeps_foreign = bool(target.code and re.search("[a-zA-Z]", text))  # a whole text in another script is an error
    matches = list(patterns.span.finditer(text))
    month_first = _month_first((match for match in matches if match["dmy"]), source)
    for match in matches:
        start, whole = match.start(), match[0].rstrip()
        if match["century"]:  # in Roman numerals
            value = next(str(each) for each in range(1, 40) if _roman(each) == whole.rstrip("erèm"))
            small = int(value) if int(value) <= LARGEST_WORD else -1
            spelling = _roman(int(value)) if target.roman_ending == "" else value + target.ending(value, True, False)
            yield Span(start, whole, frozenset([value]), small=small, spellings=(spelling, whole))
        elif match["literal"] or (match["foreign"] and keeps_foreign):
            yield Span.literal(start, whole)
        elif match["foreign"]:
            continue  # the model may know the script
        elif match["name"]:
            if target.months:
                number = next(number for number, each in enumerate(patterns.names) if each.fullmatch(whole))
                names = [month.split("|")[:1] for month in target.months] + [day.split("|") for day in target.weekdays]
                yield Span(start, whole, frozenset([f"name {number}"]), spellings=tuple(names[number]))
        elif match["date"]:
            yield _date(match, source, target, month_first)
        elif match["short"]:
            yield _short_date(match, target)
        elif match["spoken"]:
            minutes = source.spoken_forms.get(whole.casefold())  # None for "fıve": patterns also match a dotless i
            if patterns.not_before_spoken.search(text, max(start - 20, 0), start):
                continue
            if spellings := [words for words, each in target.spoken_minutes.items() if each == minutes]:
                yield Span(start, whole, _spoken_readings(whole, source), spellings=(spellings[-1],))
        elif match["phone"]:
            yield Span(start, whole, frozenset([re.sub(r"[^\d+]", "", whole)]), spellings=(whole,))
        else:
            yield (_time if match["time"] else _number)(match, source, target)


def _date(match: re.Match[str], source: Notation, target: Notation, month_first: bool | None) -> Span:
    """Return the span of a date with a year. Rewrite it for the target language if the order of day and month is clear.

    Args:
        match: The match of the date.
        source: Notation of the text.
        target: Notation of the translation.
        month_first: Whether dates in the text begin with the month, or None if this is unknown.
    """
    parts, spelling = re.findall(r"\d+", match[0]), match[0]
    follows_sign = match.start() > 0 and match.string[match.start() - 1] in "/=:\\"
    if target.date_mark and month_first is not None and not (match["ymd"] or follows_sign or _is_named(match, source)):
        day, month = parts[1::-1] if month_first else parts[:2]
        is_date = 1 <= int(day) <= _LAST_DAY and 1 <= int(month) <= _LAST_MONTH
        if is_date and re.fullmatch("(19|20)[0-9]{2}", parts[2]):
            spelling = target.date_mark.join([day, month, parts[2]])
    reading = f"date {sorted(int(part) % 100 for part in parts)}"
    return Span(match.start(), match[0], frozenset([reading]), spellings=(spelling,))


def _short_date(match: re.Match[str], target: Notation) -> Span:
    """Return the span of a German date without a year, such as "24.12." after "am"."""
    day, month = re.findall(r"\d+", match[0])
    stop = "" if re.search(r"\w", match.string[match.end() :]) else "."
    spelling = f"{day}{target.date_mark}{month}{stop}" if target.date_mark else match[0]
    readings = frozenset([f"{day}/{month}", *_readings(f"{day}.{month}", ".")])
    return Span(match.start(), match[0], readings, spellings=(spelling,))


def _month_first(dates: Iterable[re.Match[str]], source: Notation) -> bool | None:
    """Return whether the dates in a text begin with the month, or None if this is unknown or varies between dates."""
    numbers = [list(map(int, re.findall(r"\d+", date[0])[:2])) for date in dates]
    orders = {second > _LAST_MONTH for first, second in numbers if max(first, second) > _LAST_MONTH}
    return False if source.date_mark else orders.pop() if len(orders) == 1 else None


def _is_named(match: re.Match[str], source: Notation) -> bool:
    """Return whether a word such as "version" or "chapter" precedes a number."""
    return bool(patterns_of(source.code).named.search(match.string, max(match.start() - 20, 0), match.start()))


def _time(match: re.Match[str], source: Notation, target: Notation) -> Span:
    hour, minute = int(match["hour"]), int(match["minute"] or (match["dotted"] or match["point"] or ".0")[1:])
    marker = next((group for group in ("clock", "half", "marked") if match[group]), None)
    kind = "" if match["colon"] else "day" if source.reads_24_hours else "either"
    if marker:
        clock = patterns_of(source.code).clock
        kind = next(kind for kind, each in clock.items() if each.fullmatch(match.string, *match.span(marker)))
    base = hour % 24 * 60 + minute
    end = None if marker or match["until"] is None else patterns_of(source.code).span.search(match.string, match.end())
    if end and end["time"]:  # in "3 to 5 p.m.", this match is "3"
        halves = [base] if source.reads_24_hours and not end["half"] else [base % HALF_DAY, base % HALF_DAY + HALF_DAY]
        halves = [each for each in halves if each < _time(end, source, target).minutes[0]] or halves
        kind, base = "day", halves[-1]
    if kind in ("am", "pm"):
        minutes = [base % HALF_DAY + (kind == "pm") * HALF_DAY]
    elif (kind == "day" if kind else source.reads_24_hours) or hour > LARGEST_WORD or hour == 0:
        minutes = [base]
    else:
        minutes = [base, (base + HALF_DAY) % (2 * HALF_DAY)]
    readings = {f"time {each:04}" for each in minutes}
    if not (minute or kind in ("am", "pm")):
        readings.add(str(hour))  # "at 9" for "um 9 Uhr"
    formats = target.unclear_times if len(minutes) > 1 and target.unclear_times else target.times
    spellings = [_write_time(each, formats) for each in minutes] if kind and formats else [match[0]]
    small = (hour - 1) % 12 + 1 if not minute else -1
    return Span(match.start(), match[0], frozenset(readings), small=small, spellings=tuple(spellings))


def _write_time(minutes: int, formats: Sequence[str]) -> str:
    """Format a time of day. `formats` contains one format for full hours, and one with minutes for all other times."""
    hour, minute = divmod(minutes, 60)
    marker = "p.m." if minutes >= HALF_DAY else "a.m."
    return formats[minute > 0].format(hour=hour, half=(hour - 1) % 12 + 1, minute=minute, marker=marker)


def _spoken_readings(words: str, notation: Notation) -> frozenset[str]:
    """Return the possible values of a time that is written in words, such as "half past nine"."""
    first = notation.spoken_forms.get(words.casefold(), -HALF_DAY)
    return frozenset(f"time {minutes:04}" for minutes in (first, first + HALF_DAY))


def _number(match: re.Match[str], source: Notation, target: Notation) -> Span:
    value = re.sub(r"\d", lambda digit: str(int(digit[0])), match["value"])  # to ASCII digits
    sign = match["debt"] or match["sign"] or ""
    sign = "-" if sign.strip().isalpha() else sign
    readings = _readings(value, source.decimal_marks)
    spellings = [_spell(match, value, sign, reading, source, target) for reading in readings]
    if target.group == "\u202f":
        spellings += [spelling.replace("\u202f", " ") for spelling in spellings if "\u202f" in spelling]
    single = re.fullmatch(r"\d+([.,])\d+", value)
    is_grouped = re.fullmatch(r"[1-9]\d{0,2}.\d{3}", value)
    if _is_named(match, source) or (single and single[1] not in source.decimal_marks and not is_grouped):
        spellings = [match[0]]
    may_be_word = value.isdecimal() and len(value) <= 2 and int(value) <= LARGEST_WORD
    small = int(value) if may_be_word and not (sign or match["numero"]) else -1
    symbol = (match["before"] or match["form"] or "").strip()
    if len(value) <= len("21") and patterns_of(source.code).hours.match(match.string, match.end()):
        # Without a preposition, "21 h" may be a time or a duration.
        readings += [f"time {int(value) % (HALF_DAY // 60) * 60 + half:04}" for half in (0, HALF_DAY)]
    return Span(
        match.start(),
        match[0],
        frozenset(f"-{each}" if sign else each for each in readings),
        source.unit_forms.get(symbol.casefold(), ""),
        small=small,
        spellings=tuple(spellings),
    )


def _spell(match: re.Match[str], value: str, sign: str, reading: str, source: Notation, target: Notation) -> str:
    """Write a number with its unit in the notation of the target language. `reading` is the number's value."""
    if match["numero"]:
        return f"{target.numero} {_write(reading, value, target)}" if target.numero else match[0]
    unit, scale = match["unit"] or "", match["scale"] or ""
    symbol = (match["before"] or match["form"] or "").strip()
    kind = source.unit_forms.get(symbol.casefold(), "")
    is_day = reading.isdecimal() and len(reading) <= 2 and _is_day(match, source)
    number = f"{_write(reading, value, target)}{target.ending(reading, bool(match['ordinal']), is_day)}"
    is_decade = match["decade"] != "s" or len(reading) > 2 or reading.endswith("0")
    if is_decade and (match["decade"] or (match["decade"] == "" and target.decade.startswith("{"))):
        number = target.decade.format(number)
    forms = target.scales.get(source.scale_forms.get(scale.strip().casefold(), ""))
    if forms:
        scale = f" {target.in_number(forms, reading)}"
    per = f"/{(target.per or source.per)[source.per.index(match['per'])]}" if match["per"] else ""
    is_currency = kind in CURRENCIES and (symbol == kind or bool(match["before"]))
    if is_currency and target.currency_first:
        return f"{sign}{kind}{number}{scale}{per}"
    if scale and kind in target.scaled_units:
        unit = target.scaled_units[kind]
    elif match["before"] or (is_currency and target.code):
        unit = f" {kind}"
    elif symbol == "%" and target.code:
        unit = target.percent
    elif kind in target.units and symbol.casefold() in map(str.casefold, source.units.get(kind, ())):
        forms = target.units[kind]
        if unit.startswith("-"):
            unit = target.unit_after_hyphen.format(singular=forms[0], plural=forms[-1])
        else:
            unit = f" {target.in_number(forms, reading)}"
    return f"{sign}{number}{scale}{unit}{per}"


def _is_day(match: re.Match[str], notation: Notation) -> bool:
    """Return whether a number is directly before or after the name of a month."""
    patterns, text, start = patterns_of(notation.code), match.string, match.start()
    before = patterns.before_day.search(text, max(start - 20, 0), start)
    return bool(before or patterns.after_day.match(text, match.end()))


def _readings(value: str, decimal_marks: str) -> list[str]:
    """Return the possible values of a number, written with a decimal point. The most probable value comes first."""
    if len(value) > _LONGEST_NUMBER or re.search("[-–/:]", value):
        return [value.replace("–", "-")]
    marks = re.findall(r"\D", value)
    *groups, last = re.split(r"\D", value)
    grouped = bool(groups) and groups[0] not in ("", "0") and all(len(each) == 3 for each in [*groups[1:], last])
    whole, decimal = "".join([*groups, last]).lstrip("0") or "0", ""
    if marks and marks[-1] in ".,":
        fraction = last.rstrip("0")
        decimal = ("".join(groups).lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    if not marks or not decimal:
        return [whole]
    if len(marks) > 1 and len(set(marks)) == 1:
        return [whole if grouped else value]  # a list, such as "1,2,3"
    if len(marks) > 1 or not grouped:
        return [decimal]
    is_decimal = marks[0] == decimal_marks[0]
    if len(decimal_marks) == 1:
        return [decimal if is_decimal else whole]
    return [decimal, whole] if is_decimal and not whole.endswith("00") else [whole, decimal]


def _write(reading: str, value: str, notation: Notation) -> str:
    """Write a number in the notation of a language.

    Args:
        reading: The number in plain notation, such as "1234.50".
        value: The number as it is written in the source, such as "1.234,50". The result has the same number of decimal
            places. It has thousands separators if `value` does.
        notation: The notation of the target language.
    """
    if value.isdecimal() or not re.fullmatch(r"[0-9]*\.?[0-9]*", reading) or len(value) > _LONGEST_NUMBER:
        return value
    whole, _, _ = reading.partition(".")
    last = re.split(r"\D", value)[-1]
    places = last if "." in reading or (len(last) != 3 or len(set(re.findall(r"\D", value))) > 1) else ""
    is_grouped = len(re.findall(r"\D", value)) > bool(places)
    number = f"{int(whole):,}".replace(",", notation.group) if is_grouped else whole
    return number + notation.decimal_marks[0] + places if places else number

"""Notation of numbers, dates, times and units in each language. `notations/` has a table for each known language."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).with_name("notations")
_CODES = frozenset(file.stem for file in _FOLDER.glob("??.yaml"))
_LONGEST_NUMBER = 40
_DECIMAL_POINT = "en zh ja ko he th hi bn ur ta te ms tl sw my yo"


@dataclass(frozen=True, kw_only=True)
class Notation:
    """Words and rules for numbers, dates, times and units in a language. Patterns are regular expressions.

    Attributes:
        code: Code of the language. Empty if there is no file in `notations/` for the language.
        decimal_marks: Decimal marks, with the usual mark first. If there are several, a mark may also separate
            thousands.
        group: Thousands separator.
        currency_first: Whether currency symbols precede amounts.
        percent: The percent sign, preceded by a space if the language requires one.
        unit_after_hyphen: Format of a unit that a hyphen joins to its number in the source, as in "100-meter".
        plural_from: Smallest number that takes the plural. If 0, all numbers except 1 take the plural.
        phone: Pattern for phone numbers in formats that other countries do not use.
        address: Pattern for street addresses with a house number.
        months: Names and abbreviations of each month, separated by `|`. The best spelling comes first.
        weekdays: Names of each weekday, separated by `|`. A translation may contain any of the names.
        contractions: Replacements for the word before a copy symbol, such as "d'" for "de". The keys are patterns for
            the word and the beginning of the copied text.
        corrections: Corrections of the word order in a translation, for example from "our child 5th" to "our 5th
            child". The keys are patterns, which are matched after copy symbols have been replaced.
        date_mark: Separator in dates such as 31.12.2024. Empty if dates may begin with the month, as in English, or if
            there is no file for the language. If empty, dates are never rewritten into this language.
        sentence: Pattern that matches whole sentences, but not signs such as "Open until 5 p.m.". If a sentence ends
            with "p.m.", the last dot is also the full stop.
        short_date: Pattern for dates without a year, such as "24.12." after "am".
        after_day: Pattern for the text after the ordinal of a day, such as " at" in "on the 14th at 9 a.m.".
        day_endings: Endings of a day number before the name of a month, such as "th of" in "4th of July".
        minus: Pattern for the word before a negative number, such as "minus".
        numero: Abbreviation of "number" before a number that identifies something, such as an order.
        numero_pattern: Pattern for all abbreviations of "number".
        ordinal: Pattern for the endings of ordinals.
        ordinals: Endings of ordinals, keyed by a pattern for the number.
        days: Endings of the day in a date, keyed by a pattern for the number. If empty, `ordinals` applies to days.
        century: Pattern for centuries in Roman numerals.
        century_noun: The word for "century".
        decade: Format of a decade, such as "{}s" for "1990s".
        decade_pattern: Pattern for the ending of a decade, such as "s". It may match an empty string.
        units: Words for each unit, from the singular to the plural.
        unclear_units: Ambiguous words, such as "livres" (pounds or books). They count as units only if the source
            contains the unit.
        per: Words after the slash in amounts such as "€5/hour", in the same order in all languages.
        scales: Words for "million", "billion" and "trillion", from the singular to the plural.
        of: Pattern for the preposition between a word in `scales` and a unit, such as "de" in "un million de dollars".
        scaled_units: Names of currencies after a word in `scales`, each with its preposition, such as " d'euros". Empty
            if the language needs no preposition.
        clock: Patterns for the words after times, keyed by `am`, `pm`, `either` (a.m. or p.m.) and `day` (24 hours).
        before_hours: Strings that must precede a full hour, if the words for `either` and `day` may also mean a
            duration.
        between_hours: Pattern for the text between two times if only the second has a word after it, as in "3-5 p.m.".
        hour_mark: Pattern for the separator between hours and minutes, other than a colon, such as "h" in "9 h 30".
        reads_24_hours: Whether times without words such as "p.m." are in 24-hour notation.
        times: Formats of full hours, and of hours with minutes.
        spoken_hours: Words for the hours from one to twelve. A word is empty if times in words do not use this hour:
            "douze heures et quart" is not French.
        spoken_times: Formats of times in words, keyed by the minute, with the best format last. `{hour}` and `{next}`
            are replaced with the words for the hour and the next hour.
        before_spoken: Strings that must precede a time in words, if the words may also mean a duration.
        not_before_spoken: Pattern for the words that must not precede a time in words, such as "gave" in "gave a
            quarter to five children".
        not_after_spoken: Pattern for text that must not follow a time in words, such as " people".
        unclear_times: Formats of times that may be a.m. or p.m. Empty if `times` also applies to such times.
        small: Patterns for the words that mean small numbers. The pattern at index n matches words for the number n.
        compounds: Pattern that must not follow a word in `small`, such as "teen" after "six".
        large: Patterns for words that mean larger numbers, and for words that may stand for numbers.
        parts_of_hours: Pattern for words that mean a quarter or half of an hour, such as "half past".
        quarters: Pattern for words that mean a quarter or half of anything.
        ranges: Pattern for the words between the ends of a range, such as "to" in "5 to 10".
        roman_ending: Pattern for the endings of ordinals in Roman numerals. None if the language has no such ordinals.
        named: Pattern for the words before numbers that are copied unchanged, such as "version" before "3.2".
        titles: Pattern for the titles before names, such as "Mr".
        not_before_titles: Pattern for the words after which a title is a noun, such as "seine" before "Frau".
        roles: Pattern for the beginnings of words that follow a title but are not names, such as "President".
        not_names: Rare capitalised words that are not names, such as "Tenant", and names that other languages spell
            differently, such as "Munich". They are in a text file in `notations/`. Empty if all nouns have a capital.
        name_words: Maximum number of words in a name after a title. 1 if all nouns begin with a capital, as in German.
    """

    code: str = ""
    decimal_marks: str
    group: str
    currency_first: bool = False
    percent: str = "%"
    unit_after_hyphen: str = ""
    plural_from: int = 0
    phone: str = "(?!)"
    address: str = "(?!)"
    months: list[str] = field(default_factory=list)
    weekdays: list[str] = field(default_factory=list)
    contractions: dict[str, str] = field(default_factory=dict)
    corrections: dict[str, str] = field(default_factory=dict)
    date_mark: str = ""
    sentence: str = "(?!)"
    short_date: str = "(?!)"
    after_day: str = "(?!)"
    day_endings: list[str] = field(default_factory=list)
    minus: str = "minus"
    numero: str = ""
    numero_pattern: str = "(?!)"
    ordinal: str = "(?!)"
    ordinals: dict[str, str] = field(default_factory=dict)
    days: dict[str, str] = field(default_factory=dict)
    century: str = "(?!)"
    century_noun: str = ""
    decade: str = "{}"
    decade_pattern: str = "(?!)"
    units: dict[str, list[str]]
    unclear_units: dict[str, list[str]] = field(default_factory=dict)
    per: list[str] = field(default_factory=list)
    scales: dict[str, list[str]] = field(default_factory=dict)
    of: str = "(?!)"
    scaled_units: dict[str, str] = field(default_factory=dict)
    clock: dict[str, str]
    before_hours: list[str] = field(default_factory=list)
    between_hours: str = "(?!)"
    hour_mark: str = "(?!)"
    reads_24_hours: bool = False
    times: list[str] = field(default_factory=list)
    unclear_times: list[str] = field(default_factory=list)
    spoken_hours: list[str] = field(default_factory=list)
    spoken_times: dict[int, list[str]] = field(default_factory=dict)
    before_spoken: list[str] = field(default_factory=list)
    not_before_spoken: str = "(?!)"
    not_after_spoken: str = "(?!)"
    small: list[str] = field(default_factory=list)
    compounds: str = "(?!)"
    large: list[str]
    parts_of_hours: str
    quarters: str
    ranges: str
    roman_ending: str | None = None
    named: str
    titles: str = "(?!)"
    not_before_titles: str = "(?!)"
    roles: str = "(?!)"
    not_names: frozenset[str] = frozenset()
    name_words: int = 3

    @cached_property
    def unit_forms(self) -> dict[str, str]:
        """Mapping from each symbol or word for a unit, in lower case, to the unit."""
        rows = [*read_table("all_languages")["units"].items(), *self.units.items()]
        return {word.casefold(): unit for unit, words in rows for word in words}

    @cached_property
    def unclear_forms(self) -> dict[str, str]:
        """Mapping from each word in `unclear_units`, in lower case, to its unit."""
        return {word.casefold(): unit for unit, words in self.unclear_units.items() for word in words}

    @cached_property
    def scale_forms(self) -> dict[str, str]:
        """Mapping from each word in `scales`, in lower case, to the English name of the scale, such as "million"."""
        return {word.casefold(): scale for scale, words in self.scales.items() for word in words}

    @cached_property
    def spoken_minutes(self) -> dict[str, int]:
        """The minutes since midnight or noon, keyed by the time in words: 315 for "a quarter past five".

        If a time has several forms, the best form comes last.
        """
        hours = self.spoken_hours
        return {
            form.format(hour=hour, next=following): number % 12 * 60 + minute
            for minute, forms in self.spoken_times.items()
            for number, (hour, following) in enumerate(zip(hours, [*hours[1:], *hours[:1]], strict=True), start=1)
            for form in forms
            if (hour if "{hour}" in form else following)
        }

    @cached_property
    def spoken_forms(self) -> dict[str, int]:
        """Copy of `spoken_minutes` with the keys in lower case."""
        return {words.casefold(): minutes for words, minutes in self.spoken_minutes.items()}

    @property
    def hours(self) -> str:
        """Pattern for words after whole hours, such as "Uhr", that do not indicate a.m. or p.m."""
        return "|".join(pattern for kind, pattern in self.clock.items() if kind in ("either", "day"))

    def in_number(self, forms: list[str], reading: str) -> str:
        """Return the singular or the plural of a word, depending on the number before it.

        Args:
            forms: Forms of the word. The first form is the singular, and the last form is the plural.
            reading: The number, with a decimal point. If it is not a number, return the plural.
        """
        try:
            value = abs(float(reading))
        except ValueError:
            return forms[-1]
        return forms[0] if (value < self.plural_from if self.plural_from else value == 1) else forms[-1]

    def ending(self, number: str, is_ordinal: bool, is_day: bool) -> str:
        """Return the ending of an ordinal or of the day in a date, such as "th". For other numbers, return ""."""
        rows = self.days if is_day and self.days else self.ordinals if is_ordinal else {}
        return next((ending for pattern, ending in rows.items() if re.fullmatch(pattern, number)), "")

    def write_number(self, value: str, original: str) -> str:
        """Write a number in this notation.

        Args:
            value: The number in plain notation, such as "1234.50".
            original: The number as it is written in the source, such as "1.234,50". The result has the same number of
                decimal places. It has thousands separators if `original` does.
        """
        if original.isdecimal() or len(original) > _LONGEST_NUMBER or not re.fullmatch(r"[0-9]*\.?[0-9]*", value):
            return original
        marks, last = re.findall(r"\D", original), re.split(r"\D", original)[-1]
        places = last if "." in value or len(last) != 3 or len(set(marks)) > 1 else ""
        whole = value.partition(".")[0]
        if len(marks) > bool(places):
            whole = f"{int(whole):,}".replace(",", self.group)
        return whole + self.decimal_marks[0] + places if places else whole

    def write_times(self, minutes: Sequence[int]) -> list[str]:
        """Write a time in this notation, once for each possible meaning (a.m. or p.m.).

        Return an empty list for languages without a file in `notations/`.

        Args:
            minutes: The possible meanings, in minutes after midnight. If there are several, they are written in the
                formats of `unclear_times`, if any.
        """
        formats = self.unclear_times if len(minutes) > 1 and self.unclear_times else self.times
        return [_formatted_time(each, *formats) for each in minutes if formats]


def _formatted_time(minutes: int, full_hour: str, other: str) -> str:
    hour, minute = divmod(minutes, 60)
    marker = "p.m." if hour >= 12 else "a.m."
    return (other if minute else full_hour).format(hour=hour, half=(hour - 1) % 12 + 1, minute=minute, marker=marker)


def number_values(number: str, decimal_marks: str) -> list[str]:
    """Return the possible values of a number as strings with a decimal point. The most probable value comes first.

    Args:
        number: The number as it is written in a text, for example "1.234".
        decimal_marks: The decimal marks of the language (see `Notation`).
    """
    if len(number) > _LONGEST_NUMBER or re.search("[-–/:]", number):
        return [number.replace("–", "-")]
    marks = re.findall(r"\D", number)
    *groups, last = re.split(r"\D", number)
    grouped = bool(groups) and groups[0] not in ("", "0") and all(len(each) == 3 for each in [*groups[1:], last])
    whole = "".join([*groups, last]).lstrip("0") or "0"
    if not marks or marks[-1] not in ".,":
        return [whole]
    if len(marks) > 1 and len(set(marks)) == 1:
        return [whole if grouped else number]  # a list, such as "1,2,3"
    fraction = last.rstrip("0")
    decimal = ("".join(groups).lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    if len(marks) > 1 or not grouped:
        return [decimal]
    is_decimal = marks[0] == decimal_marks[0]
    if len(decimal_marks) == 1:
        return [decimal if is_decimal else whole]
    return [decimal, whole] if is_decimal and not whole.endswith("00") else [whole, decimal]


def roman(number: int) -> str:
    """Write a number below 40 as a Roman numeral."""
    return "X" * (number // 10) + ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX")[number % 10]


def notation_of(code: str) -> Notation:
    """Return a language's notation for numbers and dates.

    For a language without a file in `notations/`, return a common notation with English and German words.
    """
    if code in _CODES:
        return _table(code)
    return _common("." if code in _DECIMAL_POINT.split() else "," if code else ",.")


@cache
def listed_names() -> frozenset[str]:
    """Return the names of people, places and firms in `names.txt`.

    The names are spelled the same in English, German, French and Spanish. They are never ordinary words, not even
    German nouns. The file omits short given names (one or two tokens in the vocabulary of the model `everyday`), unless
    they are also surnames or places. Models know most of the short names, and replacing a name with a copy symbol would
    hide its gender.
    """
    return frozenset((_FOLDER / "names.txt").read_text("utf-8").split())


@cache
def read_table(name: str) -> dict[str, Any]:
    """Read a YAML file in `notations/`: the table of a language, or `all_languages`."""
    text = (_FOLDER / f"{name}.yaml").read_text("utf-8")
    table: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return table


@cache
def _table(code: str) -> Notation:
    words = _FOLDER / f"{code}.txt"
    not_names = frozenset(words.read_text("utf-8").split() if words.exists() else ())
    return Notation(code=code, not_names=not_names, **read_table(code))


@cache
def _common(decimal_marks: str) -> Notation:
    english, german = _table("en"), _table("de")
    words = ("parts_of_hours", "quarters", "ranges", "named")
    joined: dict[str, Any] = {name: f"{getattr(english, name)}|{getattr(german, name)}" for name in words}
    return Notation(
        decimal_marks=decimal_marks,
        group="," if decimal_marks == "." else ".",
        ordinal=english.ordinal,
        decade_pattern=english.decade_pattern,
        units={unit: [*words, *german.units[unit]] for unit, words in english.units.items()},
        clock=english.clock | german.clock | {"either": f"{english.clock['either']}|{german.clock['either']}"},
        large=[*english.large, *german.large],
        **joined,
    )

"""Regular expressions that find the spans in a text: numbers, dates, links, names after titles and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

from zoo.text.notation import Notation, notation_of, read_table

PLAIN = re.compile(r"(?:[A-Za-zÀ-ÂÄÆ-ÏÑ-ÔÖÙ-Üß-âäæ-ïñ-ôöù-üÿœŒ ,;!?()\"'’„“”«»]|\.(?!\w)|(?<=[a-zß-âäæ-ïñ-ôöù-üÿ])-)*")
"""Pattern for a text without digits, symbols and file names.

Such a text may still contain names of weekdays, times in words and bank codes.
"""
CURRENCIES = ("€", "$", "£", "¥")
LARGEST_WORD = 12
"""Largest number that a translation may write as a word."""
HALF_DAY = 720
"""Number of minutes in half a day."""


class Patterns:
    """Compiled regular expressions that find spans, such as numbers and dates, in texts in one language."""

    def __init__(self, notation: Notation) -> None:
        months = [_or_in_capitals(names) for names in notation.months]
        # A capital after a word may belong to a name, such as "Santo Domingo".
        weekdays = [_or_in_capitals(names, r"(?<![^\W\d]\s)") for names in notation.weekdays]
        any_month, any_weekday = (rf"(?-i:{'|'.join(names) or '(?!)'})(?!\w)" for names in (months, weekdays))
        endings = "|".join(rf"(?<=\d{_escape(ending)}\s)" for ending in notation.day_endings) or "(?!)"
        day = rf"\.?\s\d{{1,2}}(?:{notation.ordinal})?(?![\w:%]|[.,]\d)"
        before = "|".join(rf"(?<={_escape(each)})" for each in notation.before_spoken) or r"(?<!\w)"
        spoken = rf"(?:{before})(?:{_any_of(notation.spoken_minutes)})(?!\w|{notation.not_after_spoken})"
        self.spoken = _ignoring_case(spoken)
        """Pattern for times in words that are recognised, such as "a quarter past five"."""
        self.not_before_spoken = _ignoring_case(rf"(?<!\w)(?:{notation.not_before_spoken})\s$")
        addresses = "|".join(notation_of(code).address for code in ("de", "es", "fr"))
        values = _values(notation)
        parts = {
            "name": rf"(?:{endings}){any_month}|(?<!\w){any_month}(?={day})|(?<!\w){any_weekday}",
            "date": _common_pattern("dates"),
            "short": notation.short_date,
            "foreign": rf"(?<!\w)(?:{_common_pattern('foreign words')})(?!\w)" if notation.code else "(?!)",
            "century": rf"(?-i:{notation.century})",
            "literal": rf"(?-i:{addresses})|(?x:{_common_pattern('literals')})",
            "phone": rf"(?<![\w.,)+/-])(?:{_common_pattern('phones')}|{notation.phone})(?![\w-]|[.,]\d)",
            "spoken": spoken,
            "time": _common_pattern("times", values, ""),
            "number": _common_pattern("numbers", values, ""),
        }
        units = _any_of([*notation.unit_forms, *notation.unclear_forms])
        self.span = _ignoring_case("|".join(f"(?P<{name}>{part})" for name, part in parts.items()))
        self.in_plain = _ignoring_case(rf"\bBIC\b|(?<!\w){any_weekday}|{spoken}|(?-i:[IVX]{{3}}|{notation.century})")
        """Pattern to search in a plain text (see `PLAIN`). If there is no match, the text has no spans."""
        self.unit = _ignoring_case(rf"(?<![^\W\d])(?:{units})(?![^\W\d])")
        self.names = [
            *(re.compile(rf"\b(?:{names})(?!\w)") for names in months),
            *map(_ignoring_case, weekdays),  # these also match parts of words, such as "Montagabend"
        ]
        """Patterns for each month, then for each weekday."""
        self.after_day = re.compile(rf"\.?(?:\s(?:of|de))?\s{any_month}|{notation.after_day}")
        self.before_day = re.compile(rf"(?<!\w){any_month}\.?\s$")
        self.clock = {kind: _ignoring_case(pattern) for kind, pattern in notation.clock.items()}
        end = r"(?![\w/@]|[.:\\][\w\\])"  # a file name or an address is not a name
        word = rf"[A-ZÀ-ÖØ-Þ][^\W\d_]*(?:['’-][A-ZÀ-ÖØ-Þ][^\W\d_]+)*(?!-\w){end}"
        name = rf"(?!{notation.roles}){word}"
        # A match without `names` is a title that is not before a name.
        self.title = re.compile(
            rf"(?<!\w)(?:(?:{notation.not_before_titles})\s(?:{notation.titles})(?!\w)|(?:{notation.titles})"
            rf"\s(?P<names>{name}(?:\s(?!{any_weekday}){name}){{0,{notation.name_words - 1}}})?)"
        )
        self.word = re.compile(rf"(?<![\w/@.:\\-]){word}")
        self.capitalised = re.compile(rf"(?:(?<=[^\W\d_]\s)|(?<=[,;]\s)){word}")
        """Pattern for a capitalised word that does not begin a sentence."""
        self.ends_with_title = re.compile(rf"(?<!\w)(?:{notation.titles})(?<=\.)\s*$")
        self.ordinal = re.compile(rf"\d(?:{notation.ordinal})")
        self.hours = _ignoring_case(rf"\s?(?:{notation.hours})" if notation.before_hours else "(?!)")
        self.small = [_ignoring_case(rf"\b(?:{stems})(?!{notation.compounds})") for stems in notation.small]
        self.large = _ignoring_case("|".join([*notation.large, rf"\b[ivx]{{2,}}(?:{notation.roman_ending or ''})\b"]))
        self.named = _ignoring_case(rf"\b(?:{notation.named})\s$")


def _or_in_capitals(names: str, before: str = "") -> str:
    """Return a pattern for names, their capitalised forms and their upper-case forms.

    Args:
        names: The names, separated by `|`.
        before: Pattern that must match before capitalised and upper-case forms.
    """
    capitals = [each for name in names.split("|") for each in (name.capitalize(), name.upper())]
    return "|".join([names, *(before + each for each in capitals)])


def _ignoring_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def patterns_of(code: str) -> Patterns:
    """Compile the patterns for a language code. Languages without a file in `notations/` share one set of patterns."""
    return Patterns(notation_of(code))


def _common_pattern(section: str, values: Mapping[str, str] = {}, separator: str = "|") -> str:
    """Join the patterns in a section of `all_languages.yaml` into one pattern.

    Replace each name in braces with its pattern in the section `parts` or in `values`.
    """
    table = read_table("all_languages")
    pattern = separator.join(table[section].values())
    for name, value in (*table["parts"].items(), *values.items()):
        pattern = pattern.replace(f"{{{name}}}", value)
    return pattern


def _values(notation: Notation) -> dict[str, str]:
    """Return a language's patterns for the names in braces in `all_languages.yaml`, keyed by name."""
    forms, clock = notation.unit_forms, notation.clock
    before = "|".join(rf"(?<={_escape(each)}\d)|(?<={_escape(each)}\d\d)" for each in notation.before_hours)
    return {name: value for name, value in vars(notation).items() if isinstance(value, str)} | {
        "halves": f"{clock['am']}|{clock['pm']}",
        "hours": notation.hours,
        "clock": "|".join(clock.values()),
        "before": before,
        "required before": before or "(?!)",
        "units": _any_of(forms),
        "currencies": _any_of(form for form, unit in forms.items() if unit in CURRENCIES),
        "scales": _any_of(notation.scale_forms),
        "per": "|".join(notation.per) or "(?!)",
    }


def _escape(text: str) -> str:
    return re.escape(text).replace(r"\ ", r"\s")


def _any_of(forms: Iterable[str]) -> str:
    """Return a pattern that matches any of the strings. Longer strings are tried first."""
    return "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"

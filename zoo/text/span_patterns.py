"""Regular expressions that find the spans of a text: numbers, dates, links, names after titles and the like."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from zoo.text.notation import Notation, notation_of

_SUFFIXES = (
    "7z avi bat bmp conf cpp css csv dll docx? epub exe gif gz html? ini ipynb java jpe?g js json jsx log md mov "
    "mp[34] odt ods pdf php png ppt pptx py rar rtf sh sql srt svg tar tiff? toml tsx? txt wav webp xlsx? xml ya?ml zip"
).replace(" ", "|")
_DOMAINS = "com|org|net|edu|gov|info|io|de|at|ch|eu|uk|fr|es|mx"
_EMOJI = (
    "[\u2190-\u21ff\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]*"
)
"""Emoji, and arrows."""
_DATE = (
    r"(?<![\d.,])(?:\d{4}(?P<ymd>[-/.])\d{1,2}(?P=ymd)\d{1,2}|\d{1,2}(?P<dmy>[-/.])\d{1,2}(?P=dmy)(?:\d{4}|\d{2}))"
    r"(?![\w/]|\.\w|-(?!\d{1,2}[-/.]\d{1,2}[-/.]\d)\w)"
)
_SHORT_DATE = (
    r"(?:(?<=\b(?:am|ab)\s)|(?<=\b(?:vom|bis|zum|dem|den)\s)|(?<=\bseit\s)|(?<=\d\.[–-]))"
    r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?!\w)"
)
"""A German date without a year, such as the end of "vom 24.12. bis 31.12."."""
# Lookbehinds let a pattern begin only where a word begins, so that the search takes linear time.
_LITERAL = rf"""(?x:
    (?:(?:https?|ftp)://|www\.[\w-]+\.|(?<!\w)(?:mailto:|tel:\+?\d))[^\s<>"]*[^\s<>".,:;!?'’”)\]}}]  # links
  | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                            # e-mail addresses
  | \{{\{{[^{{}}]*\}}\}} | \$\{{[^{{}}]*\}} | \{{[\w.:!-]*\}}           # placeholders
  | %%\w+%% | <<(?-i:[A-Z][A-Z\d_.-]+|\w+[_.]\w+)>> | (?<!\w)__(?-i:[A-Z][A-Z\d_]*|\w+_\w+)__(?!\w)
  | \*\|[^|*\s]{{1,80}}\|\*
  | %\(\w+\)[a-z] | %\d+\$[a-z@] | (?<![\w%])%(?:\.\d+)?l?[sdifuxg@](?!\w)
  | (?:(?<!\w)[A-Za-z]:\\|(?<![\w/.~<€$£¥-])(?:~|\.\.?)?/)\w[\w.~+\\/-]*\w   # paths and file names
  | (?<![\w./\\-])(?:[\w-]+[/\\])*[\w-]+(?:\.[\w-]+)*\.(?:{_SUFFIXES})(?!\w)
  | (?<!\w)(?:[@#][^\W\d]\w*|\#\d\w{{2,}})                               # mentions, hashtags, order numbers
  | (?<![\w-])-[a-zA-Z](?![\w-])                                        # command options
  | (?:{_EMOJI}(?:\u200d{_EMOJI})*|[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3)+
  | (?<![\w.,])\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w.]*\d)                # IP addresses and versions
  | (?<!\w)v\d+(?:\.\d+)+ | (?<![\w.,])(?!0\d\d|\d{{1,3}}(?:\.\d{{3}})+(?!\d))\d+\.\d+\.\d+(?!\.?\d)
  | (?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?-i:{_DOMAINS})(?:/[\w./-]*\w)?(?![\w-]) # links without www
  | (?<![\w.-])(?-i:[A-Z][A-Z\d]*-(?=[A-Z]*\d)[A-Z\d]+|\d+[A-Zabx])(?!\w)  # such as COVID-19, 3D, 12b, 2x
  | (?<!\w)(?-i:[A-Z]{{1,2}}\d[A-Z\d]?\s\d[A-Z]{{2}}|(?=[IVX]{{3}})X{{0,3}}(?:IX|IV|V?I{{0,3}}))(?!\w) # W1D 2LG, XIV
  | (?<![^\W_])[A-Za-z]{{1,4}}\d+[A-Za-z]*(?![\w.]{{0,40}}\.\d)(?!\w)     # codes such as A4 or H2O
  | (?<![\w-])[a-z][a-z\d]*(?:_[a-z\d]+)+(?!\w) | (?:(?<![\w.,])\d{{1,4}})?[¼-¾⅐-⅞] # variable names, fractions
  | (?<!\w)_{{3,}}(?!\w) | \[[ xX]\] | (?<=\broom\s)\d\.\d\d(?!\d|\s?[€$£%]) # blanks, check boxes, room numbers
  | [©®™§¶†‡¦±×÷•‰′″₠-₫₭-⃀∀-∑∓-⋿■-▱◆-◿]+ | (?<![^\W\d])[kM]?[ΩΩ](?!\w) | (?<![^\W\d])[µμ][A-Za-z]{{1,2}}(?!\w)
  | (?<!\w)(?:[A-Za-z]{{1,3}}[²³¹⁰⁴-⁹⁺⁻₀-₉]+){{1,6}}[A-Z]?(?!\w)           # such as x², CO₂ and C₆H₁₂O₆
  | (?<![^\W_])(?-i:CHF|CAD|AUD|SEK|NOK|DKK|PLN|CZK|HUF|CNY|INR|BRL|MXN)(?=\s\d)
  | (?:(?<=\bBIC\s)|(?<=\bBIC:\s))(?-i:[A-Z]{{6}}[A-Z\d]{{2,5}})(?!\w)     # bank codes
)"""
_FOREIGN = r"(?!\d)[\u0370-\u1cff\u1f00-\u1fff\u2de0-\u2dff\u2e80-\ud7ff\uf900-\ufaff\ufb1d-\ufdff\ufe70-\uffdc]"
"""A letter of a script other than Latin."""
_FOREIGN_LATIN = r"(?-i:[^\W\d_]*[ÃÅÐÕØÝÞãåðõøýþĂ-đĔ-ĩĬ-ŋŎ-őŔ-ũŬ-ŷŹ-žƀ-ɏḀ-ẝẟ-ỿ][^\W\d_]*)"
"""A word with a Latin letter that no language with a table uses. It is nearly always a name."""
_FOREIGN_WORDS = rf"(?<!\w)(?:(?:{_FOREIGN})+(?:\W{{1,3}}(?:{_FOREIGN})+)*|{_FOREIGN_LATIN})(?!\w)"
PLAIN = re.compile(r"(?:[A-Za-zÀ-ÂÄÆ-ÏÑ-ÔÖÙ-Üß-âäæ-ïñ-ôöù-üÿœŒ ,;!?()\"'’„“”«»]|\.(?!\w)|(?<=[a-zß-âäæ-ïñ-ôöù-üÿ])-)*")
"""A text without digits, symbols and file names.

It may still contain names of weekdays, times in words and bank codes.
"""
_SPACES = " \u00a0\u2009\u202f"
_GAP = rf"(?:[{_SPACES}.]| ?[/-] ?)?"
_PHONE = (
    rf"(?!\+\d{{1,3}}(?:\.\d{{3}})+(?!\.?\d))\+\d{{1,3}}[ -]?(?:\(\d{{1,5}}\))?(?:{_GAP}\d){{7,18}}"
    rf"|(?:\(\d{{3}}\)|\(0\d{{1,4}}\)|0\d{{2,4}}(?=[{_SPACES}./-]))(?:{_GAP}\d){{5,18}}"
    rf"|0\d(?:[{_SPACES}./-]?\d\d){{4}}|[679]\d \d{{3}}(?: \d\d){{2}}|[679]\d\d(?: \d\d){{3}}"
    r"|(?:\d{3}-)?\d{3}-\d{4}|\d{3}\.\d{3}\.\d{4}"
)
_GROUPED = rf"(?<!\d)\d{{1,3}}(?:[{_SPACES}'’]\d{{3}})+(?!\d)(?:[.,]\d+)?"
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
        """Pattern of times in words that are recognised, such as "a quarter past five"."""
        self.not_before_spoken = _ignoring_case(rf"(?<!\w)(?:{notation.not_before_spoken})\s$")
        parts = {
            "name": rf"(?:{endings}){any_month}|(?<!\w){any_month}(?={day})|(?<!\w){any_weekday}",
            "date": _DATE,
            "short": _SHORT_DATE if notation.code == "de" else "(?!)",
            "foreign": _FOREIGN_WORDS if notation.code else "(?!)",
            "century": rf"(?-i:{notation.century})",
            "literal": "|".join([*(rf"(?-i:{notation_of(code).address})" for code in ("de", "es", "fr")), _LITERAL]),
            "phone": rf"(?<![\w.,)+/-])(?:{_PHONE}|{notation.phone})(?![\w-]|[.,]\d)",
            "spoken": spoken,
            "time": _time_pattern(notation),
            "number": _number_pattern(notation),
        }
        units = _any_of([*notation.unit_forms, *notation.unclear_forms])
        self.span = _ignoring_case("|".join(f"(?P<{name}>{part})" for name, part in parts.items()))
        self.in_plain = _ignoring_case(rf"\bBIC\b|(?<!\w){any_weekday}|{spoken}|(?-i:[IVX]{{3}})|siglo\s|si.cle")
        """Pattern to search in a plain text (see `PLAIN`). If there is no match, the text has no spans."""
        self.unit = _ignoring_case(rf"(?<![^\W\d])(?:{units})(?![^\W\d])")
        self.names = [
            *(re.compile(rf"\b(?:{names})(?!\w)") for names in months),
            *map(_ignoring_case, weekdays),  # these also match parts of words, such as "Montagabend"
        ]
        """Pattern of each month, then of each weekday."""
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
        """Pattern of a capitalised word that does not begin a sentence."""
        self.ends_with_title = re.compile(rf"(?<!\w)(?:{notation.titles})(?<=\.)\s*$")
        self.ordinal = re.compile(rf"\d(?:{notation.ordinal})")
        self.hours = _ignoring_case(rf"\s?(?:{notation.hours})" if notation.before_hours else "(?!)")
        self.small = [_ignoring_case(rf"\b(?:{stems})(?!{notation.compounds})") for stems in notation.small]
        self.large = _ignoring_case("|".join([*notation.large, rf"\b[ivx]{{2,}}(?:{notation.roman_ending or ''})\b"]))
        self.named = _ignoring_case(rf"\b(?:{notation.named})\s$")


def _or_in_capitals(names: str, before: str = "") -> str:
    """Return a pattern that matches lower-case names and, after `before`, capitalised and upper-case names."""
    capitals = [each for name in names.split("|") for each in (name.capitalize(), name.upper())]
    return "|".join([names, *(before + each for each in capitals)])


def _ignoring_case(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@cache
def patterns_of(code: str) -> Patterns:
    """Compile the patterns for a language code. Languages without a file in `notations/` share one set of patterns."""
    return Patterns(notation_of(code))


def _time_pattern(notation: Notation) -> str:
    clock = notation.clock
    halves, hours = f"{clock['am']}|{clock['pm']}", notation.hours
    until = rf"(?=(?:{notation.between_hours})(?:1?\d|2[0-4])(?:[.:][0-5]\d)?\s?(?:{halves}|{hours}))"
    before = "|".join(rf"(?<={_escape(each)}\d)|(?<={_escape(each)}\d\d)" for each in notation.before_hours)
    return (
        rf"(?<![\d:.,])(?P<hour>[01]?\d|2[0-4])(?:(?:(?P<colon>:)|{notation.hour_mark})(?P<minute>[0-5]\d)"
        rf"(?(colon)(?::[0-5]\d)?|(?!\s?min))(?:\s?(?P<clock>{halves}|{hours}))?(?![\d:]|[.,]\d)"
        rf"|(?:{before or '(?!)'})(?P<point>\.[0-5]\d)(?![.,]?\d|\s?[€$£%])"
        rf"|(?P<dotted>\.[0-5]\d)?(?:\s?(?P<half>{halves})|(?:{before})\s?(?P<marked>{hours})|{until}))(?P<until>{until})?"
    )


def _number_pattern(notation: Notation) -> str:
    forms = notation.unit_forms
    units, currencies = _any_of(forms), _any_of(form for form, unit in forms.items() if unit in CURRENCIES)
    clock = "|".join(notation.clock.values())
    return (
        rf"(?P<numero>(?<!\w)(?:{notation.numero_pattern})\s?(?=\d))?"
        rf"(?P<debt>(?<![\w.,)])[-−](?=[€$£¥]))?(?P<before>[€$£¥]\s?|\b(?-i:EUR|USD|GBP|JPY)\s)?"
        rf"(?P<sign>(?<![\w.,)])[-−]|\b{notation.minus} )?"
        rf"(?P<value>(?<![\w.,:/–-])\d+[-–/:]\d+(?![\w:/–-]|[.,]\d|\s?(?:{clock}))"
        rf"|{_GROUPED}|\d+(?:[.,]\d+)*)(?:[.,][-–—]{{1,2}}(?=\s?(?:{currencies})))?"
        rf"(?:(?P<ordinal>{notation.ordinal})(?!\w)|(?P<decade>{notation.decade_pattern})(?!\w))?"
        rf"(?P<scale>\s?(?:{_any_of(notation.scale_forms)})(?![^\W\d])"
        rf"(?(before)|(?=(?:{notation.of})?\s?(?:{currencies})(?![^\W\d]))))?"
        rf"(?P<unit>(?(scale)(?:{notation.of})?)(?(before)(?![\s-]?[€$£¥]))[\s-]?(?P<form>{units})(?![^\W\d]|['’]\w))?"
        rf"(?:(?(before)|(?(unit)|(?!)))/(?P<per>(?-i:{'|'.join(notation.per) or '(?!)'})(?!\w)))?"
    )


def _escape(text: str) -> str:
    return re.escape(text).replace(r"\ ", r"\s")


def _any_of(forms: Iterable[str]) -> str:
    """Return a pattern that matches any of the strings, with the longest string first."""
    return "|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)"

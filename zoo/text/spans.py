"""Find spans that a translation must keep, such as amounts, dates, links and placeholders, and compare them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zoo.text.language_codes import base_language

_SUFFIXES = (
    "7z avi bat bmp conf cpp css csv dll docx? epub exe gif gz html? ini ipynb java jpe?g js json jsx log md mov "
    "mp[34] odt ods pdf php png ppt pptx py rar rtf sh sql srt svg tar tiff? toml tsx? txt wav webp xlsx? xml ya?ml zip"
).replace(" ", "|")
_DOMAINS = "com|org|net|edu|gov|info|io|de|at|ch|eu|uk|fr"
_EMOJI = (
    "[\u2190-\u21ff\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f1e5\U0001f200-\U0001faff][\ufe0e\ufe0f]?[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]*"
)
"""Emoji, and arrows."""
_DATE = (
    r"(?<![\d.,])(?:\d{4}(?P<ymd>[-/.])\d{1,2}(?P=ymd)\d{1,2}|\d{1,2}(?P<dmy>[-/.])\d{1,2}(?P=dmy)(?:\d{4}|\d{2}))"
    r"(?![\w/]|[.-]\w)"
)
# Lookbehinds let a pattern begin only where a word begins, so that the search takes linear time.
_LITERAL = rf"""(?x:
    (?:(?:https?|ftp)://|www\.[\w-]+\.)[^\s<>"]*[^\s<>".,:;!?'’”)\]}}]  # links
  | (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+                            # e-mail addresses
  | \{{\{{[^{{}}]*\}}\}} | \$\{{[^{{}}]*\}} | \{{[\w.:!-]*\}}           # placeholders
  | %\(\w+\)[a-z] | %\d+\$[a-z@] | (?<![\w%])%(?:\.\d+)?l?[sdifuxg@](?!\w)
  | (?:(?<!\w)[A-Za-z]:\\|(?<![\w/.~<])(?:~|\.\.?)?/)\w[\w.~+\\/-]*\w   # paths and file names
  | (?<![\w./\\-])(?:[\w-]+[/\\])*[\w-]+(?:\.[\w-]+)*\.(?:{_SUFFIXES})(?!\w)
  | (?<!\w)(?:[@#][^\W\d]\w*|\#\d\w{{2,}})                               # mentions, hashtags, numbers of orders
  | (?<![\w-])-[a-zA-Z](?![\w-])                                        # options of commands
  | (?:{_EMOJI}(?:\u200d{_EMOJI})*|[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3)+
  | (?<![\w.,])\d{{1,3}}(?:\.\d{{1,3}}){{3}}(?![\w.]*\d)                # IP addresses and versions
  | (?<!\w)v\d+(?:\.\d+)+ | (?<![\w.,])(?!\d{{1,3}}(?:\.\d{{3}})+(?!\d))\d+\.\d+\.\d+(?!\.?\d)
  | (?<![\w.-])[\w-]+(?:\.[\w-]+)*\.(?:{_DOMAINS})(?:/[\w./-]*\w)?(?![\w-]) # links without www
  | (?<![\w.-])(?-i:[A-Z][A-Z\d]*-(?=[A-Z]*\d)[A-Z\d]+|\d+[A-Z])(?!\w)  # such as COVID-19, 3D
  | (?<![^\W_])[A-Za-z]{{1,4}}\d+[A-Za-z]*(?![\w.]*\.\d)(?!\w)          # codes such as A4 or H2O
  | (?<![\w-])[a-z][a-z\d]*(?:_[a-z\d]+)+(?!\w) | [¼-¾⅐-⅞]                  # names of variables, fractions
)"""
_PHONE = (
    r"(?<![\w.,)+/-])(?:\+\d[\d ()/-]{6,30}\d|\(\d{2,5}\)[ \d/-]{5,20}\d|0\d{2,4}[ /-]\d[\d /-]{3,20}\d"
    r"|(?:\d{3}-)?\d{3}-\d{4}|\d{3}\.\d{3}\.\d{4})(?![\w-])"
)
_CLOCK = r"[ap]\.?m\b\.?|(?:Uhr )?(?:abends|nachmittags|mittags|nachts)|Uhr\b|o['’]clock"
_TIME = (
    rf"(?<![\d:.,])(?P<hour>[01]?\d|2[0-4])(?:(?P<minute>:[0-5]\d)(?::[0-5]\d)?(?:\s?(?P<clock>{_CLOCK}))?(?![\d:]|[.,]\d)"
    rf"|(?P<dotted>\.[0-5]\d)?\s?(?P<marked>{_CLOCK}))"
)
_UNITS = {
    "€": "€|eur|euros?",
    "$": r"\$|usd|(?:us-)?dollars?",
    "£": "£|gbp|pounds?|pfund",
    "¥": "¥|jpy|yen",
    "%": "%|percent|per cent|prozent",
    "°": "°c|°f|°|degrees?|grad",
    "km/h": "km/h|kph|stundenkilometern?",
    "mph": "mph|miles per hour|meilen pro stunde",
    "km": "km|kilomet(?:er|re)[ns]?",
    "cm": "cm|zentimetern?|centimet(?:er|re)s?",
    "mm": "mm|millimetern?|millimet(?:er|re)s?",
    "m/s": "m/s",
    "m²": "m²|m2|qm|square met(?:er|re)s?|quadratmetern?",
    "m³": "m³|m3|cubic met(?:er|re)s?|kubikmetern?",
    "m": "m|metern?|met(?:er|re)s?",
    "ml": "ml|millilitern?|millilit(?:er|re)s?",
    "l": "l|litern?|lit(?:er|re)s?",
    "GB": "gb|gigabytes?",
    "MB": "mb|megabytes?",
    "TB": "tb|terabytes?",
    "kg": "kg|kilo(?:s|gramm|grams?)?",
    "g": "g|gramm|grams?",
    "mi": "miles?|meilen?",
}
"""Symbols and words for units, by the unit. An amount must keep its unit."""
_UNIT = re.compile("(?<![^\\W\\d])(?:" + "|".join(f"({forms})" for forms in _UNITS.values()) + ")(?![^\\W\\d])", re.I)
_UNIT_WORDS = {
    "%": ("percent", "Prozent"),
    "°": ("degrees", "Grad"),
    "m": ("meters", "Meter"),
    "g": ("grams", "Gramm"),
    "km": ("kilometers", "Kilometer"),
    "l": ("liters", "Liter"),
    "mi": ("miles", "Meilen"),
    "$": ("dollars", "Dollar"),
    "€": ("euros", "Euro"),
    "£": ("pounds", "Pfund"),
}
"""English and German words for units."""
_SCALES = {
    "de": {"million": "Millionen", "billion": "Milliarden", "trillion": "Billionen"},
    "en": {"millionen": "million", "milliarden": "billion", "billionen": "trillion"},
}
_SCALE = "|".join(_SCALES["de"] | _SCALES["en"])
_NAMED = re.compile(
    r"\b(?:version|release|python|chapter|section|figure|table|kapitel|abschnitt|abbildung|tabelle)\s$", re.IGNORECASE
)
"""Words before numbers that are written as they are, such as "3.2"."""
_SIGN = r"(?P<sign>(?<![\w.,)])[-−]|\bminus )?"
_RATIO = rf"(?<![\w.,:/–-])\d+[-–/:]\d+(?![\w:/–-]|[.,]\d|\s?(?:{_CLOCK}))"
"""Ranges, fractions and scores."""
_VALUE = rf"{_RATIO}|" r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*"
_NUMBER = (
    rf"(?P<before>[€$£¥]\s?)?{_SIGN}(?P<value>{_VALUE})(?P<ordinal>(?:st|[nr]d|th|s)\b)?"
    rf"(?(before)(?P<scale>\s(?:{_SCALE})(?![^\W\d]))?)"
    rf"(?P<unit>[\s-]?(?:{'|'.join(_UNITS.values())})(?![^\W\d]))?"
)
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
}
"""Names of the months. They are only compared between these languages."""
_NAMES = [
    rf"(?:{en}|{de}|{en[:3]}|{de[:3]})"
    for en, de in zip(_MONTHS["en"].split(" "), _MONTHS["de"].split(" "), strict=True)
]
_ANY_MONTH = rf"(?-i:{'|'.join(_NAMES)})(?!\w)"
_MONTH = (
    r"(?:(?<=\d\s)|(?<=\d\.\s)|(?<=\d(?:st|[nr]d|th)\s)|(?<=\d(?:st|[nr]d|th)\sof\s))"
    rf"{_ANY_MONTH}|(?<!\w){_ANY_MONTH}(?=\.?\s\d{{1,2}}(?:st|[nr]d|th)?(?![\w:%]|[.,]\d))"
)
"""Month of a day. Without a day, March and May have other meanings, and June is also a first name."""
_PARTS = {"month": _MONTH, "date": _DATE, "literal": _LITERAL, "phone": _PHONE, "time": _TIME, "number": _NUMBER}
_SPAN = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _PARTS.items()), re.IGNORECASE)

_SMALL = {
    "en": "zero|no\\b|none|nought;one|once|first|an?\\b|single;two|twice|second|both|couple|half;three|third;four;"
    "five|fif;six;seven;eigh;nine|nint;ten\\b|tenth;eleven;twelve|twelf|dozen",
    "de": "null|kein;ein(?:s|e[mnrs]?|mal)?\\b|ein(?:z[ie]|jäh|stü|min|tägig)|erst;zwei|zwo|beid|halb;"
    "drei|dritt;vier;fünf;sechs;sieb;acht;neun;zehn;elf;zwölf|dutzend",
}
_SMALL_WORDS = {
    code: [re.compile(rf"\b(?:{stems})(?!teen|ty|zehn|zig|ßig|und)", re.I) for stems in words.split(";")]
    for code, words in _SMALL.items()
}
_LARGE_WORDS = re.compile(
    r"teen|ty\b|ieth|hundred|thousand|million|dozen|noon|midnight|quarter|half|o['’]clock|zig|ßig|zehn|hundert|tausend"
    r"|dutzend|viertel|halb|mittag|mitternacht|\b[ivx]{2,}\b",
    re.IGNORECASE,
)
_PART_OF_AN_HOUR = re.compile(r"half past|quarter (?:past|to)|\bhalb\b|viertel", re.IGNORECASE)
_QUARTERS = re.compile("half|halb|quarter|viert", re.IGNORECASE)
_DECIMAL_POINT = "en zh ja ko he th hi bn ur ta te ms tl sw my yo"
_LARGEST_WORD, _LONGEST_NUMBER = 12, 40
_HALF_DAY = 720
"""Half a day. Unit: minutes."""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a text that a translation must keep, up to the notation of its language.

    Attributes:
        start: Position of the first character.
        text: The characters.
        readings: The values that it may have. Two spans agree if they have a value in common.
        unit: The unit of an amount, as in `_UNITS`, or an empty string.
        numeric: Whether it is an amount, a date, a month, a time or a phone number. Other spans are copied literally.
        small: The value if a word may replace the number, such as "three". Otherwise -1.
        spellings: How it may be written in a translation, the best spelling first.
    """

    start: int
    text: str
    readings: frozenset[str]
    unit: str = ""
    numeric: bool = True
    small: int = -1
    spellings: tuple[str, ...] = field(default=(), compare=False)

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)

    @property
    def is_month(self) -> bool:
        """Whether the span is the name of a month."""
        return self.numeric and self.text.isalpha()


class Differences(NamedTuple):
    """Spans of a text that its translation has lost, and numbers that the translation has added.

    `as_words` are the numbers that the translation may contain as words.
    """

    missing: list[Span]
    added: list[Span]
    as_words: list[Span]


def find_spans(text: str, source: str, target: str = "") -> list[Span]:
    """Return the spans of a text, in order.

    Args:
        text: The text.
        source: Code of its language, which determines what a comma in a number means.
        target: Code of the language of the translation, for the spellings.
    """
    return list(_find(text, base_language(source), base_language(target)))


def needs_translation(text: str) -> bool:
    """Return whether a text has letters outside links, placeholders and the like."""
    if not any(map(str.isalpha, text)):
        return False
    return any(map(str.isalpha, _SPAN.sub(lambda match: " " if match["literal"] else match[0], text)))


def compare(source: str, target: str, source_language: str, target_language: str) -> Differences:
    """Return how the numbers and other spans of a text and of its translation differ.

    Whole numbers up to twelve may become words, and words may become numbers.

    Args:
        source: The text.
        target: Its translation.
        source_language: Code of the language of the text.
        target_language: Code of the language of the translation.
    """
    languages = base_language(source_language), base_language(target_language)
    wanted, found = find_spans(source, *languages), find_spans(target, languages[1])
    known = {reading for span in wanted for reading in span.readings}
    units = {span.unit for span in found} | {_unit(match) for match in _UNIT.finditer(target)}
    missing, as_words, unmatched = list[Span](), list[Span](), list(found)
    ranges = [span for span in found if _has_ends(span, source)]
    in_ranges = {number for span in ranges for number in re.findall(r"\d+", span.text)}
    for span in wanted:
        other = next((other for other in unmatched if span.readings & other.readings), None)
        if other is not None:
            unmatched.remove(other)
        kept_unit = span.unit in {"", *units} or not (languages[1] in _SMALL or units - {""})
        is_written = kept_unit and other is None and _is_written(span, target, languages[1])
        if is_written and span.numeric:
            as_words.append(span)
        if not (is_written or (kept_unit and (other is not None or span.text in in_ranges))):
            missing.append(span)
    known |= {number for span in as_words for number in re.findall(r"\d+", span.text)}  # "half past 9" for "9:30"
    added = [each for each in unmatched if each.numeric and each not in ranges and not each.readings & known]
    if (languages[1] not in _SMALL and not added) or _PART_OF_AN_HOUR.search(source):
        as_words += [span for span in missing if span.small >= 0]
        missing = [span for span in missing if span.small < 0]
    if languages[0] not in _SMALL and not missing:
        added = []
    added = [] if _LARGE_WORDS.search(source) else [each for each in added if not _has_word(each, source, languages[0])]
    return Differences(missing, added, as_words)


def _is_written(span: Span, text: str, language: str) -> bool:
    """Return whether a text contains a span, literally or as words."""
    if span.is_month:
        name = span.spellings[0]
        return re.search(rf"\b(?:{name}|{name[:3]})(?!\w)", text) is not None
    if not span.numeric:
        edges = r"(?<!\w)" * span.text[0].isalnum(), r"(?![\w/])" * span.text[-1].isalnum()
        return re.search(f"{edges[0]}{re.escape(span.text)}{edges[1]}", text) is not None
    is_part = span.text.partition(":")[2][:2] in ("15", "30", "45") or bool(span.readings & {"1/2", "1/4", "3/4"})
    return _has_word(span, text, language) or _has_ends(span, text) or (is_part and bool(_QUARTERS.search(text)))


def _has_ends(span: Span, text: str) -> bool:
    """Return whether a span is a range, such as "5-10", that a text has with a word: "5 to 10"."""
    ends = re.fullmatch(r"(\d+)-(\d+)", min(span.readings))
    return (
        ends is not None
        and re.search(rf"(?<!\d){ends[1]}\s?(?:[-–—]|to|bis|and|und)\s?{ends[2]}(?!\d)", text) is not None
    )


def _has_word(span: Span, text: str, language: str) -> bool:
    """Return whether a text contains a word for a small number."""
    words = _SMALL_WORDS.get(language, [])
    return 0 <= span.small < len(words) and words[span.small].search(text) is not None


def _find(text: str, source: str, target: str) -> Iterator[Span]:
    for match in _SPAN.finditer(text):
        start, whole = match.start(), match[0].rstrip()
        if match["literal"]:
            yield Span(start, whole, frozenset([whole]), numeric=False, spellings=(whole,))
        elif match["month"]:
            if source in _MONTHS and target in _MONTHS:
                number = next(number for number, name in enumerate(_NAMES, 1) if re.fullmatch(name, whole))
                yield Span(
                    start, whole, frozenset([f"month {number}"]), spellings=(_MONTHS[target].split(" ")[number - 1],)
                )
        elif match["date"]:
            parts = sorted(int(part) % 100 for part in re.findall(r"\d+", whole))
            yield Span(start, whole, frozenset([f"date {parts}"]), spellings=(whole,))
        elif match["phone"]:
            yield Span(start, whole, frozenset([re.sub(r"[^\d+]", "", whole)]), spellings=(whole,))
        else:
            yield (_time if match["time"] else _number)(match, source, target)


def _time(match: re.Match[str], source: str, target: str) -> Span:
    hour, minute = int(match["hour"]), int((match["minute"] or match["dotted"] or ":0")[1:])
    clock = (match["clock"] or match["marked"] or "").lower()
    base = hour % 24 * 60 + minute
    if is_half_day := re.match(r"[ap]\.?m", clock):
        minutes = {base % _HALF_DAY + (clock[0] == "p") * _HALF_DAY}
    elif (clock or source) in ("uhr", "de") or hour > _LARGEST_WORD or hour == 0:
        minutes = {base}
    else:
        minutes = {base % _HALF_DAY, base % _HALF_DAY + _HALF_DAY}
    readings = {f"time {each}" for each in minutes}
    if not (minute or is_half_day):
        readings.add(str(hour))  # "at 9" for "um 9 Uhr"
    spellings = list[str]()
    for each in sorted(minutes, key=base.__eq__) if clock else ():
        clock_hour, rest = divmod(each, 60)
        half = (clock_hour - 1) % 12 + 1
        if target == "de":
            spellings.insert(0, f"{clock_hour}:{rest:02} Uhr" if rest else f"{clock_hour} Uhr")
        elif target == "en":
            marker = "p.m." if each >= _HALF_DAY else "a.m."
            spellings.insert(0, f"{half}:{rest:02} {marker}" if rest else f"{half} {marker}")
    small = (hour - 1) % 12 + 1 if match["marked"] and not minute else -1
    spellings = spellings or [match[0]]
    return Span(match.start(), match[0], frozenset(readings), small=small, spellings=tuple(spellings))


def _number(match: re.Match[str], source: str, target: str) -> Span:
    value, sign = "".join(map(_ascii, match["value"])), "-" if match["sign"] else ""
    before, unit = (match["before"] or "").strip(), match["unit"] or ""
    unit_match = _UNIT.search(before or unit)
    kind = _unit(unit_match) if unit_match else ""
    if not before and target == "en" and kind in "€$£¥" and kind in unit:
        before, unit = kind, ""
    elif before and target != "en":
        before, unit = "", f" {before}"
    if len(unit) > len("grad") and kind in _UNIT_WORDS and target in ("en", "de"):
        unit = re.sub(r"[^\W\d].*", _UNIT_WORDS[kind][target == "de"], unit)
    scale = (match["scale"] or "")[1:]
    scale = _SCALES.get(target, {}).get(scale.lower(), scale)
    ending = match["ordinal"] or ""
    if ending and target != "en":
        ending = {"de": "er" if ending == "s" else "."}.get(target, "")
    readings = _readings(value, source)
    spellings = [
        f"{before}{sign}{_write(each, value, target)}{ending}{scale and f' {scale}'}{unit}" for each in sorted(readings)
    ]
    if _NAMED.search(match.string, max(match.start() - 20, 0), match.start()):
        spellings = [match[0]]
    small = int(value) if value.isdecimal() and len(value) <= 2 and not sign else -1
    return Span(
        match.start(),
        match[0],
        frozenset(sign + each for each in readings),
        kind,
        small=small if small <= _LARGEST_WORD else -1,
        spellings=tuple(spellings),
    )


def _ascii(character: str) -> str:
    return str(int(character)) if character.isdecimal() else character


def _readings(value: str, language: str) -> set[str]:
    """Return the values that a number may have, with a decimal point. Without a language, a comma can mean both."""
    if len(value) > _LONGEST_NUMBER or re.search("[-–/:]", value):
        return {value.replace("–", "-")}
    marks = re.findall(r"\D", value)
    *groups, last = re.split(r"\D", value)
    grouped = bool(groups) and groups[0] not in ("", "0") and all(len(each) == 3 for each in [*groups[1:], last])
    whole, decimal = "".join([*groups, last]).lstrip("0") or "0", ""
    if marks and marks[-1] in ".,":
        fraction = last.rstrip("0")
        decimal = ("".join(groups).lstrip("0") or "0") + (f".{fraction}" if fraction else "")
    if not marks or not decimal:
        return {whole}
    if len(marks) > 1 and len(set(marks)) == 1:
        return {whole} if grouped else {value}  # a list, such as "1,2,3"
    if len(marks) > 1 or not grouped:
        return {decimal}
    point = "." if language in _DECIMAL_POINT.split() else ","
    return {decimal if marks[0] == point else whole} if language else {whole, decimal}


def _write(reading: str, value: str, language: str) -> str:
    """Write a value in the notation of a language.

    The result has as many decimal places as `value`, and separators of thousands if `value` has them.
    """
    if value.isdecimal() or re.search("[^0-9.]", reading) or len(value) > _LONGEST_NUMBER:
        return value
    whole, _, _ = reading.partition(".")
    last = re.split(r"\D", value)[-1]
    places = last if "." in reading or (len(last) != 3 or len(set(re.findall(r"\D", value))) > 1) else ""
    group, point = (",", ".") if language in _DECIMAL_POINT.split() else (".", ",")
    is_grouped = len(re.findall(r"\D", value)) > bool(places)
    return (f"{int(whole):,}".replace(",", group) if is_grouped else whole) + (point + places if places else "")


def _unit(match: re.Match[str]) -> str:
    return list(_UNITS)[(match.lastindex or 1) - 1]

"""Make sentence pairs with random numbers, dates, links, file names and placeholders, in each language's notation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from tests.benchmarks.everyday_variants import (
    WORDS,
    Pair,
    adapted,
    form,
    invented_name,
    random_person,
    random_place,
    replaced,
)

_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
}
_GROUP = {"en": ",", "de": ".", "fr": " ", "es": "."}
_DAY_PATTERNS = {"en": "{} {} {}", "de": "{}. {} {}", "fr": "{} {} {}", "es": "{} de {} de {}"}
"""Date with a day, the name of a month, and a year."""
_FILE_NAMES, _SUFFIXES, _DOMAINS, _PREFIXES = (WORDS[key] for key in ("file names", "suffixes", "domains", "prefixes"))
_CURRENCIES, _UNITS, _FIELDS = (WORDS[key] for key in ("currencies", "units", "fields"))
_COMPANIES = ["GmbH", "AG", "Ltd", "Inc.", "S.A.", "SARL", "S.L.", "GmbH & Co. KG", "SAS", "Group"]
_DEVICES = ["%s", "%d", "%1$s", "%2$s", "%(name)s", "%(count)d", "${user}", "${total}", "{{name}}", "{{ date }}"]

Values = dict[str, str]
"""The same span in each language."""
Other = Callable[[str], Values]


def number(value: float, places: int, language: str, *, grouped: bool = True) -> str:
    """Format a number with `places` decimal places in the notation of a language, with or without digit grouping."""
    whole, _, decimals = f"{value:,.{places}f}".partition(".")
    whole = whole.replace(",", _GROUP[language] if grouped else "")
    return whole + ("." if language == "en" else ",") * bool(decimals) + decimals


def _same(text: str) -> Values:
    return dict.fromkeys(_MONTHS, text)


def _random_number(generator: random.Random) -> tuple[float, int]:
    digits = generator.choice((1, 2, 2, 3, 3, 4, 5, 6))
    places = generator.choice((0, 0, 0, 0, 1, 2)) if digits < 5 else 0
    return max(2, generator.randrange(10 ** (digits - 1), 10**digits)) + generator.random() * bool(places), places


def _number(generator: random.Random) -> Values:
    value, places = _random_number(generator)
    grouped = value >= 10_000 or generator.random() < 0.7
    return {language: number(value, places, language, grouped=grouped) for language in _MONTHS}


def _small(generator: random.Random) -> Values:
    numbers = [generator.randint(*limits) for limits in ((2, 12), (13, 99), (100, 999))]
    return _same(str(generator.choice(numbers)))


def _percent(generator: random.Random) -> Values:
    value, places = generator.randint(2, 99) + generator.random(), generator.choice((0, 0, 1, 2))
    space = generator.choice(("", " ", " "))
    spaces = dict.fromkeys(_MONTHS, space) | {"en": ""}
    return {language: f"{number(value, places, language)}{spaces[language]}%" for language in _MONTHS}


def _amount(generator: random.Random) -> Values:
    value, places = _random_number(generator)
    places = places and 2 if generator.random() < 0.5 else 2
    currency, before = generator.choice(_CURRENCIES), generator.random() < 0.8
    values = {}
    for language in _MONTHS:
        text = number(value, places, language)
        is_before = language == "en" and (before or currency in "€$£")
        space = " " if currency.isalpha() else ""
        values[language] = f"{currency}{space}{text}" if is_before else f"{text} {currency}"
    return values


def _measure(generator: random.Random) -> Values:
    value, places = _random_number(generator)
    unit = generator.choice(_UNITS)
    return {language: f"{number(value, places, language)} {unit}" for language in _MONTHS}


def _date(generator: random.Random) -> Values:
    year, month, day = generator.randint(1950, 2035), generator.randint(1, 12), generator.randint(2, 28)
    kind = generator.random()
    if kind < 0.25:
        return _same(f"{year}-{month:02}-{day:02}")
    if kind < 0.4:
        return _same(generator.choice((f"{day:02}.{month:02}.{year}", f"{day:02}/{month:02}/{year}")))
    if kind < 0.55:
        slashed = f"{day:02}/{month:02}/{year}"
        return {**_same(slashed), "de": slashed.replace("/", ".")}
    values = {}
    for language, months in _MONTHS.items():
        pattern = _DAY_PATTERNS[language] if generator.random() < 0.8 or language != "en" else "{1} {0}, {2}"
        values[language] = pattern.format(day, months.split()[month - 1], year)
    return values


def _day(generator: random.Random) -> Values:
    """Return a random date without a year, in each language."""
    month, day = generator.randrange(12), generator.randint(2, 28)
    english = generator.choice(("{} {}", "{1} {0}", "{}th of {}" if 3 < day < 21 else "{} {}"))
    patterns = {"en": english, "de": "{}. {}", "fr": "{} {}", "es": "{} de {}"}
    return {code: pattern.format(day, _MONTHS[code].split()[month]) for code, pattern in patterns.items()}


def _time(generator: random.Random) -> Values:
    hour, minute = generator.randint(7, 22), generator.choice((0, 15, 30, 45, generator.randint(1, 59)))
    plain = f"{hour}:{minute:02}"
    if generator.random() < 0.6:
        return _same(plain)
    half = f"{(hour - 1) % 12 + 1}:{minute:02} {'p.m.' if hour >= 12 else 'a.m.'}"
    french = f"{hour} h {minute:02}" if minute else f"{hour} h"
    return {"en": half, "de": f"{plain} Uhr", "fr": french, "es": plain}


def _phone(generator: random.Random) -> Values:
    def digits(count: int) -> str:
        return "".join(generator.choices("0123456789", k=count))

    draw = generator.randint
    numbers = (
        f"+49 {draw(30, 999)} {digits(draw(5, 8))}",
        f"0{draw(30, 9999)} {digits(3)} {digits(3)}",
        f"+33 {draw(1, 9)} {digits(2)} {digits(2)} {digits(2)} {digits(2)}",
        f"+34 {digits(3)} {digits(3)} {digits(3)}",
        f"+1 {digits(3)}-{digits(3)}-{digits(4)}",
        f"+44 20 {digits(4)} {digits(4)}",
        f"0{draw(1, 9)}/{digits(6)}-{digits(2)}",
    )
    return _same(generator.choice(numbers))


def _word(generator: random.Random) -> str:
    return generator.choice(_FILE_NAMES) if generator.random() < 0.6 else invented_name(generator).lower()


def _domain(generator: random.Random) -> str:
    return f"{_word(generator)}.{generator.choice(_DOMAINS)}"


def _url(generator: random.Random) -> Values:
    start = generator.choice(("https://", "https://", "http://", "https://www.", "www."))
    path = "".join(f"/{_word(generator)}" for _ in range(generator.choice((0, 0, 1, 1, 2))))
    end = generator.choice(("", "", "", "/", f"?id={generator.randint(1, 9999)}", f"/{generator.randint(1, 2030)}"))
    return _same(start + _domain(generator) + path + end)


def _email(generator: random.Random) -> Values:
    names = ("info", "office", "support", "kontakt", "contact", "hr", invented_name(generator).lower())
    first = generator.choice(names)
    last = generator.choice(("", "", f".{invented_name(generator).lower()}", f"{generator.randint(1, 99)}"))
    return _same(f"{first}{last}@{_domain(generator)}")


def _file(generator: random.Random) -> Values:
    stem = _word(generator)
    if generator.random() < 0.6:
        mark = generator.choice("_-")
        ends = (_word(generator), str(generator.randint(1, 2030)), f"v{generator.randint(1, 9)}")
        stem += mark + generator.choice(ends)
    folders = ("", "", "", "", f"/home/{_word(generator)}/", f"C:\\{_word(generator).title()}\\", "src/")
    folder = generator.choice(folders)
    return _same(folder + (stem.title() if generator.random() < 0.3 else stem) + "." + generator.choice(_SUFFIXES))


def _code(generator: random.Random) -> Values:
    prefix, figure = generator.choice(_PREFIXES), generator.randint(1, 99999)
    codes = (
        f"{prefix}-{generator.randint(2000, 2030)}-{figure:04}", f"{prefix}-{figure}", f"{prefix}{figure}",
        f"{prefix} {figure}", f"#{figure + 100}", f"{figure}/{generator.randint(10, 40)}", f"{figure:05}-{prefix}",
        f"{prefix}_{figure}",
    )  # fmt: skip
    return _same(generator.choice(codes))


def _version(generator: random.Random) -> Values:
    parts = [str(generator.randint(0, 25)) for _ in range(generator.choice((2, 3, 3)))]
    return _same(".".join(parts))


def _placeholder(generator: random.Random) -> Values:
    return _same(generator.choice(_DEVICES) if generator.random() < 0.3 else f"{{{generator.choice(_FIELDS)}}}")


def _person(generator: random.Random) -> Values:
    surname = f" {invented_name(generator)}" if generator.random() < 0.6 else ""
    return _same(random_person(generator) + surname)


def _surname(generator: random.Random) -> Values:
    return _same(generator.choice(("Müller", "Martin", "García", "Smith", "Weber", "Dubois", "López", "Brown",
                                   *(invented_name(generator) for _ in range(8)))))  # fmt: skip


def _place(generator: random.Random) -> Values:
    place = random_place(generator)
    return {language: form(place, language) for language in _MONTHS}


def _company(generator: random.Random) -> Values:
    return _same(f"{invented_name(generator)} {generator.choice(_COMPANIES)}")


KINDS: dict[str, Callable[[random.Random], Values]] = {
    "number": _number, "small": _small, "percent": _percent, "amount": _amount, "measure": _measure, "date": _date,
    "day": _day, "time": _time, "phone": _phone, "url": _url, "email": _email, "file": _file, "code": _code,
    "version": _version, "placeholder": _placeholder, "person": _person, "surname": _surname, "place": _place,
    "company": _company,
}  # fmt: skip
"""Functions that return a random span of each kind. A template contains the kind, such as `<date>` or `<date2>`."""
_SLOT = re.compile(r"<([a-z]+)\d?>")
_FRAMES = [
    "<number>. {}", "<small>) {}", "<code>: {}", "<time> – {}", "<date>: {}", "{} (<url>)", "{} <url>", "{} (<amount>)",
    "<file>: {}", "[<placeholder>] {}", "<email>: {}", "{} (<code>, <date>)", "<person>: {}", "{} (<small>/<small2>)",
    "{} [<code>]", "<placeholder>: {}", "- {} (<percent>)", "<code> | {} | <date>", "{} – <company>",
    "<small>. {} (<file>)", "<url> – {}", "{} (<phone>)", "<version>: {}", "{} → <file>", "* {} <email>",
]  # fmt: skip
"""Texts around a sentence that are the same in all languages."""
_NAMES = ("Tom", "John", "Bill", "Ken", "Jim", "Mike")
_NUMBER = re.compile(r"(?<![\w.,:/+=#-])(?:\d{1,3}(?:[., ]\d{3})+|\d+)(?:[.,]\d{1,2})?(?![\w:/]|[.,]\d|-\w)")
_CLOCK = re.compile(r"(?<![\d:.,])([01]?\d|2[0-4]):([0-5]\d)(?![\d:])")


def filled(template: Sequence[str], languages: Sequence[str], generator: random.Random) -> list[str]:
    """Fill the slots of a template with random values, such as dates. Equal slots get equal values in all languages."""
    values: dict[str, Values] = {}
    for match in _SLOT.finditer(template[0]):
        values.setdefault(match[0], KINDS[match[1]](generator))
    sentences = []
    for sentence, language in zip(template, languages, strict=True):
        for slot, value in values.items():
            if re.match("<(?:person|surname|place|company)", slot):
                sentence = adapted(sentence, language, slot, value[language])
            sentence = sentence.replace(slot, value[language]).replace(".m..", ".m.")
        sentences.append(sentence)
    return sentences


def framed(pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Add the same random values, such as a date or a link, before or after both sentences of a pair."""
    frame = generator.choice(_FRAMES)
    first, second = filled((frame, frame), languages, generator)
    return first.replace("{}", pair[0], 1), second.replace("{}", pair[1], 1)


def with_other_numbers(pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Replace the numbers and times in a pair by random ones, unless they differ between the two sentences.

    Formulas, and sentences about program versions, are returned unchanged.
    """
    if not re.search(r"\d", pair[0]) or re.search(r"[=<>{}|\\^\[\]]|LibreOffice|[Vv]ersi", pair[0] + pair[1]):
        return pair
    changed = pair
    for pattern, value_of, other in ((_CLOCK, str, _other_clock), (_NUMBER, _number_value, _other_number)):
        changed = _with_others(changed, languages, pattern, value_of, partial(other, generator=generator))
    return changed


def _with_others(
    pair: Pair, languages: Sequence[str], pattern: re.Pattern[str], value_of: Callable[[str], str], other: Other
) -> Pair:
    """Replace all matches of a pattern in a pair, if both sentences have the same values and no value occurs twice.

    Args:
        pair: The sentences.
        languages: The languages of the sentences.
        pattern: The pattern to replace, such as a time.
        value_of: Function that returns the value of a match, independent of the notation.
        other: Function that returns a random value in each language, given a value.
    """
    values = [[value_of(match[0]) for match in pattern.finditer(side)] for side in pair]
    if sorted(values[0]) != sorted(values[1]) or len({*values[0]}) < len(values[0]):
        return pair
    others = {each: other(each) for each in sorted(values[0])}

    def replaced(side: str, code: str) -> str:
        return pattern.sub(lambda match: others[value_of(match[0])][code], side)

    first, second = map(replaced, pair, languages)
    return first, second


def _other_clock(value: str, generator: random.Random) -> Values:
    hour = int(value.split(":")[0])
    first, last = (2, 12) if 2 <= hour <= 12 else (13, 23)
    return _same(f"{generator.randint(first, last)}:{generator.choice((0, 15, 30, 45, generator.randrange(60))):02}")


def _number_value(text: str) -> str:
    """Return a number with a decimal point and without thousands separators. "g" marks integers that had separators."""
    decimals = re.search(r"[.,](\d{1,2})$", text)
    whole = re.sub(r"\D", "", text[: decimals.start()] if decimals else text)
    return f"{whole}.{decimals[1]}" if decimals else f"{whole}{'g' * (len(whole) < len(text))}"


def _other_number(value: str, generator: random.Random) -> Values:
    """Return a random number with as many decimal places. Keep 0 and 1, because other numbers take plurals."""
    whole, _, decimals = value.rstrip("g").partition(".")
    if decimals or value.endswith("g"):
        digits = max(1, len(whole) + generator.choice((-1, 0, 1))) if decimals else generator.randint(4, 7)
        new = generator.randint(max(2, 10 ** (digits - 1)), 10**digits - 1) + generator.random() * bool(decimals)
        return {code: number(new, len(decimals), code) for code in _MONTHS}
    if int(whole) < 2 or whole.startswith("0") or len(whole) > 9:
        return _same(whole)
    if len(whole) == 4:
        return _same(str(generator.randint(1100, 2099) if 1100 <= int(whole) < 2100 else generator.randint(1000, 9999)))
    digits = len(whole) if generator.random() < 0.6 else generator.randint(1, 3)
    return _same(str(generator.randint(max(2, 10 ** (digits - 1)), 10**digits - 1)))


def with_placeholder(pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Replace a first name in a pair by a placeholder, an e-mail address, a company, a full name or a user name.

    Return the pair unchanged if no frequent first name is in both sentences, or if the name is in the genitive.
    """
    for name in _NAMES:
        if name in pair[0] and not re.search(rf"{name}(?:['’]|s\b)|\w['’]{name}", pair[0] + pair[1]):
            kind = generator.choice(("placeholder", "placeholder", "placeholder", "email", "company", "person", "code"))
            span = KINDS[kind](generator)["en"] if kind != "code" else f"@{invented_name(generator).lower()}"
            if (changed := replaced(pair, languages, name, span.replace("|", ""))) != pair:
                return changed
    return pair


def pairs_with_spans(
    pairs: Sequence[Pair], languages: Sequence[str], count: int, generator: random.Random
) -> Iterator[Pair]:
    """Yield pairs with other numbers, up to `count` pairs with replaced names, and `count` pairs with added spans."""
    shuffled = generator.sample(pairs, len(pairs))
    for pair in shuffled:
        if (changed := with_other_numbers(pair, languages, generator)) != pair:
            yield changed
            yield with_other_numbers(pair, languages, generator)
    named = (pair for pair in shuffled if any(name in pair[0] for name in _NAMES))
    placed = ((with_placeholder(pair, languages, generator), pair) for pair in named)
    yield from islice((changed for changed, pair in placed if changed != pair), count)
    for pair in shuffled[-count:]:
        yield framed(pair, languages, generator)

"""Make variants of sentence pairs, so that a model learns to translate input that is rare in its training text."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

Pair = tuple[str, str]
"""A sentence and its translation."""

INVENTED = 0.4
"""Share of the replaced names that are invented, such as "Wibruno"."""

QUOTATION_MARKS = {"en": '"\\1"', "de": "„\\1“", "fr": "« \\1 »", "es": "«\\1»"}
"""Usual quotation marks of each language, as a replacement for the first group of a pattern."""
_OTHER_MARKS = {"en": "“\\1”", "de": '"\\1"', "fr": '"\\1"', "es": "“\\1”"}
"""Other quotation marks that people type."""
_QUOTED = re.compile('"([^"]*)"|„([^„“]*)“|« ?([^«»]*?) ?»')
_ELISION = r"\b([Dd]|[Qq]u|[Ll]orsqu|[Pp]uisqu)(?:e |')"
_VOWELS_IN_FRENCH = "AEIOUÉÈÎÔaeiouéèîô"


def _read_words() -> dict[str, list[str]]:
    """Return the word lists in `everyday_tables/words.tsv`, keyed by name."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "everyday_tables" / "words.tsv").read_text("utf-8").splitlines():
        if not line.startswith("#"):
            name, _, words = line.partition("\t")
            found.setdefault(name, []).extend(words.split())
    return found


WORDS = _read_words()
_ONSETS, _VOWELS = WORDS["onsets"], WORDS["vowels"]
_NAMES = [(WORDS[kind], WORDS[f"other {kind}"]) for kind in ("men", "women", "places")]
"""The most frequent names and places in Tatoeba, and names that replace them."""
_CODAS = ["", "", "", "n", "r", "l", "ck", "m", "rt", "nd", "tt"]
_LANGUAGES = ("en", "de", "fr", "es")
_NUMBER = re.compile(r"\d+")


def form(name: str, language: str) -> str:
    """Return the form of a name in one language, given a table entry such as `Berlin|||Berlín` (en, de, fr, es).

    Empty forms are the same as the English form.
    """
    forms = name.split("|")
    number = _LANGUAGES.index(language)
    return (forms[number] if number < len(forms) else "") or forms[0]


def bare(sentence: str) -> str:
    """Return a sentence without its final full stop."""
    return sentence[:-1] if sentence.endswith(".") and not sentence.endswith("..") else sentence


def lower(source: str, target: str) -> Pair:
    """Return the source in lower case, and the target. Remove the final full stop of both sentences."""
    return bare(source).lower(), bare(target)


def typeset(source: str, target: str, language: str) -> Pair:
    """Change quotation marks, apostrophes and dots in the source. Return the source and the unchanged target.

    `language` is the language of the source.
    """
    marks = _OTHER_MARKS[language]
    changed = _QUOTED.sub(lambda match: marks.replace("\\1", match[match.lastindex or 1]), source)
    changed = changed.replace("'", "’").replace("...", "…")
    if language == "fr":
        changed = re.sub(r" (?=[?!;])", "", changed)
    return (changed.replace("¿", "").replace("¡", "") if language == "es" else changed), target


def invented_name(generator: random.Random) -> str:
    """Return a random name made of random syllables, such as "Trelando"."""
    syllables = [generator.choice(_ONSETS) + generator.choice(_VOWELS) for _ in range(generator.randint(2, 4))]
    return ("".join(syllables) + generator.choice(_CODAS)).title()


def random_person(generator: random.Random) -> str:
    """Return a random first name, which may be invented, as an entry of the tables (see `form`)."""
    known = generator.choice(generator.choice((WORDS["other men"], WORDS["other women"])))
    return invented_name(generator) if generator.random() < INVENTED else known


def random_place(generator: random.Random) -> str:
    """Return a random place name, which may be invented, as an entry of the tables (see `form`)."""
    known = generator.choice(WORDS["other places"])
    return invented_name(generator) if generator.random() < INVENTED else known


def renamed(pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Replace first names, places and numbers that are in both sentences of a pair by random ones."""
    changed = pair
    for names, others in _NAMES:
        for name in names:
            if form(name, languages[0]) not in pair[0]:
                continue
            known = generator.choice(others)
            other = invented_name(generator) if generator.random() < INVENTED else known
            changed = replaced(changed, languages, name, other)
    for number in sorted({*_NUMBER.findall(pair[0])} & {*_NUMBER.findall(pair[1])}):
        if 2 <= len(number) <= 5 and pair[0].count(number) == pair[1].count(number) == 1:
            digits = str(generator.randint(10 ** (len(number) - 1), 10 ** len(number) - 1))
            changed = (changed[0].replace(number, digits), changed[1].replace(number, digits))
    return changed


def replaced(pair: Pair, languages: Sequence[str], name: str, other: str) -> Pair:
    """Replace a name in both sentences, including its genitive. Return the pair unchanged if the counts differ.

    `name` and `other` are entries of the tables (see `form`).
    """
    old, new = ([form(each, language) for language in languages] for each in (name, other))
    if old[0] not in pair[0] or old[1] not in pair[1]:
        return pair
    genitives = ["(s?)" if language == "de" else "()" for language in languages]
    patterns = [re.compile(rf"\b{re.escape(each)}{end}\b") for each, end in zip(old, genitives, strict=True)]
    endings = [pattern.findall(side) for pattern, side in zip(patterns, pair, strict=True)]
    if len(endings[0]) != len(endings[1]) or ("s" in endings[0] + endings[1] and new[0][-1] in "sßxz"):
        return pair
    sides = []
    for side, pattern, language, before, after in zip(pair, patterns, languages, old, new, strict=True):
        side = adapted(side, language, before, after)
        sides.append(pattern.sub(rf"{after}\1", side))
    return sides[0], sides[1]


def adapted(side: str, language: str, old: str, new: str) -> str:
    """Change the words before the name `old`, such as "de" or "y", to the form that they have before the name `new`."""
    name = rf"(?={re.escape(old)}(?!\w))"
    if language == "fr":
        return re.sub(_ELISION + name, "\\1'" if new[0] in _VOWELS_IN_FRENCH else "\\1e ", side)
    if language == "es" and re.match(r"H?[IÍ](?![aeo])", new):
        return re.sub(rf"\by {name}", "e ", side)
    if language == "es" and re.match("H?[OÓ]", new):
        return re.sub(rf"\bo {name}", "u ", side)
    return side

"""All words of the grammar, read from their tables once."""

from collections.abc import Mapping

from zoo.data.builtin import adverbials, nouns, reading, verbs
from zoo.data.builtin.features import Case
from zoo.data.builtin.words import Adjective, Adverb, Lexicon, Verb

ERAS = ("past", "perfect", "present", "future")


def _adjectives() -> Mapping[str, tuple[Adjective, ...]]:
    """The adjectives that go with each sort of nouns."""
    tables = nouns.ADJECTIVES.items()
    known = [reading.adjective(sorts, cells) for sorts, table in tables for cells in reading.rows(table)]
    return {sort: tuple(adjective for adjective in known if sort in adjective.sorts) for sort in nouns.NOUNS}


def _verbs() -> tuple[tuple[float, tuple[Verb, ...]], ...]:
    tables = verbs.VERBS.items()
    return tuple((float(head.split()[0]), tuple(map(reading.verb, reading.rows(table)))) for head, table in tables)


def _times() -> Mapping[str, tuple[tuple[float, tuple[Adverb, ...]], ...]]:
    """What goes with each era: few fixed phrases are drawn more often than the many hours and years."""
    hours = [adverbials.OCLOCK.format(english=word, german=german) for word, german in reading.pairs(nouns.NUMERALS)]
    years = [adverbials.YEAR.format(year=year) for year in adverbials.YEARS]
    tables = ((12, adverbials.TIMES), (3, "\n".join(hours)), (2, "\n".join(years)))
    groups = [(weight, tuple(map(reading.adverb, reading.rows(table)))) for weight, table in tables]
    chosen = {era: [(weight, tuple(a for a in group if era in a.eras)) for weight, group in groups] for era in ERAS}
    return {era: tuple((weight, group) for weight, group in chosen[era] if group) for era in ERAS}


def _simple_adverbs(text: str) -> tuple[Adverb, ...]:
    return tuple(map(reading.simple_adverb, reading.pairs(text)))


def _lines(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


LEXICON = Lexicon(
    nouns={sort: tuple(reading.noun(sort, row) for row in reading.rows(nouns.NOUNS[sort])) for sort in nouns.NOUNS},
    adjectives=_adjectives(),
    determiners=tuple(map(reading.determiner, reading.rows(nouns.DETERMINERS))),
    numerals=tuple((english, german) for english, german in reading.pairs(nouns.NUMERALS)),
    names=tuple(nouns.NAMES.split()),
    verbs=_verbs(),
    tenses=tuple(map(reading.tense, reading.rows(verbs.TENSES))),
    times=_times(),
    frequencies=_simple_adverbs(adverbials.FREQUENCIES),
    never=_simple_adverbs(adverbials.NEVER)[0],
    questions={german: reading.question(word, german) for word, german in reading.pairs(adverbials.QUESTIONS)},
    manners=_simple_adverbs(adverbials.MANNERS),
    companions=tuple(reading.marking(entry) for (entry,) in reading.pairs(adverbials.COMPANIONS)),
    locations=tuple(reading.location(line, Case.DATIVE) for line in _lines(adverbials.LOCATIONS)),
    goals=tuple(reading.location(line, Case.ACCUSATIVE) for line in _lines(adverbials.LOCATIONS)),
    directions=tuple(map(reading.direction, _lines(adverbials.DIRECTIONS))),
    subordinating=tuple(map(reading.conjunction, _lines(adverbials.SUBORDINATING))),
    coordinating=tuple((english, german) for english, german in reading.pairs(adverbials.COORDINATING)),
)

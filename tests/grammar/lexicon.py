"""All words of the built-in corpus, parsed from `tests.grammar.tables`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.grammar import tables
from tests.grammar.morphology import (
    Case,
    Definiteness,
    EnglishVerb,
    GenderNumber,
    GermanDeterminer,
    GermanNoun,
    GermanVerb,
    Tense,
    Words,
)
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tree import Tree

Sorts = frozenset[str]
"""Semantic sorts of nouns, such as person, food and place. Verbs and adjectives only combine with certain sorts."""

_TIMES = ("past", "perfect", "present", "future")
_CASES = {"nom": Case.NOMINATIVE, "acc": Case.ACCUSATIVE, "dat": Case.DATIVE, "gen": Case.GENITIVE}
_GENDERS = {"m": GenderNumber.MASCULINE, "n": GenderNumber.NEUTER, "f": GenderNumber.FEMININE}
_AUXILIARIES = {"be", "have", "will", "can", "must", "may", "should"}


@dataclass(frozen=True, slots=True)
class Noun:
    """Countable noun: its English singular and plural, and its German forms."""

    sort: str
    singular: str
    plural: str
    german: GermanNoun


@dataclass(frozen=True, slots=True)
class Adjective:
    """Adjective. `comparative` is empty if there is none. German endings are added to `stem`, as in dunkel, dunkl-e."""

    sorts: Sorts
    english: str
    comparative: str
    german: str
    stem: str
    german_comparative: str


@dataclass(frozen=True, slots=True)
class Determiner:
    """Determiner. `singular` or `plural` is None if the form does not exist, and empty if the form has no word.

    `group` is d(efinite), i(ndefinite), q(uantity), n(egative) or w (interrogative). A clause may only permit certain
    groups.
    """

    singular: str | None
    plural: str | None
    tag: str
    german: GermanDeterminer
    group: str
    definiteness: Definiteness


@dataclass(frozen=True, slots=True)
class CaseMarking:
    """Marking of a nominal's role in a clause: English preposition, German preposition, and German case.

    A preposition is empty if there is none.
    """

    english: str
    german: str
    case: Case


@dataclass(frozen=True, slots=True)
class Slot:
    """Complement that a verb takes besides its subject.

    Attributes:
        kind: "nominal", or the kind of a different phrase or clause, such as "place" or "that".
        marking: For a nominal, its prepositions and case.
        sorts: For a nominal, its permitted semantic sorts.
        optional: Whether a clause may omit the complement.
    """

    kind: str
    marking: CaseMarking
    sorts: Sorts
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """Verb in both languages, with the permitted sorts of its subject, and the permitted adjuncts.

    `frames` are the alternative lists of complements, in English order. `perfect_auxiliary` is haben or sein.
    """

    english: EnglishVerb
    particle: str
    german: GermanVerb
    perfect_auxiliary: GermanVerb
    reflexive: bool
    subject: Sorts
    adjuncts: frozenset[str]
    frames: tuple[tuple[Slot, ...], ...]


@dataclass(frozen=True, slots=True)
class Adverb:
    """Adverbial phrase, and the times (past, perfect, present, future) of the clauses that may contain it."""

    english: Tree
    german: Words
    times: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """Subordinating conjunction. German may have a different one in the past: `when` is `wenn` or `als`.

    `german_past` is None if the conjunction is not used in the past.
    """

    english: str
    german: str
    german_past: str | None

    def translation(self, past: bool) -> str | None:
        """Return the German conjunction for a clause, depending on whether the clause is in the past, or None."""
        return self.german_past if past else self.german


@dataclass(frozen=True, slots=True)
class PlacePreposition:
    """Preposition of place, and the semantic sorts of the nouns that may follow it."""

    marking: CaseMarking
    sorts: Sorts


@dataclass(frozen=True)
class Lexicon:
    """All words, in the groups from which they are sampled. A number in a tuple is a weight in sampling."""

    nouns: Mapping[str, tuple[Noun, ...]]
    adjectives: Mapping[str, tuple[Adjective, ...]]
    determiners: tuple[tuple[float, Determiner], ...]
    numerals: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    verbs: tuple[tuple[float, tuple[Verb, ...]], ...]
    tenses: tuple[tuple[float, Tense], ...]
    times: Mapping[str, tuple[tuple[float, tuple[Adverb, ...]], ...]]
    frequencies: tuple[Adverb, ...]
    never: Adverb
    questions: Mapping[str, Adverb]
    manners: tuple[Adverb, ...]
    companions: tuple[CaseMarking, ...]
    locations: tuple[PlacePreposition, ...]
    goals: tuple[PlacePreposition, ...]
    directions: tuple[PlacePreposition, ...]
    subordinating: tuple[tuple[float, Conjunction], ...]
    coordinating: tuple[tuple[str, str], ...]


def _rows(table: str) -> Iterator[list[str]]:
    """Yield the cells of each line of a table."""
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def _entries(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the entries of a list that is separated by commas, each as a tuple of its words."""
    return tuple(tuple(entry.split()) for entry in text.split(","))


def _lines(table: str) -> list[str]:
    return [line.strip() for line in table.strip().splitlines()]


def _principal_parts(text: str) -> dict[str, str]:
    """Return the principal parts of irregular verbs by infinitive."""
    return {infinitive: " ".join((infinitive, *parts)) for infinitive, *parts in _entries(text)}


_IRREGULAR_ENGLISH = _principal_parts(tables.IRREGULAR_ENGLISH)
_IRREGULAR_GERMAN = _principal_parts(tables.IRREGULAR_GERMAN)


def english_verb(base: str) -> EnglishVerb:
    """Return the English verb with this infinitive."""
    return EnglishVerb.from_parts(_IRREGULAR_ENGLISH.get(base, base), base in _AUXILIARIES)


def german_verb(infinitive: str) -> GermanVerb:
    """Return the German verb with this infinitive. `+` follows a separable prefix, as in `auf+heben`."""
    prefix, plus, simple = infinitive.rpartition("+")
    return GermanVerb.from_parts(prefix + plus + _IRREGULAR_GERMAN.get(simple, simple))


def _sorts(text: str) -> Sorts:
    """Return the semantic sorts in a text. The name of a group of sorts stands for all sorts of the group."""
    return frozenset(sort for name in text.split() for sort in tables.SORTS.get(name, name).split())


def _marking(text: str) -> CaseMarking:
    """Parse a marking such as `for=auf+acc`: an English preposition or nothing, a German one or nothing, and a case."""
    english, _, german = text.partition("=")
    preposition, _, case = german.rpartition("+")
    return CaseMarking(english, preposition, _CASES[case])


def _slot(text: str) -> Slot:
    """Parse a complement of a verb, such as `=acc:person`, `?for=für+acc:person` (optional) or `@place`."""
    if text.startswith("@"):
        return Slot(text[1:], CaseMarking("", "", Case.NOMINATIVE), frozenset())
    marking, _, sorts = text.removeprefix("?").partition(":")
    return Slot("nominal", _marking(marking), _sorts(sorts.replace(",", " ")), text.startswith("?"))


def _noun(sort: str, cells: list[str]) -> Noun:
    """Parse a row such as `dog dogs | m Hund Hundes Hunde`."""
    singular, plural = cells[0].split()
    gender, *parts = cells[1].split()
    return Noun(sort, singular, plural, GermanNoun(_GENDERS[gender], *parts))


def _adjective(sorts: str, cells: list[str]) -> Adjective:
    """Parse a row such as `dark darker | dunkel/dunkl dunkler`. `more` means that `more` forms the comparative."""
    positive, _, comparative = cells[0].partition(" ")
    german, _, german_comparative = cells[1].partition(" ")
    word, _, stem = german.partition("/")
    return Adjective(_sorts(sorts), positive, comparative, word, stem or word, german_comparative)


def _determiner(cells: list[str]) -> tuple[float, Determiner]:
    """Parse a row such as `30 the the DT | d article | d definite`."""

    def words(cell: str) -> str:  # joined by underscores; a single underscore is an empty word
        return " ".join(filter(None, cell.split("_")))

    weight, *numbers, tag = cells[0].split()
    singular, plural = (None if number == "-" else words(number) for number in numbers)
    stem, paradigm = cells[1].split()
    group, definiteness = cells[2].split()
    german = GermanDeterminer(words(stem), paradigm)
    return float(weight), Determiner(singular, plural, tag, german, group, Definiteness(definiteness))


def _tense(cells: list[str]) -> tuple[float, Tense]:
    """Parse a row such as `14 have - participle | present | +- | perfect | all`."""
    weight, english, german, form = cells[0].split()
    base, _, to = english.partition("_")
    return float(weight), Tense(
        english=None if base == "-" else english_verb(base),
        german=None if german == "-" else german_verb(german),
        form="participle" if form == "participle" else "infinitive",
        past=cells[1] == "past",
        to=bool(to),
        polarity=cells[2],
        time=cells[3],
        animate=cells[4] == "animate",
    )


def _verb(cells: list[str]) -> Verb:
    """Parse a row such as `pick +up | auf+heben | person | mp | =acc:portable`."""
    base, _, particle = cells[0].partition(" +")
    infinitive, _, auxiliary = cells[1].removeprefix("sich ").partition(" +")
    return Verb(
        english_verb(base),
        particle,
        german_verb(infinitive),
        german_verb(auxiliary or "haben"),
        cells[1].startswith("sich "),
        _sorts(cells[2]),
        frozenset(cells[3]),
        tuple(tuple(map(_slot, frame.split())) for frame in cells[4].split(";")),
    )


def _adverb(cells: list[str]) -> Adverb:
    """Parse a row such as `(NP (NN today)) | heute | past present`."""
    return Adverb(read_tree(cells[0]), tuple(cells[1].split()), frozenset(cells[2].split()))


def _simple_adverbs(text: str) -> tuple[Adverb, ...]:
    """Parse pairs such as `often oft`. Clauses of any time may contain these adverbs."""
    return tuple(
        Adverb(read_tree(f"(ADVP (RB {english}))"), (german,), frozenset()) for english, german in _entries(text)
    )


def _prepositions(table: str) -> tuple[PlacePreposition, ...]:
    """Parse lines such as `to=zu+dat place landmark`."""
    lines = (line.partition(" ") for line in _lines(table))
    return tuple(PlacePreposition(_marking(marking), _sorts(sorts)) for marking, _, sorts in lines)


def _conjunction(line: str) -> tuple[float, Conjunction]:
    """Parse a row such as `8 when wenn als`."""
    weight, english, german, past = line.split()
    return float(weight), Conjunction(english, german, None if past == "-" else past)


def _adjectives() -> Mapping[str, tuple[Adjective, ...]]:
    """Return the adjectives that can modify a noun of each semantic sort."""
    all_adjectives = [_adjective(sorts, row) for sorts, table in tables.ADJECTIVES.items() for row in _rows(table)]
    return {sort: tuple(adj for adj in all_adjectives if sort in adj.sorts) for sort in tables.NOUNS}


def _verbs() -> tuple[tuple[float, tuple[Verb, ...]], ...]:
    items = tables.VERBS.items()
    return tuple((float(head.split()[0]), tuple(map(_verb, _rows(table)))) for head, table in items)


def _times() -> Mapping[str, tuple[tuple[float, tuple[Adverb, ...]], ...]]:
    """Return the weighted adverbs of time that fit clauses of each time (past, perfect, present and future)."""
    hours = [tables.OCLOCK.format(english=word, german=german) for word, german in _entries(tables.NUMERALS)]
    years = [tables.YEAR.format(year=year) for year in tables.YEARS]
    # The weights make the few phrases in TIMES more frequent than the many hours and years.
    weighted_tables = ((12, tables.TIMES), (3, "\n".join(hours)), (2, "\n".join(years)))
    groups = [(weight, tuple(map(_adverb, _rows(table)))) for weight, table in weighted_tables]
    by_time = {
        time: [(weight, tuple(a for a in group if time in a.times)) for weight, group in groups] for time in _TIMES
    }
    return {time: tuple((weight, group) for weight, group in by_time[time] if group) for time in _TIMES}


LEXICON = Lexicon(
    nouns={sort: tuple(_noun(sort, row) for row in _rows(tables.NOUNS[sort])) for sort in tables.NOUNS},
    adjectives=_adjectives(),
    determiners=tuple(map(_determiner, _rows(tables.DETERMINERS))),
    numerals=tuple((english, german) for english, german in _entries(tables.NUMERALS)),
    names=tuple(tables.NAMES.split()),
    verbs=_verbs(),
    tenses=tuple(map(_tense, _rows(tables.TENSES))),
    times=_times(),
    frequencies=_simple_adverbs(tables.FREQUENCIES),
    never=_simple_adverbs(tables.NEVER)[0],
    questions={
        german: Adverb(read_tree(f"(WHADVP (WRB {english}))"), (german,), frozenset())
        for english, german in _entries(tables.QUESTIONS)
    },
    manners=_simple_adverbs(tables.MANNERS),
    companions=tuple(_marking(entry) for (entry,) in _entries(tables.COMPANIONS)),
    locations=_prepositions(tables.LOCATIONS.format(case="dat")),
    goals=_prepositions(tables.LOCATIONS.format(case="acc")),
    directions=_prepositions(tables.DIRECTIONS),
    subordinating=tuple(map(_conjunction, _lines(tables.SUBORDINATING))),
    coordinating=tuple((english, german) for english, german in _entries(tables.COORDINATING)),
)

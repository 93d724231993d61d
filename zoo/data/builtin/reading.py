"""How the entries of the tables are written."""

from collections.abc import Iterator

from zoo.data.builtin import nouns, verbs
from zoo.data.builtin.conjugation import EnglishVerb, GermanVerb, Tense
from zoo.data.builtin.declension import GermanDeterminer, GermanNoun
from zoo.data.builtin.features import Case, Column, Weight
from zoo.data.builtin.inflection import english_verb, german_verb
from zoo.data.builtin.words import Adjective, Adverb, Conjunction, Determiner, Marking, Noun, Slot, Sorts, Spot, Verb
from zoo.text.trees import tree

CASES = {"nom": Case.NOMINATIVE, "acc": Case.ACCUSATIVE, "dat": Case.DATIVE, "gen": Case.GENITIVE}
_GENDERS = {"m": Column.MASCULINE, "n": Column.NEUTER, "f": Column.FEMININE}
_AUXILIARIES = {"be", "have", "will", "can", "must", "may", "should"}


def rows(table: str) -> Iterator[list[str]]:
    """The cells of each line of a table."""
    for line in table.strip().splitlines():
        yield [cell.strip() for cell in line.split("|")]


def pairs(text: str) -> tuple[tuple[str, ...], ...]:
    """Entries between commas, as their words."""
    return tuple(tuple(entry.split()) for entry in text.split(","))


def _irregular(text: str) -> dict[str, str]:
    """Principal parts by infinitive."""
    return {infinitive: " ".join((infinitive, *parts)) for infinitive, *parts in pairs(text)}


_IRREGULAR_ENGLISH = _irregular(verbs.IRREGULAR_ENGLISH)
_IRREGULAR_GERMAN = _irregular(verbs.IRREGULAR_GERMAN)


def sorts(written: str) -> Sorts:
    """Sorts of nouns, the names for several of them resolved."""
    return frozenset(sort for name in written.split() for sort in nouns.SORTS.get(name, name).split())


def english(base: str) -> EnglishVerb:
    """An English verb by its infinitive."""
    return english_verb(_IRREGULAR_ENGLISH.get(base, base), base in _AUXILIARIES)


def german(infinitive: str) -> GermanVerb:
    """A German verb by its infinitive, `auf+heben` where its prefix is separable."""
    prefix, plus, simple = infinitive.rpartition("+")
    return german_verb(prefix + plus + _IRREGULAR_GERMAN.get(simple, simple))


def marking(written: str) -> Marking:
    """`for=auf+acc`: a preposition or none, then a preposition or none and a case."""
    before, _, after = written.partition("=")
    preposition, _, case = after.rpartition("+")
    return Marking(before, preposition, CASES[case])


def slot(written: str) -> Slot:
    """`=acc:person`, `?for=für+acc:person` or `@place`."""
    if written.startswith("@"):
        return Slot(written[1:], Marking("", "", Case.NOMINATIVE), frozenset())
    marks, _, names = written.removeprefix("?").partition(":")
    return Slot("nominal", marking(marks), sorts(names.replace(",", " ")), written.startswith("?"))


def frames(written: str) -> tuple[tuple[Slot, ...], ...]:
    """Frames between semicolons, each a sequence of slots; the empty frame is an intransitive verb's."""
    return tuple(tuple(map(slot, frame.split())) for frame in written.split(";"))


def noun(sort: str, cells: list[str]) -> Noun:
    """`dog dogs | m Hund Hundes Hunde`."""
    singular, plural = cells[0].split()
    gender, *parts = cells[1].split()
    return Noun(sort, singular, plural, GermanNoun(_GENDERS[gender], *parts))


def adjective(names: str, cells: list[str]) -> Adjective:
    """`dark darker | dunkel/dunkl dunkler`; `more` is the comparative of those that have none in a word."""
    positive, _, comparative = cells[0].partition(" ")
    written, _, german_comparative = cells[1].partition(" ")
    word, _, stem = written.partition("/")
    return Adjective(sorts(names), positive, comparative, word, stem or word, german_comparative)


def determiner(cells: list[str]) -> tuple[float, Determiner]:
    """`30 the the DT | d article | d definite`."""
    weight, singular, plural, tag = cells[0].split()
    stem, paradigm = cells[1].split()
    group, definiteness = cells[2].split()
    inflected = GermanDeterminer(_spaced(stem), paradigm)
    return float(weight), Determiner(_form(singular), _form(plural), tag, inflected, group, Weight(definiteness))


def _form(written: str) -> str | None:
    return None if written == "-" else _spaced(written)


def _spaced(written: str) -> str:
    """Words joined by underscores; a single one is no word."""
    return " ".join(filter(None, written.split("_")))


def tense(cells: list[str]) -> tuple[float, Tense]:
    """`14 have - participle | present | +- | perfect | all`."""
    weight, helper, german_helper, form = cells[0].split()
    base, _, to = helper.partition("_")
    return float(weight), Tense(
        english=None if base == "-" else english(base),
        german=None if german_helper == "-" else german(german_helper),
        form="participle" if form == "participle" else "infinitive",
        past=cells[1] == "past",
        to=bool(to),
        polarity=cells[2],
        era=cells[3],
        animate=cells[4] == "animate",
    )


def adverb(cells: list[str]) -> Adverb:
    """`(NP (NN today)) | heute | past present`."""
    return Adverb(tree.read(cells[0]), tuple(cells[1].split()), frozenset(cells[2].split()))


def simple_adverb(written: tuple[str, ...]) -> Adverb:
    """`often oft`, which goes with all times."""
    word, translation = written
    return Adverb(tree.read(f"(ADVP (RB {word}))"), (translation,), frozenset())


def question(word: str, translation: str) -> Adverb:
    """The interrogative adverb `where wo`."""
    return Adverb(tree.read(f"(WHADVP (WRB {word}))"), (translation,), frozenset())


def location(written: str, case: Case) -> Spot:
    """`on auf furniture site`."""
    preposition, translation, names = written.split(maxsplit=2)
    return Spot(Marking(preposition, translation, case), sorts(names))


def direction(written: str) -> Spot:
    """`to=zu+dat place landmark`."""
    marks, _, names = written.partition(" ")
    return Spot(marking(marks), sorts(names))


def conjunction(written: str) -> tuple[float, Conjunction]:
    """`8 when wenn als`."""
    weight, word, translation, past = written.split()
    return float(weight), Conjunction(word, translation, None if past == "-" else past)


def verb(cells: list[str]) -> Verb:
    """`pick +up | auf+heben | person | mp | =acc:portable`."""
    base, _, particle = cells[0].partition(" +")
    infinitive, _, helper = cells[1].removeprefix("sich ").partition(" +")
    return Verb(
        english(base),
        particle,
        german(infinitive),
        german(helper or "haben"),
        cells[1].startswith("sich "),
        sorts(cells[2]),
        frozenset(cells[3]),
        frames(cells[4]),
    )

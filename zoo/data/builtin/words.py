"""The kinds of words: each an English word with its one German counterpart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoo.data.builtin.conjugation import EnglishVerb, GermanVerb, Tense
from zoo.data.builtin.declension import GermanDeterminer, GermanNoun
from zoo.data.builtin.features import Case, Weight, Words
from zoo.text.trees.tree import Tree

Sorts = frozenset[str]
"""What nouns are the names of (person, food, place ...), as verbs and adjectives choose them."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A countable noun."""

    sort: str
    singular: str
    plural: str
    german: GermanNoun


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; its comparative may be empty. `stem` is what German endings are put to: dunkel, dunkl-e."""

    sorts: Sorts
    english: str
    comparative: str
    german: str
    stem: str
    german_comparative: str


@dataclass(frozen=True, slots=True)
class Determiner:
    """An article or what stands in its place. Where a number has none, the word is None; the empty one says nothing.

    `group` is d(efinite), i(ndefinite), q(uantity), n(egative) or w(h-): clauses choose by it.
    """

    singular: str | None
    plural: str | None
    tag: str
    german: GermanDeterminer
    group: str
    weight: Weight


@dataclass(frozen=True, slots=True)
class Marking:
    """How a nominal is tied to its verb: a preposition or none in English, one or none and a case in German."""

    english: str
    german: str
    case: Case


@dataclass(frozen=True, slots=True)
class Slot:
    """What a verb asks for beside its subject: a nominal of certain sorts, or a `kind` of another phrase."""

    kind: str
    marking: Marking
    sorts: Sorts
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb in both languages: the sorts of its subject, the adjuncts it admits, and its frames.

    The slots of a frame stand in English order. `helper` makes the German perfect: haben or sein.
    """

    english: EnglishVerb
    particle: str
    german: GermanVerb
    helper: GermanVerb
    reflexive: bool
    subject: Sorts
    adjuncts: frozenset[str]
    frames: tuple[tuple[Slot, ...], ...]


@dataclass(frozen=True, slots=True)
class Adverb:
    """A fixed phrase, with the times (past, present, future) that it speaks of."""

    english: Tree
    german: Words
    eras: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conjunction:
    """A word that opens a clause. German may have another one in the past (`when` is wenn or als), or none."""

    english: str
    german: str
    german_past: str | None

    def translation(self, past: bool) -> str | None:
        """The German word in a clause of that time."""
        return self.german_past if past else self.german


@dataclass(frozen=True, slots=True)
class Spot:
    """A preposition of place with the sorts of nouns it goes with."""

    marking: Marking
    sorts: Sorts


@dataclass(frozen=True)
class Lexicon:
    """All words, grouped as the grammar draws them; a number beside words is how often they are drawn."""

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
    companions: tuple[Marking, ...]
    locations: tuple[Spot, ...]
    goals: tuple[Spot, ...]
    directions: tuple[Spot, ...]
    subordinating: tuple[tuple[float, Conjunction], ...]
    coordinating: tuple[tuple[str, str], ...]

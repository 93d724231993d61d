"""Nominals: phrases that can be a subject or an object, in both languages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from tests.grammar.lexicon import Adjective, Determiner, Noun
from tests.grammar.morphology import (
    KEIN,
    Agreement,
    Case,
    Definiteness,
    GenderNumber,
    Words,
    decline,
    personal_pronoun,
    relative_pronoun,
)
from zoo.text.trees.tree import Tree, leaf, node


@dataclass(frozen=True, slots=True)
class AdjectivePhrase:
    """Adjective in the positive or the comparative, or with `very`."""

    adjective: Adjective
    comparative: bool = False
    very: bool = False

    def english(self) -> Tree:
        """Return the English tree: a leaf with the tag JJ or JJR, or an ADJP of two words."""
        adjective = self.adjective
        if self.very:
            return node("ADJP", leaf("RB", "very"), leaf("JJ", adjective.english))
        if not self.comparative:
            return leaf("JJ", adjective.english)
        if adjective.comparative == "more":
            return node("ADJP", leaf("RBR", "more"), leaf("JJ", adjective.english))
        return leaf("JJR", adjective.comparative)

    def german(self, attributive: bool) -> Words:
        """Return the German words. If `attributive` (before a noun), the last word is a stem without an ending."""
        positive = self.adjective.stem if attributive else self.adjective.german
        word = self.adjective.german_comparative if self.comparative else positive
        return ("sehr", word) if self.very else (word,)


class Modifier(Protocol):
    """Phrase after a noun: a prepositional phrase, a genitive or a relative clause."""

    def english(self) -> Tree:
        """Return the English tree."""

    def german(self) -> tuple[Words, Words]:
        """Return the German words that must follow the noun, and those that may move to the end of the clause."""


class Nominal:
    """Phrase that agrees with a verb and is inflected for case."""

    __slots__ = ()

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, by default "person"."""
        return "person"

    @property
    def agreement(self) -> Agreement:
        """Person, number and gender for agreement, by default third person singular."""
        return Agreement(3, GenderNumber.MASCULINE)

    @property
    def definiteness(self) -> Definiteness:
        """Definiteness, which determines the position in a German clause."""
        return Definiteness.DEFINITE

    def english(self, case: Case) -> Tree:
        """Return the English tree. In English, only the nominative differs from the other cases."""
        raise NotImplementedError

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        raise NotImplementedError

    @property
    def extraposed(self) -> Words:
        """German words that may move to the end of the clause, such as a relative clause."""
        return ()

    @property
    def contracts(self) -> bool:
        """Whether the German article may contract with a preposition, such as `in dem` to `im`."""
        return False

    def negated(self) -> Nominal | None:
        """Return the nominal with `kein`, or None if its clause must be negated with `nicht`."""
        return None


@dataclass(frozen=True, slots=True)
class NounPhrase(Nominal):
    """Noun phrase: a determiner, an English and German numeral, adjectives, a noun, and at most one modifier."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    adjectives: tuple[AdjectivePhrase, ...] = ()
    numeral: tuple[str, str] | None = None
    modifier: Modifier | None = None

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, such as "person"."""
        return self.noun.sort

    @property
    def agreement(self) -> Agreement:
        """Person, number and gender for agreement with a verb or a pronoun."""
        return Agreement(3, GenderNumber.PLURAL if self.plural else self.noun.german.gender)

    @property
    def definiteness(self) -> Definiteness:
        """Definiteness of the determiner."""
        return self.determiner.definiteness

    @property
    def contracts(self) -> bool:
        """Whether the German article may contract with a preposition, as in `im` for `in dem`.

        It may if it is definite and its noun has no relative clause.
        """
        return self.determiner.german.paradigm == "article" and not self.extraposed

    @property
    def extraposed(self) -> Words:
        """German words of the modifier that move to the end of the clause."""
        return self.modifier.german()[1] if self.modifier else ()

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        label = "WHNP" if self.determiner.group == "w" else "NP"
        numeral = [leaf("CD", self.numeral[0])] if self.numeral else []
        noun = leaf("NNS", self.noun.plural) if self.plural else leaf("NN", self.noun.singular)
        words = [*numeral, *(adjective.english() for adjective in self.adjectives), noun]
        core = node(label, *self._english_determiner(next(words[0].leaves())), *words)
        return node(label, core, self.modifier.english()) if self.modifier else core

    def _english_determiner(self, following: str) -> tuple[Tree, ...]:
        word = self.determiner.plural if self.plural else self.determiner.singular
        if not word:
            return ()
        adverb, _, many = word.partition(" ")
        if many:
            return (node("WHADJP", leaf("WRB", adverb), leaf(self.determiner.tag, many)),)
        if word == "a" and following[0] in "aeiou":
            word = "an"
        return (leaf(self.determiner.tag, word),)

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        numeral = self.numeral[1:] if self.numeral else ()
        stems = (adjective.german(attributive=True) for adjective in self.adjectives)
        gender_number = self.agreement.gender_number
        words = decline(self.determiner.german, numeral, stems, self.noun.german, case, gender_number)
        return (*words, *self.modifier.german()[0]) if self.modifier else words

    def negated(self) -> Nominal | None:
        """Return the phrase with `kein`, or None if the determiner is not indefinite or there is a numeral."""
        if self.determiner.group != "i" or self.numeral:
            return None
        return replace(self, determiner=replace(self.determiner, german=KEIN))


@dataclass(frozen=True, slots=True)
class Pronoun(Nominal):
    """Personal pronoun. For English `it`, `features` contain the German gender, which English does not show."""

    features: Agreement
    nominative: str
    objective: str
    semantic_sort: str = "person"
    definiteness = Definiteness.PRONOUN

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, such as "person"."""
        return self.semantic_sort

    @property
    def agreement(self) -> Agreement:
        """Person, number and gender for agreement with a verb or a pronoun."""
        return self.features

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        return node("NP", leaf("PRP", self.nominative if case is Case.NOMINATIVE else self.objective))

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        return (personal_pronoun(self.features, case),)


@dataclass(frozen=True, slots=True)
class Name(Nominal):
    """Name of a person, the same in both languages and in all cases."""

    name: str

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        return node("NP", leaf("NNP", self.name))

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Coordination(Nominal):
    """Two nominals joined by `and`."""

    first: Nominal
    second: Nominal
    agreement = Agreement(3, GenderNumber.PLURAL)

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, such as "person"."""
        return self.first.sort

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        return node("NP", self.first.english(case), leaf("CC", "and"), self.second.english(case))

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        return (*self.first.german(case), "und", *self.second.german(case))


@dataclass(frozen=True, slots=True)
class InterrogativePronoun(Nominal):
    """`who` or `what`. `translations` are the German nominative, accusative and dative."""

    nominative: str
    objective: str
    translations: tuple[str, str, str]
    semantic_sort: str

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, such as "person"."""
        return self.semantic_sort

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        return node("WHNP", leaf("WP", self.nominative if case is Case.NOMINATIVE else self.objective))

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        return (self.translations[case],)


@dataclass(frozen=True, slots=True)
class RelativePronoun(Nominal):
    """Relative pronoun `word`. It has the gender and number of its antecedent, but a case of its own."""

    antecedent: Nominal
    word: str

    @property
    def sort(self) -> str:
        """Semantic sort of the nominal, such as "person"."""
        return self.antecedent.sort

    @property
    def agreement(self) -> Agreement:
        """Person, number and gender for agreement with a verb or a pronoun."""
        return self.antecedent.agreement

    def english(self, case: Case) -> Tree:
        """Return the English tree for this case."""
        return node("WHNP", leaf("WP" if self.word.startswith("who") else "WDT", self.word))

    def german(self, case: Case) -> Words:
        """Return the German words in this case."""
        return (relative_pronoun(case, self.agreement.gender_number),)


WHO = InterrogativePronoun("who", "whom", ("wer", "wen", "wem"), "person")
WHAT = InterrogativePronoun("what", "what", ("was", "was", "was"), "thing")

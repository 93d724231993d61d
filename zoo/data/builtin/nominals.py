"""Nominals: what can be a subject or an object, each in both languages side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from zoo.data.builtin import declension
from zoo.data.builtin.declension import KEIN, declined
from zoo.data.builtin.features import Agreement, Case, Column, Weight, Words
from zoo.data.builtin.quality import Quality
from zoo.data.builtin.words import Determiner, Noun
from zoo.text.trees.tree import Tree, leaf, node


class Modifier(Protocol):
    """What may follow a noun: a prepositional phrase, a genitive, a relative clause."""

    def english(self) -> Tree: ...

    def german(self) -> tuple[Words, Words]:
        """The words at their place, and those that may go to the end of the clause."""


class Nominal:
    """A phrase that agrees with verbs and takes cases."""

    __slots__ = ()

    @property
    def sort(self) -> str:
        """What it is a name of, as nouns are: a person, unless it says otherwise."""
        return "person"

    @property
    def agreement(self) -> Agreement:
        """Third person singular, unless it says otherwise."""
        return Agreement(3, Column.MASCULINE)

    @property
    def weight(self) -> Weight:
        """Where German puts it."""
        return Weight.DEFINITE

    def english(self, case: Case) -> Tree:
        """The English constituent: English cares for the nominative only."""
        raise NotImplementedError

    def german(self, case: Case) -> Words:
        """The German words."""
        raise NotImplementedError

    @property
    def tail(self) -> Words:
        """German words, a relative clause, that may stand apart at the end of the clause."""
        return ()

    @property
    def contracts(self) -> bool:
        """Whether its article may melt into a preposition: im, zum."""
        return False

    def denied(self) -> Nominal | None:
        """The same with `kein`, or None where a clause has to be negated by `nicht`."""
        return None


@dataclass(frozen=True, slots=True)
class NounPhrase(Nominal):
    """Determiner, numeral (English, German), adjectives and noun, and one modifier at most."""

    determiner: Determiner
    noun: Noun
    plural: bool = False
    qualities: tuple[Quality, ...] = ()
    numeral: tuple[str, str] | None = None
    modifier: Modifier | None = None

    @property
    def sort(self) -> str:
        return self.noun.sort

    @property
    def agreement(self) -> Agreement:
        return Agreement(3, Column.PLURAL if self.plural else self.noun.german.gender)

    @property
    def weight(self) -> Weight:
        return self.determiner.weight

    @property
    def contracts(self) -> bool:
        """Only the plain article does, and not where a relative clause leans on it."""
        return self.determiner.german.paradigm == "article" and not self.tail

    @property
    def tail(self) -> Words:
        return self.modifier.german()[1] if self.modifier else ()

    def english(self, case: Case) -> Tree:
        label = "WHNP" if self.determiner.group == "w" else "NP"
        numeral = [leaf("CD", self.numeral[0])] if self.numeral else []
        noun = leaf("NNS", self.noun.plural) if self.plural else leaf("NN", self.noun.singular)
        after = [*numeral, *(quality.english() for quality in self.qualities), noun]
        core = node(label, *self._english_determiner(next(after[0].leaves())), *after)
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
        numeral = self.numeral[1:] if self.numeral else ()
        stems = (quality.german(attributive=True) for quality in self.qualities)
        column = self.agreement.column
        words = declined(self.determiner.german, numeral, stems, self.noun.german, case, column)
        return (*words, *self.modifier.german()[0]) if self.modifier else words

    def denied(self) -> Nominal | None:
        if self.determiner.group != "i" or self.numeral:
            return None
        return replace(self, determiner=replace(self.determiner, german=KEIN))


@dataclass(frozen=True, slots=True)
class Pronoun(Nominal):
    """A personal pronoun. In English `it` hides the gender that German shows."""

    of: Agreement
    nominative: str
    objective: str
    kind: str = "person"

    @property
    def neutral(self) -> bool:
        """Whether it is `it`."""
        return self.nominative == "it"

    @property
    def sort(self) -> str:
        return self.kind

    @property
    def agreement(self) -> Agreement:
        return self.of

    @property
    def weight(self) -> Weight:
        return Weight.PRONOUN

    def english(self, case: Case) -> Tree:
        return node("NP", leaf("PRP", self.nominative if case is Case.NOMINATIVE else self.objective))

    def german(self, case: Case) -> Words:
        return (declension.pronoun(self.of, case),)


@dataclass(frozen=True, slots=True)
class Name(Nominal):
    """A name, the same in both languages and in all cases."""

    name: str

    def english(self, case: Case) -> Tree:
        return node("NP", leaf("NNP", self.name))

    def german(self, case: Case) -> Words:
        return (self.name,)


@dataclass(frozen=True, slots=True)
class Both(Nominal):
    """Two nominals joined by `and`."""

    first: Nominal
    second: Nominal

    @property
    def sort(self) -> str:
        return self.first.sort

    @property
    def agreement(self) -> Agreement:
        return Agreement(3, Column.PLURAL)

    def english(self, case: Case) -> Tree:
        return node("NP", self.first.english(case), leaf("CC", "and"), self.second.english(case))

    def german(self, case: Case) -> Words:
        return (*self.first.german(case), "und", *self.second.german(case))

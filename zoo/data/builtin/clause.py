"""Clauses and what they are made of, each in both languages side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from zoo.data.builtin.conjugation import Tense, english_chain, german_bracket
from zoo.data.builtin.declension import reflexive
from zoo.data.builtin.features import Agreement, Case, Kind, Words
from zoo.data.builtin.nominals import Nominal
from zoo.data.builtin.order import ROLES, EnglishClause, Field, english_clause, german_clause
from zoo.data.builtin.quality import Quality
from zoo.data.builtin.words import Adverb, Conjunction, Marking, Verb
from zoo.text.trees.tree import Tree, leaf, node

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


class Constituent:
    """A part of a clause."""

    __slots__ = ()

    @property
    def field(self) -> Field:
        """Where it stands in German."""
        raise NotImplementedError

    def english(self) -> Tree:
        """Its English tree."""
        raise NotImplementedError

    def german(self) -> tuple[Words, Words]:
        """Its German words, and those that stand apart at the end of the clause."""
        raise NotImplementedError

    def denied(self) -> Constituent | None:
        """The same with `kein`, or None where that is not how it is negated."""
        return None


@dataclass(frozen=True, slots=True)
class Argument(Constituent):
    """A nominal with its marking: subject, object, or prepositional phrase, of which `role` says what it does."""

    nominal: Nominal
    marking: Marking
    role: Field = Field.OBLIQUE

    @property
    def field(self) -> Field:
        return self.role if self.marking.german else ROLES[self.marking.case, self.nominal.weight]

    def english(self) -> Tree:
        nominal = self.nominal.english(self.marking.case)
        if not self.marking.english:
            return nominal
        preposition = leaf("TO" if self.marking.english == "to" else "IN", self.marking.english)
        return node("WHPP" if nominal.label == "WHNP" else "PP", preposition, nominal)

    def german(self) -> tuple[Words, Words]:
        words = self.nominal.german(self.marking.case)
        if self.marking.case is Case.NOMINATIVE:
            return (*words, *self.nominal.tail), ()
        if not self.marking.german:
            return words, self.nominal.tail
        melted = CONTRACTIONS.get((self.marking.german, words[0])) if self.nominal.contracts else None
        return (melted, *words[1:]) if melted else (self.marking.german, *words), self.nominal.tail

    def denied(self) -> Constituent | None:
        if self.marking.german or self.marking.case is Case.NOMINATIVE:
            return None
        nominal = self.nominal.denied()
        return Argument(nominal, self.marking) if nominal else None


@dataclass(frozen=True, slots=True)
class Adjunct(Constituent):
    """An adverb, or a phrase like one."""

    adverb: Adverb
    role: Field

    @property
    def field(self) -> Field:
        return self.role

    def english(self) -> Tree:
        return self.adverb.english

    def german(self) -> tuple[Words, Words]:
        return self.adverb.german, ()


@dataclass(frozen=True, slots=True)
class Predicate(Constituent):
    """What a subject is: an adjective, two, or a comparison with a nominal."""

    qualities: tuple[Quality, ...]
    than: Nominal | None = None

    @property
    def field(self) -> Field:
        return Field.PREDICATE

    def english(self) -> Tree:
        first, *others = (quality.english() for quality in self.qualities)
        joined = chain.from_iterable((leaf("CC", "and"), other) for other in others)
        than = [node("PP", leaf("IN", "than"), self.than.english(Case.NOMINATIVE))] if self.than else []
        if first.label == "ADJP" and not (others or than):
            return first
        return node("ADJP", first, *joined, *than)

    def german(self) -> tuple[Words, Words]:
        first, *others = (quality.german(attributive=False) for quality in self.qualities)
        joined = chain.from_iterable(("und", *other) for other in others)
        than = ("als", *self.than.german(Case.NOMINATIVE)) if self.than else ()
        return (*first, *joined, *than), ()


@dataclass(frozen=True, slots=True)
class Subordinate(Constituent):
    """An embedded clause, with or without a conjunction; as a modifier of a noun, a relative clause."""

    clause: Clause
    conjunction: Conjunction | None = None

    @property
    def field(self) -> Field:
        return Field.AFTER

    def english(self) -> Tree:
        clause = self.clause.english()
        return node("SBAR", leaf("IN", self.conjunction.english), clause) if self.conjunction else clause

    def german(self) -> tuple[Words, Words]:
        word = self.conjunction.translation(self.clause.tense.past) if self.conjunction else None
        return (), (",", *filter(None, [word]), *self.clause.german(), ",")


@dataclass(frozen=True, slots=True)
class Clause:
    """A verb with its constituents in English order, the subject first.

    Infinitives have no subject: `agreement` is that of the clause above. `front` counts the constituent that
    opens the clause in both languages, instead of the subject.
    """

    kind: Kind
    verb: Verb
    tense: Tense
    agreement: Agreement
    constituents: tuple[Constituent, ...]
    front: int | None = None
    negated: bool = False

    def english(self) -> Tree:
        """Its tree, without a final punctuation mark."""
        subject = None if self.kind is Kind.INFINITIVE else self.constituents[0]
        front = None if self.front is None else self.constituents[self.front]
        rest = [part for part in self.constituents if part is not subject and part is not front]
        subject = None if subject is front else subject
        support = self.negated or (self.kind is Kind.QUESTION and subject is not None)
        verbs, auxiliary = english_chain(self.kind, self.verb.english, self.tense, self.agreement, support)
        return english_clause(
            self.kind,
            EnglishClause(
                verbs,
                auxiliary,
                self.negated,
                subject.english() if subject else None,
                front.english() if front else None,
                [part.english() for part in rest if part.field is Field.FREQUENCY],
                self._complements([part for part in rest if part.field is not Field.FREQUENCY]),
            ),
        )

    def _complements(self, parts: Sequence[Constituent]) -> list[Tree]:
        """What follows the verb; a particle stands first, but for an unstressed pronoun."""
        trees = [part.english() for part in parts]
        if self.verb.particle:
            light = bool(parts) and parts[0].field is Field.ACCUSATIVE_PRONOUN
            trees.insert(int(light), node("PRT", leaf("RP", self.verb.particle)))
        return trees

    def german(self) -> Words:
        """Its words, without a final punctuation mark."""
        parts = list(self.constituents)
        first = 0 if self.front is None and self.kind is Kind.STATEMENT else self.front
        front = () if first is None else tuple(chain.from_iterable(parts.pop(first).german()))
        helper = (self.tense.german or self.verb.helper) if self.tense.english else None
        bracket = german_bracket(self.kind, self.verb.german, helper, self.tense, self.agreement)
        return german_clause(front, bracket, self._german_parts(parts))

    def _german_parts(self, parts: list[Constituent]) -> Iterator[tuple[Field, Words]]:
        """What stands behind the front, negated: by `kein` in the first object that can take it, or by `nicht`."""
        if self.verb.reflexive:
            yield Field.REFLEXIVE, (reflexive(self.agreement),)
        denied = next((part for part in parts if part.denied()), None) if self.negated else None
        if self.negated and denied is None:
            yield Field.NEGATION, ("nicht",)
        for part in parts:
            words, tail = ((part is denied and part.denied()) or part).german()
            yield part.field, words
            yield Field.AFTER, tail

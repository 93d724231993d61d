"""Clauses and sentences in both languages: their constituents, and the word order of English and German."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import chain

from tests.grammar.lexicon import Adverb, CaseMarking, Conjunction, Verb
from tests.grammar.morphology import (
    DO,
    Agreement,
    Case,
    ClauseType,
    Definiteness,
    Tense,
    Words,
    reflexive_pronoun,
)
from tests.grammar.nominals import AdjectivePhrase, Nominal
from zoo.text.trees.tree import Tree, capitalise, detokenise, leaf, node

_CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("von", "dem"): "vom",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
}


class Position(IntEnum):
    """Position of a constituent in the German middle field (between the verbs), in ascending order.

    Known information precedes new information: pronouns, then definite objects, then indefinite objects. `nicht` comes
    before the new information. POSTFIELD comes after the verbs at the end of the clause.
    """

    SUBJECT_PRONOUN = 0
    REFLEXIVE = 1
    SUBJECT = 2
    ACCUSATIVE_PRONOUN = 3
    DATIVE_PRONOUN = 4
    TIME = 5
    DEFINITE_DATIVE = 6
    DEFINITE_ACCUSATIVE = 7
    FREQUENCY = 8
    NEGATION = 9
    INDEFINITE_DATIVE = 10
    INDEFINITE_ACCUSATIVE = 11
    MANNER = 12
    COMPANION = 13
    PLACE = 14
    OBLIQUE = 15
    DIRECTION = 16
    PREDICATE = 17
    POSTFIELD = 18


_BARE_NOMINAL_POSITIONS = {
    (Case.NOMINATIVE, Definiteness.PRONOUN): Position.SUBJECT_PRONOUN,
    (Case.NOMINATIVE, Definiteness.DEFINITE): Position.SUBJECT,
    (Case.NOMINATIVE, Definiteness.INDEFINITE): Position.SUBJECT,
    (Case.ACCUSATIVE, Definiteness.PRONOUN): Position.ACCUSATIVE_PRONOUN,
    (Case.ACCUSATIVE, Definiteness.DEFINITE): Position.DEFINITE_ACCUSATIVE,
    (Case.ACCUSATIVE, Definiteness.INDEFINITE): Position.INDEFINITE_ACCUSATIVE,
    (Case.DATIVE, Definiteness.PRONOUN): Position.DATIVE_PRONOUN,
    (Case.DATIVE, Definiteness.DEFINITE): Position.DEFINITE_DATIVE,
    (Case.DATIVE, Definiteness.INDEFINITE): Position.INDEFINITE_DATIVE,
}
"""Positions of subjects and of objects without a preposition, by case and definiteness."""


class Constituent:
    """Part of a clause, such as the subject, an object or a subordinate clause."""

    __slots__ = ()

    @property
    def position(self) -> Position:
        """Position in the German clause."""
        raise NotImplementedError

    def english(self) -> Tree:
        """Return the English tree."""
        raise NotImplementedError

    def german(self) -> tuple[Words, Words]:
        """Return the German words, and the words that move to the end of the clause."""
        raise NotImplementedError

    def negated(self) -> Constituent | None:
        """Return the constituent with `kein` as its determiner, or None if `kein` cannot negate it."""
        return None


@dataclass(frozen=True, slots=True)
class Argument(Constituent):
    """Nominal with the marking of its role: a subject, an object or a prepositional phrase.

    `prepositional_position` is the position if the marking has a German preposition.
    """

    nominal: Nominal
    marking: CaseMarking
    prepositional_position: Position = Position.OBLIQUE

    @property
    def position(self) -> Position:
        """Position in the German clause."""
        if self.marking.german:
            return self.prepositional_position
        return _BARE_NOMINAL_POSITIONS[self.marking.case, self.nominal.definiteness]

    def english(self) -> Tree:
        """Return the English tree."""
        nominal = self.nominal.english(self.marking.case)
        if not self.marking.english:
            return nominal
        preposition = leaf("TO" if self.marking.english == "to" else "IN", self.marking.english)
        return node("WHPP" if nominal.label == "WHNP" else "PP", preposition, nominal)

    def german(self) -> tuple[Words, Words]:
        """Return the German words, and the words that move to the end of the clause."""
        words = self.nominal.german(self.marking.case)
        if self.marking.case is Case.NOMINATIVE:
            return (*words, *self.nominal.extraposed), ()
        if not self.marking.german:
            return words, self.nominal.extraposed
        contraction = _CONTRACTIONS.get((self.marking.german, words[0])) if self.nominal.contracts else None
        phrase = (contraction, *words[1:]) if contraction else (self.marking.german, *words)
        return phrase, self.nominal.extraposed

    def negated(self) -> Constituent | None:
        """Return an object without preposition with `kein`, or None if `kein` cannot negate the argument."""
        if self.marking.german or self.marking.case is Case.NOMINATIVE:
            return None
        nominal = self.nominal.negated()
        return Argument(nominal, self.marking) if nominal else None


@dataclass(frozen=True, slots=True)
class Adjunct(Constituent):
    """Adverb or adverbial phrase."""

    adverb: Adverb
    adverb_position: Position

    @property
    def position(self) -> Position:
        """Position in the German clause."""
        return self.adverb_position

    def english(self) -> Tree:
        """Return the English tree."""
        return self.adverb.english

    def german(self) -> tuple[Words, Words]:
        """Return the German words, and the words that move to the end of the clause."""
        return self.adverb.german, ()


@dataclass(frozen=True, slots=True)
class Predicate(Constituent):
    """One or two predicative adjectives, or a comparative with the nominal that follows `than`."""

    adjectives: tuple[AdjectivePhrase, ...]
    than: Nominal | None = None

    position = Position.PREDICATE

    def english(self) -> Tree:
        """Return the English tree."""
        first, *others = (adjective.english() for adjective in self.adjectives)
        joined = chain.from_iterable((leaf("CC", "and"), other) for other in others)
        than = [node("PP", leaf("IN", "than"), self.than.english(Case.NOMINATIVE))] if self.than else []
        if first.label == "ADJP" and not (others or than):
            return first
        return node("ADJP", first, *joined, *than)

    def german(self) -> tuple[Words, Words]:
        """Return the German words, and the words that move to the end of the clause."""
        first, *others = (adjective.german(attributive=False) for adjective in self.adjectives)
        joined = chain.from_iterable(("und", *other) for other in others)
        than = ("als", *self.than.german(Case.NOMINATIVE)) if self.than else ()
        return (*first, *joined, *than), ()


@dataclass(frozen=True, slots=True)
class SubordinateClause(Constituent):
    """Embedded clause, with or without a conjunction. As the modifier of a noun, it is a relative clause."""

    clause: Clause
    conjunction: Conjunction | None = None

    position = Position.POSTFIELD

    def english(self) -> Tree:
        """Return the English tree."""
        clause = self.clause.english()
        return node("SBAR", leaf("IN", self.conjunction.english), clause) if self.conjunction else clause

    def german(self) -> tuple[Words, Words]:
        """Return the German words, and the words that move to the end of the clause."""
        word = self.conjunction.translation(self.clause.tense.past) if self.conjunction else None
        return (), (",", *filter(None, [word]), *self.clause.german(), ",")


@dataclass(frozen=True, slots=True)
class Clause:
    """Verb with its constituents in English order, beginning with the subject.

    Attributes:
        type: Type of the clause.
        verb: The verb.
        tense: Tense or mood.
        agreement: Person, number and gender of the subject. An infinitive takes them from its main clause.
        constituents: Subject and other constituents.
        front: Index of the constituent at the beginning of the clause in both languages. None: the subject.
        negated: Whether the clause is negated with `not`.
    """

    type: ClauseType
    verb: Verb
    tense: Tense
    agreement: Agreement
    constituents: tuple[Constituent, ...]
    front: int | None = None
    negated: bool = False

    def english(self) -> Tree:
        """Return the English tree, without a final punctuation mark."""
        question = self.type is ClauseType.QUESTION
        parts = list(self.constituents)
        has_subject = self.type is not ClauseType.INFINITIVE and self.front != 0
        front = None if self.front is None else parts.pop(self.front).english()
        subject = [parts.pop(0).english()] if has_subject else []
        words = self._english_words(subject, parts, inverted=question and has_subject)
        label = "SQ" if question else "S"
        if front is None:
            return node(label, *words)
        if front.label.startswith("WH"):
            return node("SBARQ" if question else "SBAR", front, node(label, *words))
        comma = [leaf(",", ",")] if front.label == "SBAR" else []
        return node(label, front, *comma, *words)

    def _english_words(self, subject: Sequence[Tree], parts: Sequence[Constituent], inverted: bool) -> list[Tree]:
        """Return subject, verbs and other constituents in order. If `inverted`, the auxiliary precedes the subject.

        Adverbs of frequency precede a full verb and follow an auxiliary. `subject` is empty in an infinitive, and if
        the subject is the question word or relative pronoun at the front.
        """
        verbs, auxiliary = self._english_verbs(self.negated or inverted)
        frequency = [part.english() for part in parts if part.position is Position.FREQUENCY]
        complements = self._english_complements([part for part in parts if part.position is not Position.FREQUENCY])
        negation = [leaf("RB", "not")] if self.negated else []
        if inverted:
            rest = [_verb_phrase(verbs[1:], [], complements)] if len(verbs) > 1 else complements
            return [verbs[0], *subject, *negation, *frequency, *rest]
        if auxiliary:
            return [*subject, _verb_phrase(verbs, [*negation, *frequency], complements)]
        return [*subject, *frequency, _verb_phrase(verbs, negation, complements)]

    def _english_verbs(self, needs_auxiliary: bool) -> tuple[list[Tree], bool]:
        """Return the English verbs, the finite verb first, and whether the finite verb is an auxiliary.

        Args:
            needs_auxiliary: Whether to add the auxiliary `do` if the finite verb is not an auxiliary.
        """
        verb, tense = self.verb.english, self.tense
        if self.type is ClauseType.INFINITIVE:
            return [leaf("TO", "to"), leaf("VB", verb.base)], True
        rest = [] if tense.english is None else [verb.non_finite(tense.form)]
        if tense.to:
            rest.insert(0, leaf("TO", "to"))
        first = tense.english or verb
        if first.auxiliary or not needs_auxiliary:
            return [first.finite(self.agreement, tense.past), *rest], first.auxiliary
        return [DO.finite(self.agreement, tense.past), leaf("VB", first.base), *rest], True

    def _english_complements(self, parts: Sequence[Constituent]) -> list[Tree]:
        """Return the constituents after the verb. A particle precedes all of them except a pronoun object."""
        trees = [part.english() for part in parts]
        if self.verb.particle:
            after_pronoun = bool(parts) and parts[0].position is Position.ACCUSATIVE_PRONOUN
            trees.insert(int(after_pronoun), node("PRT", leaf("RP", self.verb.particle)))
        return trees

    def german(self) -> Words:
        """Return the German words, without a final punctuation mark.

        They are ordered by topological fields: prefield, left bracket, middle field, right bracket, postfield.
        """
        parts = list(self.constituents)
        first = 0 if self.front is None and self.type is ClauseType.STATEMENT else self.front
        prefield = () if first is None else tuple(chain.from_iterable(parts.pop(first).german()))
        left, right = self._german_bracket()
        ordered = sorted(self._german_parts(parts), key=lambda part: part[0])
        middle = (word for position, words in ordered if position is not Position.POSTFIELD for word in words)
        postfield = (word for position, words in ordered if position is Position.POSTFIELD for word in words)
        return (*prefield, *left, *middle, *right, *postfield)

    def _german_bracket(self) -> tuple[Words, Words]:
        """Return the German verbs before and after the middle field.

        In main clauses, the finite verb comes before the middle field. In other clauses, all verbs follow it.
        """
        verb, tense = self.verb.german, self.tense
        if self.type is ClauseType.INFINITIVE:
            return (), verb.with_zu()
        auxiliary = (tense.german or self.verb.perfect_auxiliary) if tense.english else None
        finite = (auxiliary or verb).finite(self.agreement, tense.past)
        non_finite = (verb.non_finite(tense.form),) if auxiliary else ()
        if self.type is ClauseType.EMBEDDED:
            return (), (*non_finite, finite if auxiliary else verb.prefix + finite)
        return (finite,), non_finite or tuple(filter(None, [verb.prefix]))

    def _german_parts(self, parts: list[Constituent]) -> Iterator[tuple[Position, Words]]:
        """Yield the German words of the given constituents, each with its position.

        In a negated clause, the first object that can be negated by `kein` has `kein`. If there is none, `nicht` is
        added.
        """
        if self.verb.reflexive:
            yield Position.REFLEXIVE, (reflexive_pronoun(self.agreement),)
        with_kein = next((part for part in parts if part.negated()), None) if self.negated else None
        if self.negated and with_kein is None:
            yield Position.NEGATION, ("nicht",)
        for part in parts:
            words, extraposed = ((part is with_kein and part.negated()) or part).german()
            yield part.position, words
            yield Position.POSTFIELD, extraposed


def _verb_phrase(verbs: Sequence[Tree], after_first: Sequence[Tree], complements: Sequence[Tree]) -> Tree:
    """Return one VP per verb, each inside the previous one. An infinitive with `to` is in a separate S."""
    first, *rest = verbs
    if not rest:
        return node("VP", first, *after_first, *complements)
    inner = _verb_phrase(rest, [], complements)
    return node("VP", first, *after_first, node("S", inner) if rest[0].label == "TO" else inner)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Sentence with one or two main clauses. `conjunction` is the English and the German word between them."""

    first: Clause
    conjunction: tuple[str, str] = ("", "")
    second: Clause | None = None

    @property
    def mark(self) -> str:
        """Punctuation mark at the end of the sentence: `?` for a question, otherwise `.`."""
        return "?" if self.first.type is ClauseType.QUESTION else "."

    def english(self, plain: bool = False) -> Tree:
        """Return the English tree. If `plain`, it has no initial capital and no final punctuation mark."""
        tree = self.first.english()
        if self.second:
            tree = node("S", tree, leaf(",", ","), leaf("CC", self.conjunction[0]), self.second.english())
        return tree if plain else node(tree.label, *tree.children, leaf(".", self.mark)).capitalise()

    def german(self, plain: bool = False) -> str:
        """Return the German text. If `plain`, it has no initial capital and no final punctuation mark."""
        words = self.first.german()
        if self.second:
            words = (*words, ",", self.conjunction[1], *self.second.german())
        text = detokenise(_merge_commas(words))
        return text if plain else capitalise(text) + self.mark


def _merge_commas(words: Words) -> Words:
    """Return the words without superfluous commas: repeated commas, and commas at both ends of the sentence."""
    kept = [word for word, previous in zip(words, (",", *words), strict=False) if (word, previous) != (",", ",")]
    return tuple(kept[:-1] if kept[-1] == "," else kept)

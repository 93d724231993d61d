"""Word order of both languages: where verbs and constituents stand is decided here, and nowhere else."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from zoo.data.builtin.features import Case, Kind, Weight, Words
from zoo.text.trees.tree import Tree, leaf, node


class Field(IntEnum):
    """What a constituent is to its clause, in the order of the German middle field.

    What is known comes before what is new: pronouns, then definite, then indefinite objects. `nicht` stands
    where the new begins. What comes AFTER stands behind the closing verbs.
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
    AFTER = 18


ROLES = {
    (Case.NOMINATIVE, Weight.PRONOUN): Field.SUBJECT_PRONOUN,
    (Case.NOMINATIVE, Weight.DEFINITE): Field.SUBJECT,
    (Case.NOMINATIVE, Weight.INDEFINITE): Field.SUBJECT,
    (Case.ACCUSATIVE, Weight.PRONOUN): Field.ACCUSATIVE_PRONOUN,
    (Case.ACCUSATIVE, Weight.DEFINITE): Field.DEFINITE_ACCUSATIVE,
    (Case.ACCUSATIVE, Weight.INDEFINITE): Field.INDEFINITE_ACCUSATIVE,
    (Case.DATIVE, Weight.PRONOUN): Field.DATIVE_PRONOUN,
    (Case.DATIVE, Weight.DEFINITE): Field.DEFINITE_DATIVE,
    (Case.DATIVE, Weight.INDEFINITE): Field.INDEFINITE_DATIVE,
}
"""The field of a subject or an object without a preposition."""


def german_clause(front: Words, bracket: tuple[Words, Words], parts: Iterable[tuple[Field, Words]]) -> Words:
    """The topological fields: front, left bracket, middle field, right bracket, what comes after."""
    left, right = bracket
    ordered = sorted(parts, key=lambda part: part[0])
    middle = (word for field, words in ordered if field is not Field.AFTER for word in words)
    after = (word for field, words in ordered if field is Field.AFTER for word in words)
    return (*front, *left, *middle, *right, *after)


def punctuated(words: Sequence[str]) -> Words:
    """Commas stand on both sides of an embedded clause: one is enough, and none at an end of the sentence."""
    kept = [word for word, before in zip(words, (",", *words), strict=False) if (word, before) != (",", ",")]
    return tuple(kept[:-1] if kept[-1] == "," else kept)


@dataclass(frozen=True, slots=True)
class EnglishClause:
    """What an English clause is made of. `verbs` begins with the finite one, `complements` follow the last.

    `front` is what stands before the subject; if it is a question word, or a relative pronoun, it may be the
    subject itself, and `subject` is None.
    """

    verbs: Sequence[Tree]
    auxiliary: bool
    negated: bool
    subject: Tree | None
    front: Tree | None
    frequency: Sequence[Tree]
    complements: Sequence[Tree]


def english_clause(kind: Kind, clause: EnglishClause) -> Tree:
    """The constituency tree of a clause, without its final punctuation mark."""
    front = clause.front
    inverted = kind is Kind.QUESTION and clause.subject is not None
    shape = _inverted if inverted else _straight
    label = "SQ" if kind is Kind.QUESTION else "S"
    if front is None:
        return node(label, *shape(clause))
    if front.label.startswith("WH"):
        return node("SBARQ" if kind is Kind.QUESTION else "SBAR", front, node(label, *shape(clause)))
    comma = [leaf(",", ",")] if front.label == "SBAR" else []
    return node(label, front, *comma, *shape(clause))


def _straight(clause: EnglishClause) -> Iterator[Tree]:
    """Subject, verb, complements; adverbs of frequency stand before a verb but after an auxiliary."""
    negation = [leaf("RB", "not")] if clause.negated else []
    if clause.subject:
        yield clause.subject
    if not clause.auxiliary:
        yield from clause.frequency
    inside = [*negation, *clause.frequency] if clause.auxiliary else negation
    yield _verb_phrase(clause.verbs, inside, clause.complements)


def _inverted(clause: EnglishClause) -> Iterator[Tree]:
    """The auxiliary before the subject, as in questions."""
    finite, *rest = clause.verbs
    yield finite
    if clause.subject:
        yield clause.subject
    if clause.negated:
        yield leaf("RB", "not")
    yield from clause.frequency
    if rest:
        yield _verb_phrase(rest, [], clause.complements)
    else:
        yield from clause.complements


def _verb_phrase(verbs: Sequence[Tree], after_first: Sequence[Tree], complements: Sequence[Tree]) -> Tree:
    """One VP in another, an infinitive with `to` in an S of its own."""
    first, *rest = verbs
    if not rest:
        return node("VP", first, *after_first, *complements)
    inside = _verb_phrase(rest, [], complements)
    return node("VP", first, *after_first, node("S", inside) if rest[0].label == "TO" else inside)

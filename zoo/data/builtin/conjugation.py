"""Verb forms of both languages, and the chains of verbs that a tense makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zoo.data.builtin.features import Agreement, Kind, Words
from zoo.text.trees.tree import Tree, leaf

Forms = tuple[str, str, str]
"""With I (ich), with it (es), with they (sie)."""


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """The forms of a verb. An auxiliary is negated and inverted without `do`; a modal has no participle."""

    base: str
    present: Forms
    past: Forms
    participle: str
    auxiliary: bool = False

    def finite(self, agreement: Agreement, past: bool) -> Tree:
        """The form that agrees with a subject, as a part of speech."""
        word = (self.past if past else self.present)[agreement.form]
        if not self.participle:
            return leaf("MD", word)
        if past:
            return leaf("VBD", word)
        return leaf("VBZ" if agreement.form == 1 else "VBP", word)

    def dependent(self, form: Form) -> Tree:
        """The form that a helping verb asks for, as a part of speech."""
        return leaf("VBN", self.participle) if form == "participle" else leaf("VB", self.base)


DO = EnglishVerb("do", ("do", "does", "do"), ("did", "did", "did"), "done", auxiliary=True)


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """The forms of a verb without its separable prefix."""

    infinitive: str
    present: Forms
    past: Forms
    participle: str
    prefix: str = ""

    def finite(self, agreement: Agreement, past: bool) -> str:
        """The form that agrees with a subject."""
        return (self.past if past else self.present)[agreement.form]

    def dependent(self, form: Form) -> str:
        """The form that a helping verb asks for."""
        return self.prefix + (self.participle if form == "participle" else self.infinitive)

    def with_zu(self) -> Words:
        """The infinitive with `zu`, which stands between a separable prefix and the verb."""
        return (f"{self.prefix}zu{self.infinitive}",) if self.prefix else ("zu", self.infinitive)


Form = Literal["infinitive", "participle"]


@dataclass(frozen=True, slots=True)
class Tense:
    """Tense or mood: present or past of the verb itself, or of a verb that helps it.

    `german` is None where the verb itself says which one helps it, haben or sein; `to` puts that word before
    an English infinitive (wants to see). `polarity` tells whether the clause may be affirmed (+) and negated
    (-), `era` which adverbs of time go with it, `animate` whether the subject must have a will.
    """

    english: EnglishVerb | None
    german: GermanVerb | None
    form: Form
    past: bool
    to: bool
    polarity: str
    era: str
    animate: bool


def english_chain(
    kind: Kind, verb: EnglishVerb, tense: Tense, agreement: Agreement, support: bool
) -> tuple[list[Tree], bool]:
    """The English verbs, the finite one first, and whether that one is an auxiliary.

    Where a clause is negated or inverted, a verb that is none needs the `support` of one: do.
    """
    if kind is Kind.INFINITIVE:
        return [leaf("TO", "to"), leaf("VB", verb.base)], True
    rest = [] if tense.english is None else [verb.dependent(tense.form)]
    if tense.to:
        rest.insert(0, leaf("TO", "to"))
    first = tense.english or verb
    if first.auxiliary or not support:
        return [first.finite(agreement, tense.past), *rest], first.auxiliary
    return [DO.finite(agreement, tense.past), leaf("VB", first.base), *rest], True


def german_bracket(
    kind: Kind, verb: GermanVerb, helper: GermanVerb | None, tense: Tense, agreement: Agreement
) -> tuple[Words, Words]:
    """The two halves of the verbal bracket, between which the middle field stands.

    In main clauses the finite verb is the left half; in all others everything closes the clause.
    """
    if kind is Kind.INFINITIVE:
        return (), verb.with_zu()
    finite = (helper or verb).finite(agreement, tense.past)
    closing = (verb.dependent(tense.form),) if helper else ()
    if kind is Kind.EMBEDDED:
        return (), (*closing, finite if helper else verb.prefix + finite)
    return (finite,), closing or tuple(filter(None, [verb.prefix]))

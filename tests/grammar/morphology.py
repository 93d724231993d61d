"""Morphology: grammatical features, declension and conjugation in German, and verb forms in English.

This module determines all endings of articles, adjectives, nouns and verbs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Literal, NamedTuple

from zoo.text.trees.tree import Tree, leaf

Words = tuple[str, ...]
"""German words in order. A comma is a separate word."""
Forms = tuple[str, str, str]
"""Finite verb forms for I (ich), it (es) and they (sie)."""
VerbForm = Literal["infinitive", "participle"]
"""Form of the verb after an auxiliary."""
Paradigm = tuple[tuple[str, ...], ...]
"""Endings of a word, by case (rows) and by gender or plural (columns)."""


class Case(IntEnum):
    """German case. The value is the row of a paradigm."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


class GenderNumber(IntEnum):
    """Gender in the singular, or plural. The value is the column of a paradigm."""

    MASCULINE = 0
    NEUTER = 1
    FEMININE = 2
    PLURAL = 3


class Agreement(NamedTuple):
    """Features that a subject shares with its verb, and a noun shares with its pronoun. `person` is 1 or 3."""

    person: int
    gender_number: GenderNumber

    @property
    def form(self) -> int:
        """Index of the agreeing verb form in `Forms`, the same for both languages."""
        if self.gender_number is GenderNumber.PLURAL:
            return 2
        return 0 if self.person == 1 else 1


class Definiteness(Enum):
    """Definiteness of a nominal, which determines its position in a German clause."""

    PRONOUN = "pronoun"
    DEFINITE = "definite"
    INDEFINITE = "indefinite"


class ClauseType(Enum):
    """Type of a clause, which determines the position of its verb."""

    STATEMENT = "statement"
    QUESTION = "question"
    EMBEDDED = "embedded"
    INFINITIVE = "infinitive"


def _paradigm(table: str) -> Paradigm:
    """Parse a table of four rows and four columns, in which `-` is an empty ending."""
    return tuple(tuple(cell.replace("-", "") for cell in row.split()) for row in table.strip().splitlines())


# Columns: masculine, neuter, feminine, plural. Rows: nominative, accusative, dative, genitive.
_ARTICLE = _paradigm("""
    er  as  ie  ie
    en  as  ie  ie
    em  em  er  en
    es  es  er  er
""")
_RELATIVE = (_ARTICLE[0], _ARTICLE[1], ("em", "em", "er", "enen"), ("essen", "essen", "eren", "eren"))
_DEMONSTRATIVE = _paradigm("""
    er  es  e   e
    en  es  e   e
    em  em  er  en
    es  es  er  er
""")
_POSSESSIVE = _paradigm("""
    -   -   e   e
    en  -   e   e
    em  em  er  en
    es  es  er  er
""")
_STRONG = (*_DEMONSTRATIVE[:3], ("en", "en", "er", "er"))
_WEAK = _paradigm("""
    e   e   e   en
    en  e   e   en
    en  en  en  en
    en  en  en  en
""")
_PARADIGMS = {
    "article": _ARTICLE,
    "demonstrative": _DEMONSTRATIVE,
    "possessive": _POSSESSIVE,
    "adjective": _STRONG,
    "uninflected": (("",) * 4,) * 4,
}
"""Paradigms of determiners, by the names in `tests.grammar.tables`."""

_PRONOUNS = {
    Agreement(1, GenderNumber.MASCULINE): ("ich", "mich", "mir"),
    Agreement(1, GenderNumber.PLURAL): ("wir", "uns", "uns"),
    Agreement(3, GenderNumber.MASCULINE): ("er", "ihn", "ihm"),
    Agreement(3, GenderNumber.NEUTER): ("es", "es", "ihm"),
    Agreement(3, GenderNumber.FEMININE): ("sie", "sie", "ihr"),
    Agreement(3, GenderNumber.PLURAL): ("sie", "sie", "ihnen"),
}

# After these stems, e must precede the ending -t: arbeit-e-t, öffn-e-t, zeichn-e-t, but wohn-t.
_STEM_NEEDS_E = re.compile(r"([td]|chn|[^aeiouäöühlrmn][mn])$")
_PARTICIPLE_WITHOUT_GE = re.compile(r"^(be|er|ge|ver)|ieren$")


@dataclass(frozen=True, slots=True)
class GermanNoun:
    """Principal parts of a German noun, as in a dictionary."""

    gender: GenderNumber
    nominative: str
    genitive: str
    plural: str

    def form(self, case: Case, gender_number: GenderNumber) -> str:
        """Return the inflected noun.

        A masculine noun whose genitive ends in n is weak: its genitive form is used in all cases except the nominative.
        """
        if gender_number is GenderNumber.PLURAL:
            return self.plural + ("n" if case is Case.DATIVE and self.plural[-1] not in "ns" else "")
        weak = self.gender is GenderNumber.MASCULINE and self.genitive.endswith("n")
        oblique = case is Case.GENITIVE or (weak and case is not Case.NOMINATIVE)
        return self.genitive if oblique else self.nominative


@dataclass(frozen=True, slots=True)
class GermanDeterminer:
    """Stem of a determiner and the name of its paradigm, such as `d` and article, or `kein` and possessive."""

    stem: str
    paradigm: str

    def form(self, case: Case, gender_number: GenderNumber) -> str:
        """Return the inflected determiner."""
        return self.stem + _PARADIGMS[self.paradigm][case][gender_number]

    def marks_case(self, case: Case, gender_number: GenderNumber) -> bool:
        """Return whether the ending marks the case, so that a following adjective is weak.

        Determiners that are inflected like adjectives never mark the case, so strong adjectives follow them.
        """
        return self.paradigm != "adjective" and _PARADIGMS[self.paradigm][case][gender_number] != ""


KEIN = GermanDeterminer("kein", "possessive")


def decline(
    determiner: GermanDeterminer,
    numeral: Words,
    adjectives: Iterable[Words],
    noun: GermanNoun,
    case: Case,
    gender_number: GenderNumber,
) -> Words:
    """Return the inflected words of a noun phrase: determiner, numeral, adjectives and noun.

    Adjectives have strong endings, which mark the case, unless the determiner marks it.

    Args:
        determiner: The determiner. Its form may be empty.
        numeral: The numeral as one word, or ().
        adjectives: Words of each adjective phrase. The last word of each is the stem of the adjective.
        noun: The noun.
        case: Case of the phrase.
        gender_number: Gender or plural of the phrase.
    """
    article = determiner.form(case, gender_number)
    ending = (_WEAK if determiner.marks_case(case, gender_number) else _STRONG)[case][gender_number]
    inflected = (word for *adverbs, stem in adjectives for word in (*adverbs, stem + ending))
    return (*filter(None, [article]), *numeral, *inflected, noun.form(case, gender_number))


def relative_pronoun(case: Case, gender_number: GenderNumber) -> str:
    """Return the German relative pronoun. It equals the definite article except for `denen`, `dessen` and `deren`."""
    return "d" + _RELATIVE[case][gender_number]


def personal_pronoun(agreement: Agreement, case: Case) -> str:
    """Return the German personal pronoun in any case except the genitive."""
    return _PRONOUNS[agreement][case]


def reflexive_pronoun(agreement: Agreement) -> str:
    """Return the German reflexive pronoun in the accusative: `sich`, or, in the first person, `mich` or `uns`."""
    return "sich" if agreement.person == 3 else personal_pronoun(agreement, Case.ACCUSATIVE)


@dataclass(frozen=True, slots=True)
class EnglishVerb:
    """Forms of an English verb.

    An auxiliary forms negations and questions without `do`. A modal verb is an auxiliary with an empty participle.
    """

    base: str
    present: Forms
    past: Forms
    participle: str
    auxiliary: bool = False

    @classmethod
    def from_parts(cls, parts: str, auxiliary: bool = False) -> EnglishVerb:
        """Return the English verb with these principal parts.

        Args:
            parts: `visit` for a regular verb, or `see sees saw seen`. A tense may have three forms, as in
                `be am/is/are was/was/were been`. The participle of a modal is `-`.
            auxiliary: Whether the verb is an auxiliary.
        """
        base, *irregular = parts.split()
        third, past, participle = irregular or _regular_english(base)
        present = _three_forms(third, (base, third, base))
        return cls(base, present, _three_forms(past, (past,) * 3), participle.strip("-"), auxiliary)

    def finite(self, agreement: Agreement, past: bool) -> Tree:
        """Return a tree leaf with the finite form that agrees with the subject, in the past or present."""
        word = (self.past if past else self.present)[agreement.form]
        if not self.participle:
            return leaf("MD", word)
        if past:
            return leaf("VBD", word)
        return leaf("VBZ" if agreement.form == 1 else "VBP", word)

    def non_finite(self, form: VerbForm) -> Tree:
        """Return a tree leaf with the form that follows an auxiliary: participle or infinitive."""
        return leaf("VBN", self.participle) if form == "participle" else leaf("VB", self.base)


DO = EnglishVerb("do", ("do", "does", "do"), ("did", "did", "did"), "done", auxiliary=True)


@dataclass(frozen=True, slots=True)
class GermanVerb:
    """Forms of a German verb without its separable prefix, and the prefix (empty if there is none)."""

    infinitive: str
    present: Forms
    past: Forms
    participle: str
    prefix: str = ""

    @classmethod
    def from_parts(cls, parts: str) -> GermanVerb:
        """Return the German verb with these principal parts.

        Args:
            parts: `besuchen` for a regular verb, or `sehen sieht sah gesehen`. A tense may have three forms, as in
                `wissen weiß/weiß/wissen wusste gewusst`. A plus follows a separable prefix, as in
                `auf+heben hebt hob gehoben`.
        """
        infinitive, *irregular = parts.split()
        prefix, _, infinitive = infinitive.rpartition("+")
        third, past, participle = irregular or _regular_german(infinitive)
        present = _three_forms(third, (_german_stem(infinitive) + "e", third, infinitive))
        plural_past = past + ("n" if past.endswith("e") else "en")
        return cls(infinitive, present, _three_forms(past, (past, past, plural_past)), participle, prefix)

    def finite(self, agreement: Agreement, past: bool) -> str:
        """Return the finite form without the separable prefix, such as "sieht" for "ansehen"."""
        return (self.past if past else self.present)[agreement.form]

    def non_finite(self, form: VerbForm) -> str:
        """Return the participle or infinitive with the separable prefix, as used after an auxiliary verb."""
        return self.prefix + (self.participle if form == "participle" else self.infinitive)

    def with_zu(self) -> Words:
        """Return the infinitive with `zu`, as in `zu sehen` or, with a separable prefix, `anzusehen`."""
        return (f"{self.prefix}zu{self.infinitive}",) if self.prefix else ("zu", self.infinitive)


@dataclass(frozen=True, slots=True)
class Tense:
    """Tense or mood of a clause, formed by the verb alone or with an auxiliary.

    Attributes:
        english: English auxiliary, or None if there is none.
        german: German auxiliary, or None if the tense has none, or uses the verb's perfect auxiliary (haben or sein).
        form: Form of the verb after the auxiliary.
        past: Whether the finite verb is in the past.
        to: Whether `to` precedes the English infinitive, as in "wants to see".
        polarity: Contains `+` if the clause may be affirmative, and `-` if it may be negated.
        time: Time for the choice of adverbs of time: past, perfect, present or future.
        animate: Whether the subject must be a person or an animal.
    """

    english: EnglishVerb | None
    german: GermanVerb | None
    form: VerbForm
    past: bool
    to: bool
    polarity: str
    time: str
    animate: bool


def _three_forms(written: str, default: Forms) -> Forms:
    """Return the three forms that slashes separate in `written`, or `default` if there is only one form."""
    first, *others = written.split("/")
    return (first, others[0], others[1]) if others else default


def _regular_english(base: str) -> tuple[str, str, str]:
    """Return the third person singular, the past and the participle of a regular verb."""
    if re.search(r"[^aeiou]y$", base):
        return f"{base[:-1]}ies", f"{base[:-1]}ied", f"{base[:-1]}ied"
    third = base + ("es" if re.search(r"(s|sh|ch)$", base) else "s")
    past = base + ("d" if base.endswith("e") else "ed")
    return third, past, past


def _regular_german(infinitive: str) -> tuple[str, str, str]:
    """Return the third person singular, the past and the participle of a regular verb."""
    stem = _german_stem(infinitive)
    stem += "e" if _STEM_NEEDS_E.search(stem) else ""
    return f"{stem}t", f"{stem}te", ("" if _PARTICIPLE_WITHOUT_GE.search(infinitive) else "ge") + f"{stem}t"


def _german_stem(infinitive: str) -> str:
    return infinitive.removesuffix("n").removesuffix("e")

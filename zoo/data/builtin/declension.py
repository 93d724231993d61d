"""German declension: every ending of articles, adjectives and nouns is decided here, and nowhere else.

Rows are cases, columns masculine, neuter, feminine, plural; `-` is no ending. One principle governs
adjectives: they take the strong ending, which shows the case, unless a determiner before them shows it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zoo.data.builtin.features import Agreement, Case, Column, Words

Endings = tuple[tuple[str, ...], ...]


def _paradigm(rows: str) -> Endings:
    """A table written as four rows of four."""
    return tuple(tuple(cell.replace("-", "") for cell in row.split()) for row in rows.strip().splitlines())


ARTICLE = _paradigm("""
    er  as  ie  ie
    en  as  ie  ie
    em  em  er  en
    es  es  er  er
""")
RELATIVE = (ARTICLE[0], ARTICLE[1], ("em", "em", "er", "enen"), ("essen", "essen", "eren", "eren"))
DEMONSTRATIVE = _paradigm("""
    er  es  e   e
    en  es  e   e
    em  em  er  en
    es  es  er  er
""")
POSSESSIVE = _paradigm("""
    -   -   e   e
    en  -   e   e
    em  em  er  en
    es  es  er  er
""")
STRONG = (*DEMONSTRATIVE[:3], ("en", "en", "er", "er"))
WEAK = _paradigm("""
    e   e   e   en
    en  e   e   en
    en  en  en  en
    en  en  en  en
""")
UNINFLECTED: Endings = (("",) * 4,) * 4

PARADIGMS = {
    "article": ARTICLE,
    "demonstrative": DEMONSTRATIVE,
    "possessive": POSSESSIVE,
    "adjective": STRONG,
    "uninflected": UNINFLECTED,
}
"""How a determiner is inflected, by the name that the lexicon uses."""

_PRONOUNS = {
    Agreement(1, Column.MASCULINE): ("ich", "mich", "mir"),
    Agreement(1, Column.PLURAL): ("wir", "uns", "uns"),
    Agreement(3, Column.MASCULINE): ("er", "ihn", "ihm"),
    Agreement(3, Column.NEUTER): ("es", "es", "ihm"),
    Agreement(3, Column.FEMININE): ("sie", "sie", "ihr"),
    Agreement(3, Column.PLURAL): ("sie", "sie", "ihnen"),
}


@dataclass(frozen=True, slots=True)
class GermanNoun:
    """The principal parts of a dictionary: nominative, genitive, plural."""

    gender: Column
    nominative: str
    genitive: str
    plural: str

    def form(self, case: Case, column: Column) -> str:
        """A masculine whose genitive ends in n is weak: it has that form in every case but the first."""
        if column is Column.PLURAL:
            return self.plural + ("n" if case is Case.DATIVE and self.plural[-1] not in "ns" else "")
        weak = self.gender is Column.MASCULINE and self.genitive.endswith("n")
        oblique = case is Case.GENITIVE or (weak and case is not Case.NOMINATIVE)
        return self.genitive if oblique else self.nominative


@dataclass(frozen=True, slots=True)
class GermanDeterminer:
    """A stem and the name of its paradigm: `d` article, `kein` possessive, `viel` adjective."""

    stem: str
    paradigm: str

    def form(self, case: Case, column: Column) -> str:
        """The inflected word."""
        return self.stem + PARADIGMS[self.paradigm][case][column]

    def shows(self, case: Case, column: Column) -> bool:
        """Whether the word bears the case; those inflected like adjectives do not spare the next one."""
        return self.paradigm != "adjective" and PARADIGMS[self.paradigm][case][column] != ""


NO_DETERMINER = GermanDeterminer("", "uninflected")
KEIN = GermanDeterminer("kein", "possessive")


def declined(
    determiner: GermanDeterminer,
    numeral: Words,
    adjectives: Iterable[Words],
    noun: GermanNoun,
    case: Case,
    column: Column,
) -> Words:
    """Determiner, numeral, adjectives and noun in agreement; of each adjective the last word is its stem."""
    article = determiner.form(case, column)
    ending = (WEAK if determiner.shows(case, column) else STRONG)[case][column]
    inflected = (word for *adverbs, stem in adjectives for word in (*adverbs, stem + ending))
    return (*filter(None, [article]), *numeral, *inflected, noun.form(case, column))


def relative_pronoun(case: Case, column: Column) -> str:
    """The article, but in the dative plural `denen`."""
    return "d" + RELATIVE[case][column]


def pronoun(agreement: Agreement, case: Case) -> str:
    """The personal pronoun; there is none in the genitive."""
    return _PRONOUNS[agreement][case]


def reflexive(agreement: Agreement) -> str:
    """The reflexive pronoun in the accusative: one of its own in the third person only."""
    return "sich" if agreement.person == 3 else pronoun(agreement, Case.ACCUSATIVE)

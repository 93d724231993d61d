"""Nominals drawn at random, as a clause wishes for them."""

from dataclasses import dataclass

from zoo.data.builtin.draw import Draw
from zoo.data.builtin.features import Agreement, Column
from zoo.data.builtin.nominals import Both, Name, Nominal, NounPhrase, Pronoun
from zoo.data.builtin.quality import Quality
from zoo.data.builtin.words import Adjective, Determiner, Lexicon, Sorts

PRONOUNS = (
    (3, Pronoun(Agreement(1, Column.MASCULINE), "I", "me")),
    (2, Pronoun(Agreement(1, Column.PLURAL), "we", "us")),
    (4, Pronoun(Agreement(3, Column.MASCULINE), "he", "him")),
    (4, Pronoun(Agreement(3, Column.FEMININE), "she", "her")),
    (3, Pronoun(Agreement(3, Column.PLURAL), "they", "them")),
)
WEATHER = Pronoun(Agreement(3, Column.NEUTER), "it", "it", "weather")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a nominal may be: of which sorts, with determiners of which groups, and whether a pronoun.

    `antecedent` is what `it` may stand for.
    """

    sorts: Sorts
    groups: str = "diq"
    pronoun: bool = True
    first_person: bool = True
    antecedent: NounPhrase | None = None


class NominalSampler:
    """Draws nominals; it knows no clauses."""

    def __init__(self, draw: Draw, lexicon: Lexicon) -> None:
        self._draw = draw
        self._lexicon = lexicon
        self._determiners: dict[tuple[str, bool], list[tuple[float, Determiner]]] = {}

    def nominal(self, wish: Wish) -> Nominal:
        """Any nominal of the wish's sorts."""
        antecedent = wish.antecedent
        if antecedent and antecedent.sort in wish.sorts and self._draw.chance(0.85):
            return Pronoun(antecedent.agreement, "it", "it", antecedent.sort)
        person = "person" in wish.sorts
        pronoun = person and wish.pronoun
        choices = ((72, self.noun_phrase), (18 * pronoun, self._pronoun), (6 * person, self._name), (4, self._both))
        return self._draw.weighted(choices)(wish)

    def noun_phrase(self, wish: Wish) -> NounPhrase:
        """Determiner, numeral, adjectives, noun."""
        sort = self._draw.one_of(sorted(wish.sorts & self._lexicon.nouns.keys()))
        noun = self._draw.one_of(self._lexicon.nouns[sort])
        plural = self._draw.chance(0.35) and bool(self._choices(wish.groups, True))
        plural = plural or not self._choices(wish.groups, False)
        determiner = self._draw.weighted(self._choices(wish.groups, plural))
        counts = plural and (determiner.group == "d" or (determiner.plural == "" and "q" in wish.groups))
        numeral = self._draw.one_of(self._lexicon.numerals) if counts and self._draw.chance(0.15) else None
        return NounPhrase(determiner, noun, plural, self._qualities(sort, determiner.group), numeral)

    def predicates(self, sort: str) -> tuple[Quality, ...]:
        """One adjective or two, to be said of a subject of that sort."""
        if self._draw.chance(0.15):
            return tuple(map(Quality, self._adjectives(sort, 2)))
        return (self._graded(sort, "very" if self._draw.chance(0.15) else "plain"),)

    def compared(self, sort: str) -> Quality:
        """A comparative, if the adjective drawn has one."""
        return self._graded(sort, "comparative")

    def _qualities(self, sort: str, group: str) -> tuple[Quality, ...]:
        """What stands before a noun: comparatives not after a quantity (many more expensive lamps)."""
        number = self._draw.weighted(((65, 0), (31, 1), (4, 2)))
        if number != 1:
            return tuple(map(Quality, self._adjectives(sort, number)))
        degrees = ((84, "plain"), (8, "very"), (8 * (group in "di"), "comparative"))
        return (self._graded(sort, self._draw.weighted(degrees)),)

    def _graded(self, sort: str, degree: str) -> Quality:
        """An adjective in that degree, or plain if it has no degrees."""
        (adjective,) = self._adjectives(sort, 1)
        gradable = adjective.comparative != ""
        return Quality(adjective, gradable and degree == "comparative", gradable and degree == "very")

    def _adjectives(self, sort: str, number: int) -> list[Adjective]:
        """So many, if they differ, in the order of the lexicon: opinion, size, age, colour last."""
        known = self._lexicon.adjectives[sort]
        drawn = {self._draw.one_of(range(len(known))) for _ in range(number)}
        return [known[index] for index in sorted(drawn)]

    def _choices(self, groups: str, plural: bool) -> list[tuple[float, Determiner]]:
        """The determiners of these groups that there are in a number."""
        if (groups, plural) not in self._determiners:
            self._determiners[groups, plural] = [
                (weight, determiner)
                for weight, determiner in self._lexicon.determiners
                if determiner.group in groups and (determiner.plural if plural else determiner.singular) is not None
            ]
        return self._determiners[groups, plural]

    def _pronoun(self, wish: Wish) -> Nominal:
        return self._draw.weighted(PRONOUNS if wish.first_person else PRONOUNS[2:])

    def _name(self, wish: Wish) -> Nominal:
        return Name(self._draw.one_of(self._lexicon.names))

    def _both(self, wish: Wish) -> Nominal:
        """Two of definite determiners, so that nothing before the first can be taken to hold for both."""
        definite = Wish(wish.sorts, "d", pronoun=False)
        first, second = self.noun_phrase(definite), self.noun_phrase(definite)
        return first if first.noun is second.noun else Both(first, second)

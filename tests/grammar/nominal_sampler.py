"""Random sampling of nominals (such as noun phrases and pronouns) that satisfy the constraints of a clause."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.grammar.lexicon import Adjective, Determiner, Lexicon, Sorts
from tests.grammar.morphology import Agreement, GenderNumber
from tests.grammar.nominals import AdjectivePhrase, Coordination, Name, Nominal, NounPhrase, Pronoun

T = TypeVar("T")

_FIRST_PERSON = (
    (3, Pronoun(Agreement(1, GenderNumber.MASCULINE), "I", "me")),
    (2, Pronoun(Agreement(1, GenderNumber.PLURAL), "we", "us")),
)
_THIRD_PERSON = (
    (4, Pronoun(Agreement(3, GenderNumber.MASCULINE), "he", "him")),
    (4, Pronoun(Agreement(3, GenderNumber.FEMININE), "she", "her")),
    (3, Pronoun(Agreement(3, GenderNumber.PLURAL), "they", "them")),
)
PRONOUNS = (*_FIRST_PERSON, *_THIRD_PERSON)
WEATHER_IT = Pronoun(Agreement(3, GenderNumber.NEUTER), "it", "it", "weather")


class RandomChoices:
    """Random choices that, for the same seed, are the same in all versions of Python.

    All choices use `Random.random()`, because Python only guarantees the same numbers for this method.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def uniform(self, choices: Sequence[T]) -> T:
        """Return one of the choices. All have the same probability."""
        return choices[int(self._random() * len(choices))]

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """Return one of the choices with a probability proportional to its weight."""
        remaining = self._random() * sum([weight for weight, _ in choices])
        for weight, choice in choices:
            remaining -= weight
            if remaining < 0:
                return choice
        return choices[-1][1]


@dataclass(frozen=True, slots=True)
class NominalConstraints:
    """Constraints for a nominal.

    Attributes:
        sorts: Permitted semantic sorts, such as person and food.
        groups: Permitted groups of determiners, one letter each (see `Determiner`).
        pronoun: Whether a pronoun is permitted.
        first_person: Whether pronouns of the first person are permitted.
        antecedent: Earlier noun phrase to which `it` may refer, if any.
    """

    sorts: Sorts
    groups: str = "diq"
    pronoun: bool = True
    first_person: bool = True
    antecedent: NounPhrase | None = None


class NominalSampler:
    """Samples nominals that do not contain clauses."""

    def __init__(self, random: RandomChoices, lexicon: Lexicon) -> None:
        self._random = random
        self._lexicon = lexicon
        self._determiners: dict[tuple[str, bool], list[tuple[float, Determiner]]] = {}

    def nominal(self, constraints: NominalConstraints) -> Nominal:
        """Sample a nominal: a noun phrase, a pronoun, a name or a coordination."""
        antecedent = constraints.antecedent
        if antecedent and antecedent.sort in constraints.sorts and self._random.chance(0.85):
            return Pronoun(antecedent.agreement, "it", "it", antecedent.sort)
        person = "person" in constraints.sorts
        pronoun = person and constraints.pronoun
        choices = (
            (72, self.noun_phrase),
            (18 * pronoun, self._pronoun),
            (6 * person, self._name),
            (4, self._coordination),
        )
        return self._random.weighted(choices)(constraints)

    def noun_phrase(self, constraints: NominalConstraints) -> NounPhrase:
        """Sample a noun phrase: a determiner, a numeral or none, adjectives and a noun."""
        sort = self._random.uniform(sorted(constraints.sorts & self._lexicon.nouns.keys()))
        noun = self._random.uniform(self._lexicon.nouns[sort])
        plural = self._random.chance(0.35) and bool(self._determiner_choices(constraints.groups, True))
        plural = plural or not self._determiner_choices(constraints.groups, False)
        determiner = self._random.weighted(self._determiner_choices(constraints.groups, plural))
        countable = determiner.group == "d" or (determiner.plural == "" and "q" in constraints.groups)
        with_numeral = plural and countable and self._random.chance(0.15)
        numeral = self._random.uniform(self._lexicon.numerals) if with_numeral else None
        return NounPhrase(determiner, noun, plural, self._attributes(sort, determiner.group), numeral)

    def predicative_adjectives(self, sort: str) -> tuple[AdjectivePhrase, ...]:
        """Sample one or two adjectives that can describe a subject of this semantic sort."""
        if self._random.chance(0.15):
            return tuple(map(AdjectivePhrase, self._adjectives(sort, 2)))
        return (self._adjective_phrase(sort, "very" if self._random.chance(0.15) else "positive"),)

    def comparative(self, sort: str) -> AdjectivePhrase:
        """Sample an adjective in the comparative, or in the positive if it has no comparative."""
        return self._adjective_phrase(sort, "comparative")

    def _attributes(self, sort: str, group: str) -> tuple[AdjectivePhrase, ...]:
        """Sample up to two adjectives before a noun of a semantic sort.

        After a quantity, no adjective is a comparative, because `many more expensive lamps` would be ambiguous.
        """
        number = self._random.weighted(((65, 0), (31, 1), (4, 2)))
        if number != 1:
            return tuple(map(AdjectivePhrase, self._adjectives(sort, number)))
        degrees = ((84, "positive"), (8, "very"), (8 * (group in "di"), "comparative"))
        return (self._adjective_phrase(sort, self._random.weighted(degrees)),)

    def _adjective_phrase(self, sort: str, degree: str) -> AdjectivePhrase:
        """Sample an adjective in the given degree, or in the positive if the adjective is not gradable."""
        (adjective,) = self._adjectives(sort, 1)
        gradable = adjective.comparative != ""
        return AdjectivePhrase(adjective, gradable and degree == "comparative", gradable and degree == "very")

    def _adjectives(self, sort: str, number: int) -> list[Adjective]:
        """Sample at most `number` different adjectives, in the lexicon's order: opinion, size, age, colour."""
        adjectives = self._lexicon.adjectives[sort]
        indices = {self._random.uniform(range(len(adjectives))) for _ in range(number)}
        return [adjectives[index] for index in sorted(indices)]

    def _determiner_choices(self, groups: str, plural: bool) -> list[tuple[float, Determiner]]:
        """Return the determiners of these groups that have a singular (or plural) form, with their weights."""
        if (groups, plural) not in self._determiners:
            self._determiners[groups, plural] = [
                (weight, determiner)
                for weight, determiner in self._lexicon.determiners
                if determiner.group in groups and (determiner.plural if plural else determiner.singular) is not None
            ]
        return self._determiners[groups, plural]

    def _pronoun(self, constraints: NominalConstraints) -> Nominal:
        return self._random.weighted(PRONOUNS if constraints.first_person else _THIRD_PERSON)

    def _name(self, constraints: NominalConstraints) -> Nominal:
        return Name(self._random.uniform(self._lexicon.names))

    def _coordination(self, constraints: NominalConstraints) -> Nominal:
        """Sample two noun phrases joined by `and`. Both are definite, so that neither determiner applies to both."""
        definite = NominalConstraints(constraints.sorts, "d", pronoun=False)
        first, second = self.noun_phrase(definite), self.noun_phrase(definite)
        return first if first.noun is second.noun else Coordination(first, second)

"""What words agree in, and what a clause is used as."""

from enum import Enum, IntEnum
from typing import NamedTuple

Words = tuple[str, ...]
"""German words in order; a comma is a word of its own."""


class Case(IntEnum):
    """The rows of a German paradigm."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    GENITIVE = 3


class Column(IntEnum):
    """The columns of a German paradigm: gender counts in the singular only."""

    MASCULINE = 0
    NEUTER = 1
    FEMININE = 2
    PLURAL = 3


class Agreement(NamedTuple):
    """What a subject hands on to its verb, and a noun to its pronoun. `person` is 1 or 3."""

    person: int
    column: Column

    @property
    def form(self) -> int:
        """Which of the three forms a finite verb takes in either language: with I, with it, with they."""
        if self.column is Column.PLURAL:
            return 2
        return 0 if self.person == 1 else 1


class Weight(Enum):
    """How much a nominal says: in German the light ones come early."""

    PRONOUN = "pronoun"
    DEFINITE = "definite"
    INDEFINITE = "indefinite"


class Kind(Enum):
    """What a clause is used as; it decides where the verb stands."""

    STATEMENT = "statement"
    QUESTION = "question"
    EMBEDDED = "embedded"
    INFINITIVE = "infinitive"

"""A case: what it is made from, and what was found of it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

KINDS = (
    *("specs", "bundles", "intruders", "imports", "registries", "vocabularies", "corpora", "trees", "lines"),
    "arguments",
)
"""Each has a file of its name beside this one, with a function `run`."""


@dataclass(frozen=True)
class Case:
    """The same kind and seed make the same case, everywhere and in any order."""

    kind: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"

    @property
    def draw(self) -> Random:
        """What it is made from."""
        return Random(str(self))


@dataclass(frozen=True)
class Verdict:
    """`failure` is None where all is well; else its first line says what, and the others where."""

    case: Case
    failure: str | None
    seconds: float
    answered: int = 0
    """What was asked for and given."""
    refused: int = 0
    """What was asked for and ended in an error."""

    @property
    def summary(self) -> str:
        """On a line."""
        return f"{self.case}: {(self.failure or 'good').splitlines()[0]}"

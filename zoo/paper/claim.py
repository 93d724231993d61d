"""A claim of the paper: a number that it prints or a sentence that can be checked, and what is found of it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from zoo.paper.evidence import Evidence


class Status(StrEnum):
    """What becomes of a claim. No claim is written with one: it follows from what `checks.py` finds."""

    DERIVED = "derived and checked"
    MEASURED = "measured here"
    OPEN = "not reproduced"


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it ("65", "3.3e18"), and where, if not everywhere."""

    text: str
    where: str = ""

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """What rounds to these digits: from the first of these on, and less than the second."""
        number = Decimal(self.text)
        half = Fraction(10) ** int(number.as_tuple().exponent) / 2
        return Fraction(number) - half, Fraction(number) + half

    def agrees(self, value: float) -> bool:
        """Whether a number, rounded to as many digits, is this one."""
        least, most = self.bounds
        return least <= Fraction(value) < most

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text


@dataclass(frozen=True)
class Finding:
    """What is found of a claim: its status and why; our own number, where there is one, in the claim's unit."""

    status: Status
    because: str
    value: float | None = None
    ours: str = ""
    """The number for people."""
    runs: tuple[str, ...] = ()
    """The folders that it was measured in."""


@dataclass(frozen=True)
class Claim:
    """What the paper says, where it says it, and how that is checked."""

    key: str
    """Its table or part and its place there: "table3.a-h1.bleu"."""
    section: str
    says: str
    check: Callable[[Claim, Evidence], Finding]
    printed: tuple[Printed, ...] = ()
    """Several where versions of the paper, or its parts, disagree. None where it is a sentence without a number."""
    unit: str = ""
    spec: str | None = None
    """The spec that it is about, by its short name; None for what is no model of this zoo."""

    @property
    def number(self) -> float:
        """The first that is printed."""
        return self.printed[0].value


Check = Callable[[Claim, Evidence], Finding]


@dataclass(frozen=True)
class Entry:
    """A claim with what was found of it."""

    claim: Claim
    finding: Finding

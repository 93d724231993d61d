"""List of all claims of the paper, with the result of checking each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from zoo.paper import network, recipe, table1, table2, table3, table4
from zoo.paper.claims import CheckedClaim, Claim, Status, drawn
from zoo.paper.evidence import Evidence

_FIGURES = {
    3: "heads attend to a distant dependency of a verb: making ... more difficult",
    4: "two heads seem to resolve an anaphora: their weights of `its` are very sharp",
    5: "heads have learned tasks that seem to follow the structure of the sentence",
}
"""Claims of Figures 3 to 5, by figure number. All figures show heads of encoder layer 5 of 6."""


def figure_claims() -> Iterator[Claim]:
    """Yield the claims of Figures 3 to 5."""
    for number, says in _FIGURES.items():
        yield Claim(f"figures.{number}", f"Figure {number}", says, drawn(number), spec="base")


PARTS = (
    *(network.claims, table1.claims, recipe.claims, table2.claims, table3.claims, table4.claims),
    figure_claims,
)
"""Functions that yield the claims, in the order of the paper. To add a part of the paper, add its function here."""


def claims() -> Iterator[Claim]:
    """Yield all claims of the paper, without checking them."""
    for part in PARTS:
        yield from part()


def ledger(evidence: Evidence) -> tuple[CheckedClaim, ...]:
    """Check all claims of the paper. Return each claim with the result of its check."""
    return tuple(CheckedClaim(claim, claim.check(claim, evidence)) for claim in claims())


def summary(entries: tuple[CheckedClaim, ...]) -> dict[str, int]:
    """Return the number of claims for each status. The keys are the values of `Status`."""
    return {status.value: sum(entry.finding.status is status for entry in entries) for status in Status}


def as_json(entry: CheckedClaim) -> dict[str, Any]:
    """Return a claim and its finding as a dictionary that can be written as JSON."""
    claim, finding = entry.claim, entry.finding
    return {
        "claim": claim.key,
        "section": claim.section,
        "says": claim.says,
        "printed": [{"value": printed.value, **asdict(printed)} for printed in claim.printed],
        "unit": claim.unit,
        "spec": claim.spec,
        **asdict(finding),
    }

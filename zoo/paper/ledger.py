"""The ledger: every claim of the paper, each with what is found of it today."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from zoo.paper import figures, network, recipe, table1, table2, table3, table4
from zoo.paper.claim import Claim, Entry, Status
from zoo.paper.evidence import Evidence

PARTS = (network, table1, recipe, table2, table3, table4, figures)
"""In the paper's order. To add one: a file with `claims`, and its line here."""


def claims() -> Iterator[Claim]:
    """All of them; the statuses are not in them."""
    for part in PARTS:
        yield from part.claims()


def ledger(evidence: Evidence) -> tuple[Entry, ...]:
    """Each claim, checked against the code and these runs."""
    return tuple(Entry(claim, claim.check(claim, evidence)) for claim in claims())


def summary(entries: tuple[Entry, ...]) -> dict[str, int]:
    """How many claims there are of each status."""
    return {status.value: sum(each.finding.status is status for each in entries) for status in Status}


def flat(entry: Entry) -> dict[str, Any]:
    """An entry for programs: with everything but how it was checked."""
    claim, finding = entry.claim, entry.finding
    return {
        "claim": claim.key,
        "section": claim.section,
        "says": claim.says,
        "printed": [{"value": each.value, **asdict(each)} for each in claim.printed],
        "unit": claim.unit,
        "spec": claim.spec,
        **asdict(finding),
    }

"""What is printed stands for all that rounds to it, and no claim is written with a status."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo import paper
from zoo.paper.claims import Printed
from zoo.paper.ledger import claims


@pytest.mark.parametrize(
    ("text", "agreeing", "others"),
    [
        ("65", (64.5, 65.0, 65.4999), (64.49, 65.5)),
        ("3.3e18", (3.25e18, 3.283e18), (3.35e18, 3.04e18, 3.3)),
        ("25.80", (25.80, 25.804), (25.81, 25.794)),
        ("37000", (37000,), (37001, 36999)),
        ("1e-9", (1e-9,), (2e-9,)),
    ],
)
def test_a_printed_number_agrees_with_what_rounds_to_its_digits(
    text: str, agreeing: tuple[float, ...], others: tuple[float, ...]
) -> None:
    printed = Printed(text)
    assert [value for value in agreeing if not printed.agrees(value)] == []
    assert [value for value in others if printed.agrees(value)] == []


def test_the_keys_of_claims_differ_and_all_have_a_section() -> None:
    known = list(claims())
    assert len({claim.key for claim in known}) == len(known) > 150
    assert all(claim.section and claim.says for claim in known)


def test_statuses_are_given_by_checks_alone() -> None:
    """A part of the ledger that names a status has typed it."""
    parts = [path for path in Path(paper.__path__[0]).glob("*.py") if "def claims()" in path.read_text()]
    assert len(parts) > 5
    assert [path.name for path in parts if "Status" in path.read_text() and path.name != "ledger.py"] == []

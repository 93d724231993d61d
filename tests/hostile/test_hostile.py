"""Hostile input never causes a traceback, a hang, too much memory, or a wrong result that is reported as right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hostile.faults import FAST, FAULTS
from hostile.judge import Case, Outcome
from hostile.runner import KINDS, run_cases

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # each case has a limit of its own


def _cases(per_kind: int, first: int = 0) -> list[Case]:
    return [Case(kind, seed) for seed in range(first, first + per_kind) for kind in KINDS]


def _check(outcomes: Sequence[Outcome]) -> None:
    """Check that no case failed and that intruders are refused."""
    lines = "\n".join(outcome.summary for outcome in outcomes if outcome.failure)
    assert not lines, f"`PYTHONPATH=tests python -m hostile KIND SEED` repeats a case:\n{lines}"
    assert all(outcome.refused for outcome in outcomes if outcome.case.kind == "intruders"), "an intruder is accepted"
    assert any(outcome.answered for outcome in outcomes), "no input is good"
    assert any(outcome.refused for outcome in outcomes), "no input is bad"


def _check_faults(outcomes: Sequence[Outcome]) -> None:
    expected = list(FAULTS.values())
    for outcome in outcomes:
        assert outcome.summary.startswith(f"{outcome.case}: {expected[outcome.case.seed][0]}"), outcome.failure


def test_hostile_cases_and_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))  # as after a compilation with torch
    faults = [Case("faults", seed) for seed in range(FAST)]
    outcomes = run_cases([*_cases(1), *faults], tmp_path, workers=1)
    assert len(outcomes) == len(KINDS) + FAST
    _check([outcome for outcome in outcomes if outcome.case.kind != "faults"])
    _check_faults([outcome for outcome in outcomes if outcome.case.kind == "faults"])


@pytest.mark.slow
def test_slow_faults(tmp_path: Path) -> None:
    _check_faults(run_cases([Case("faults", seed) for seed in range(FAST, len(FAULTS))], tmp_path, workers=1))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_thousands_of_hostile_cases(tmp_path: Path) -> None:
    outcomes = run_cases(_cases(1000, first=1_000_000), tmp_path)
    assert len(outcomes) == 1_000 * len(KINDS)
    _check(outcomes)
    for kind in KINDS:
        of_kind = [outcome for outcome in outcomes if outcome.case.kind == kind]
        assert any(outcome.answered for outcome in of_kind), f"no input of {kind} is good"
        assert any(outcome.refused for outcome in of_kind), f"no input of {kind} is bad"

"""Nothing that is handed in ends in a traceback, a hang, all of the memory, or a wrong result that is told as right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hostile.case import KINDS, Case, Verdict
from hostile.court import verdicts

_SOME, _MANY, _INTRUDERS = 240, 10_000, 600


def _cases(count: int, first: int = 0) -> list[Case]:
    """So many, of all kinds by turns."""
    return [Case(KINDS[number % len(KINDS)], first + number // len(KINDS)) for number in range(count)]


def _told(found: Sequence[Verdict]) -> str:
    failed = [verdict for verdict in found if verdict.failure]
    lines = "\n".join(verdict.summary for verdict in failed)
    return f"{len(failed)} of {len(found)} cases; `PYTHONPATH=tests python -m hostile KIND SEED` has more:\n{lines}"


pytestmark = pytest.mark.timeout(900)  # of all together: a case has its own


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    with pytest.MonkeyPatch.context() as patch:  # as torch leaves it in a process that has compiled anything
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("compiled") / "elsewhere"))
        return verdicts(_cases(_SOME), tmp_path_factory.mktemp("hostile"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_case_is_answered_or_refused(judged: list[Verdict], kind: str) -> None:
    of_kind = [verdict for verdict in judged if verdict.case.kind == kind]
    assert len(of_kind) == _SOME // len(KINDS)
    assert not any(verdict.failure for verdict in of_kind), _told(of_kind)
    if kind == "intruders":
        assert all(verdict.refused for verdict in of_kind), "one is accepted"
    assert sum(verdict.answered > 0 for verdict in of_kind) > 1, "hardly anything is right: the cases test nothing"
    assert sum(verdict.refused > 0 for verdict in of_kind) > 1, "hardly anything is wrong: the cases are not hostile"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_intruder_is_refused(tmp_path: Path) -> None:
    found = verdicts([Case("intruders", seed) for seed in range(_INTRUDERS)], tmp_path)
    assert sum(verdict.refused > 0 for verdict in found) == _INTRUDERS
    assert not any(verdict.failure for verdict in found), _told(found)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_ten_thousand_hostile_cases(tmp_path: Path) -> None:
    found = verdicts(_cases(_MANY, first=1_000_000), tmp_path)
    assert len(found) == _MANY
    assert not any(verdict.failure for verdict in found), _told(found)

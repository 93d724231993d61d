"""Attacks on a server process with little memory: it stays alive, answers others, and ends after SIGTERM."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi")

from hostile.attacks import ATTACKS, SECONDS, run

_MAX_BYTES = 3_000_000_000
_MAX_LOG_BYTES = 100_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_a_server_survives_an_attack(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOO_ATTACKED", raising=False)
    outcome = run(name)
    assert outcome.health_seconds < SECONDS / 2, "usually less than a second"
    assert outcome.peak_bytes < _MAX_BYTES
    assert outcome.end_seconds < SECONDS
    assert outcome.log_bytes < _MAX_LOG_BYTES
    assert outcome.text_seconds < SECONDS or ATTACKS[name][1], "other clients are served, unless they need a key"
    assert not {status for status in outcome.statuses if isinstance(status, int) and status == 500}

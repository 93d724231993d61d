"""Timings, with a clock that advances by one second at each reading."""

from __future__ import annotations

from itertools import count

import pytest

from zoo.system import processors as timing


@pytest.fixture(autouse=True)
def one_second_per_call(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(seconds)))


def test_timed_returns_seconds_and_result() -> None:
    assert timing.timed(lambda: "result") == (1.0, "result")
    assert timing.spread([3.0, 1.0, 2.0]) == timing.Spread(median=2.0, min=1.0, max=3.0)


@pytest.mark.parametrize(("seconds", "rounds", "calls"), [(2.5, 1, 3), (0.0, 1, 1), (0.5, 4, 4)])
def test_function_is_repeated_until_the_time_is_over(seconds: float, rounds: int, calls: int) -> None:
    called: list[None] = []
    times = timing.repeat(lambda: called.append(None), seconds, rounds=rounds)
    assert (times, len(called)) == ([1.0] * calls, calls)

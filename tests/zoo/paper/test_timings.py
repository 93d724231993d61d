"""Timed layers: every type can be timed, and exponents are fitted correctly."""

from __future__ import annotations

import pytest

from specs import SelfAttention
from zoo.paper import table1
from zoo.paper.table1 import LAYERS, growth_exponent, time_layers, time_sublayer


@pytest.fixture(autouse=True)
def one_run_per_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "MIN_SECONDS", 0.0)


def test_exponent_of_a_power_is_found() -> None:
    for power in (0.0, 1.0, 2.0, 1.37):
        assert growth_exponent({n: 3.0 * n**power for n in (16, 32, 100, 4096)}) == pytest.approx(power)


def test_lengths_after_the_time_limit_are_left_out() -> None:
    sublayer = SelfAttention(kind="self_attention")
    times = time_sublayer(sublayer, [5, 9, 12], 8, heads=2, backward=True, rounds=2, max_seconds=0.0)
    assert list(times) == [5, 9], "an exponent needs two lengths"


def test_layers_of_table_1_have_times_and_the_exponents_of_the_formulas() -> None:
    timed = {timing.key: timing for timing in time_layers(lengths=(16, 32))}
    assert timed.keys() == LAYERS.keys()
    assert all(list(t.seconds) == [16, 32] and min(t.seconds.values()) > 0 for t in timed.values())
    assert [timed[key].formula for key in ("self-attention", "restricted")] == pytest.approx([2.0, 1.0])

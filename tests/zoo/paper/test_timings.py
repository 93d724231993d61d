"""Timed layers: every type can be timed, and exponents are fitted correctly."""

from __future__ import annotations

import pytest

from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, Ssru
from zoo.paper import table1
from zoo.paper.table1 import growth_exponent, time_layers, time_sublayer


@pytest.fixture(autouse=True)
def one_run_per_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table1, "MIN_SECONDS", 0.0)


def test_exponent_of_a_power_is_found() -> None:
    for power in (0.0, 1.0, 2.0, 1.37):
        assert growth_exponent({n: 3.0 * n**power for n in (16, 32, 100, 4096)}) == pytest.approx(power)


RESTRICTED = RestrictedAttention(kind="restricted_attention", radius=4)
CONVOLUTION = Convolution(kind="convolution", kernel=3, dilated=True)
RECURRENT = (Ssru(kind="ssru"), Lstm(kind="lstm"))


@pytest.mark.parametrize("sublayer", [SelfAttention(kind="self_attention"), RESTRICTED, *RECURRENT, CONVOLUTION])
def test_each_type_can_be_timed(sublayer: SelfAttention) -> None:
    for backward in (False, True):
        times = time_sublayer(sublayer, [5, 9], 8, heads=2, causal=backward, backward=backward, rounds=1)
        assert list(times) == [5, 9]
        assert min(times.values()) > 0


def test_lengths_after_the_time_limit_are_left_out() -> None:
    times = time_sublayer(Ssru(kind="ssru"), [5, 9, 12], 8, rounds=2, max_seconds=0.0)
    assert list(times) == [5, 9], "an exponent needs two lengths"


def test_layers_of_table_1_have_times_and_the_exponents_of_the_formulas() -> None:
    timed = list(time_layers(("self-attention", "restricted"), (16, 32)))
    assert [timing.key for timing in timed] == ["self-attention", "restricted"]
    assert all(list(t.seconds) == [16, 32] and min(t.seconds.values()) > 0 for t in timed)
    assert [timing.formula for timing in timed] == pytest.approx([2.0, 1.0])

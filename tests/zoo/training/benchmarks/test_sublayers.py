"""What is fitted to measured times; the times themselves are nobody's property."""

from __future__ import annotations

import pytest

from specs import Convolution, Lstm, RestrictedAttention, SelfAttention, Ssru
from zoo.paper.timings import SublayerTime, crossing, growth_exponent, time_sublayer


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0, 1.37])
def test_a_power_is_found_again(power: float) -> None:
    assert growth_exponent((n, 3.0 * n**power) for n in (16, 32, 100, 4096)) == pytest.approx(power)


def test_a_crossing_is_where_one_is_faster_for_good() -> None:
    full = [SublayerTime(n, seconds) for n, seconds in ((16, 1.0), (32, 2.0), (64, 8.0), (128, 32.0))]
    near = [SublayerTime(n, seconds) for n, seconds in ((16, 0.5), (32, 3.0), (64, 4.0), (128, 8.0))]
    assert crossing(full, near) == 64
    assert crossing(full, near[:1]) == 16
    assert crossing(near, full) is None


@pytest.mark.parametrize(
    "of",
    [
        SelfAttention(kind="self_attention"),
        RestrictedAttention(kind="restricted_attention", radius=4),
        Ssru(kind="ssru"),
        Lstm(kind="lstm"),
        Convolution(kind="convolution", kernel=3, dilated=True),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_every_kind_can_be_timed(of: SelfAttention, backward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.paper.timings.MIN_SECONDS", 0.0)
    found = time_sublayer(of, [5, 9], 8, heads=2, causal=backward, backward=backward, rounds=1)
    assert [each.n for each in found] == [5, 9]
    assert all(each.seconds > 0 for each in found)


def test_lengths_after_one_that_took_enough_are_left_out() -> None:
    found = time_sublayer(Ssru(kind="ssru"), [5, 9, 12], 8, rounds=2, max_seconds=0.0)
    assert [each.n for each in found] == [5, 9], "an exponent needs two"

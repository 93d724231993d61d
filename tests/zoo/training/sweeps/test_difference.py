"""What is beyond noise: by seeds, by sentences, by both; held to simulations in which the truth is known."""

from __future__ import annotations

import math
from statistics import fmean, variance

import numpy as np
import pytest

from zoo.training.sweeps.comparison import (
    Difference,
    ScoreSample,
    SeedVariance,
    Verdict,
    difference,
    seed_variance,
    t_quantile,
)

SETS = 1_000


def sample(*seeds: float, shift: float = 0.0, noise: float = 0.0, own: float = 0.0, draw: int = 0) -> ScoreSample:
    """Scores whose sets vary by `noise` together with those of all others, and by `own` alone."""
    shared = np.random.default_rng(0).normal(0, 1, SETS)
    alone = np.random.default_rng(draw).normal(0, 1, SETS)
    return ScoreSample(tuple(each + shift for each in seeds), fmean(seeds) + shift + noise * shared + own * alone)


def test_the_verdicts() -> None:
    up = Difference(1.0, 0.5)
    assert [up.verdict(wanted) for wanted in (0.3, -0.3)] == ["confirmed", "contradicted"]
    assert {Difference(0.4, 0.5).verdict(wanted) for wanted in (0.3, -0.3)} == {Verdict.NOISE}
    assert Difference(math.nan, math.nan).verdict(1.0) == Verdict.NOISE


def test_sentences_that_are_hard_for_both_make_no_difference() -> None:
    """The paired bootstrap: what moves both rows alike is no noise of their difference."""
    first, second = sample(20.0, noise=3.0), sample(21.0, noise=3.0)
    assert difference(first, second, SeedVariance(0.0, 0)).half < 1e-9
    assert first.half == pytest.approx(1.96 * 3, rel=0.1)
    apart = difference(sample(20.0, own=1.0, draw=1), sample(21.0, own=1.0, draw=2), SeedVariance(0.0, 0))
    assert apart.half == pytest.approx(1.96 * math.sqrt(2), rel=0.1)
    assert not apart.beyond_noise


def test_the_variance_of_seeds_is_that_of_all_rows_together() -> None:
    found = seed_variance([sample(1.0, 3.0), sample(10.0, 10.5, 11.0), sample(7.0)])
    assert found.degrees == 3
    assert found.variance == pytest.approx((variance([1, 3]) + 2 * variance([10, 10.5, 11])) / 3)
    assert seed_variance([sample(1.0), sample(2.0)]) == SeedVariance(0.0, 0)


def test_rows_of_more_seeds_are_told_apart_by_less() -> None:
    seeds = SeedVariance(0.25, 10)
    halves = [difference(sample(*[20.0] * n), sample(*[21.0] * n), seeds).half for n in (1, 2, 8)]
    assert halves == pytest.approx([t_quantile(10) * 0.5 * math.sqrt(2 / n) for n in (1, 2, 8)])


@pytest.mark.parametrize("seeds", [2, 4])
def test_where_there_is_no_difference_one_in_twenty_looks_like_one(seeds: int) -> None:
    draw = np.random.default_rng(seeds)
    found = []
    for _ in range(1_000):
        rows = [sample(*draw.normal(20, 1, seeds)) for _ in range(4)]
        found.append(difference(rows[0], rows[1], seed_variance(rows)).beyond_noise)
    assert 0.03 < fmean(found) < 0.07


def test_students_t() -> None:
    assert [round(t_quantile(degrees), 2) for degrees in (1, 2, 10, 30, 100, math.inf)] == [
        12.71,
        4.30,
        2.23,
        2.04,
        1.98,
        1.96,
    ]
    values = [t_quantile(degrees) for degrees in range(1, 60)]
    assert values == sorted(values, reverse=True)

"""Differences beyond noise: by seeds, by sentences and by both, compared with simulations of a known truth."""

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


def sample(*seeds: float, noise: float = 0.0, own: float = 0.0, draw: int = 0) -> ScoreSample:
    """Scores whose bootstrap samples vary by `noise`, shared by all rows, and by `own` independently."""
    shared, alone = (np.random.default_rng(number).normal(0, 1, 1_000) for number in (0, draw))
    return ScoreSample(seeds, fmean(seeds) + noise * shared + own * alone)


def test_verdicts() -> None:
    verdicts = {value: [Difference(value, 0.5).verdict(expected) for expected in (0.3, -0.3)] for value in (1.0, 0.4)}
    assert verdicts == {1.0: ["confirmed", "contradicted"], 0.4: [Verdict.NOISE] * 2}
    assert Difference(math.nan, math.nan).verdict(1.0) == Verdict.NOISE
    assert Difference(1.0, 0.5, tested=False).verdict(0.3) == Verdict.UNTESTED
    assert not Difference(1.0, 0.5, tested=False).beyond_noise


def test_sentences_that_are_hard_for_both_rows_make_no_difference() -> None:
    """The bootstrap is paired."""
    first, second = sample(20.0, noise=3.0), sample(21.0, noise=3.0)
    assert difference(first, second, SeedVariance(0.0, 0)).half_interval < 1e-9
    assert first.half_interval == pytest.approx(1.96 * 3, rel=0.1)
    independent = difference(sample(20.0, own=1.0, draw=1), sample(21.0, own=1.0, draw=2), SeedVariance(0.0, 0))
    assert independent.half_interval == pytest.approx(1.96 * math.sqrt(2), rel=0.1)
    assert not independent.beyond_noise


def test_variance_between_seeds_is_pooled_over_all_rows() -> None:
    pooled = seed_variance([sample(1.0, 3.0), sample(10.0, 10.5, 11.0), sample(7.0)])
    assert pooled.degrees == 3
    assert pooled.variance == pytest.approx((variance([1, 3]) + 2 * variance([10, 10.5, 11])) / 3)
    assert seed_variance([sample(1.0), sample(2.0)]) == SeedVariance(0.0, 0)


def test_more_seeds_make_the_interval_smaller() -> None:
    seeds = SeedVariance(0.25, 10)
    halves = [difference(sample(*[20.0] * n), sample(*[21.0] * n), seeds).half_interval for n in (1, 2, 8)]
    assert halves == pytest.approx([t_quantile(10) * 0.5 * math.sqrt(2 / n) for n in (1, 2, 8)])


@pytest.mark.parametrize("seeds", [2, 4])
def test_one_in_twenty_equal_rows_appears_to_differ(seeds: int) -> None:
    draw = np.random.default_rng(seeds)
    differing = []
    for _ in range(1_000):
        rows = [sample(*draw.normal(20, 1, seeds)) for _ in range(4)]
        differing.append(difference(rows[0], rows[1], seed_variance(rows)).beyond_noise)
    assert 0.03 < fmean(differing) < 0.07


def test_quantiles_of_students_t() -> None:
    expected = [12.71, 4.30, 2.23, 2.04, 1.98, 1.96]
    assert [round(t_quantile(degrees), 2) for degrees in (1, 2, 10, 30, 100, math.inf)] == expected
    values = [t_quantile(degrees) for degrees in range(1, 60)]
    assert values == sorted(values, reverse=True)

import pytest

import specs
from zoo.training.step import learning_rate


def test_it_rises_to_the_peak_at_the_end_of_warm_up_and_falls_with_the_root() -> None:
    spec = specs.load("base")
    rates = [learning_rate(step, spec) for step in (1, 2, 2000, 4000, 16000, 100000)]
    peak = 512**-0.5 * 4000**-0.5
    assert rates == pytest.approx([peak / 4000, peak / 2000, peak / 2, peak, peak / 2, peak / 5])


def test_the_factor_scales_it() -> None:
    half = specs.load("base", ["training.learning_rate=0.5"])
    assert learning_rate(100, half) == learning_rate(100, specs.load("base")) / 2

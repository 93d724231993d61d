"""The speed of training: figures that fit together, and what cannot be measured."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from specs import Spec, ZooError
from zoo.system import device_memory
from zoo.training.benchmarks import benchmark_training


def test_figures_fit_together(world: Callable[..., Spec]) -> None:
    cpu = torch.device("cpu")
    before = device_memory.peak_memory(cpu)
    speed = benchmark_training(world(), steps=2, rounds=3, device="cpu")
    assert (speed.name, speed.device, speed.steps, speed.rounds) == ("transformer-tiny-ende", "cpu", 2, 3)
    for spread in (speed.source_tokens_per_second, speed.target_tokens_per_second, speed.step_seconds):
        assert 0 < spread.least <= spread.median <= spread.most
    tokens = speed.target_tokens_per_second.median * speed.step_seconds.median
    assert 80 <= tokens <= 400  # at most the budget of a step
    assert 0 <= speed.padding < 0.5
    assert 0 < speed.utilisation.median < 1
    assert before <= speed.memory_bytes <= device_memory.peak_memory(cpu)
    assert 3 < speed.loss < 8  # ln 200 is 5.3


def test_nothing_to_measure(world: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError, match="0 rounds of 2 steps"):
        benchmark_training(world(), steps=2, rounds=0)


def test_no_pair_is_longer_than_the_spec_has_any(world: Callable[..., Spec]) -> None:
    learned = ("architecture.positional_encoding=learned", "architecture.max_positions=12", "corpus.max_length=11")
    speed = benchmark_training(
        world(*learned, "training.source_tokens=12", "training.target_tokens=12"), steps=1, rounds=1
    )
    assert speed.target_tokens_per_second.median * speed.step_seconds.median <= 12 + 1e-6


def test_weights_of_parts_are_none_of_what_is_made_up(world: Callable[..., Spec]) -> None:
    parts = "corpus.train=[{grammar: 30, weight: 2}, {grammar: 20}]"
    assert benchmark_training(world(parts), steps=1, rounds=1).steps == 1


def test_a_budget_that_holds_no_sentence(world: Callable[..., Spec]) -> None:
    with pytest.raises(ZooError, match=r"training\.source_tokens"):
        benchmark_training(world("training.source_tokens=20"), steps=1, rounds=1)

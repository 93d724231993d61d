"""Steps on packed rows train like steps on padded batches, resume bitwise, and are shared by processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compiler import EmittedProgram, Purpose, build_module
from specs import Spec
from tests.compiler.kernels_in_pytorch import kernels_in_pytorch
from tests.examples import changed, rows
from zoo.data.batches import Batch, Examples
from zoo.data.prepare import prepare
from zoo.data.training_set import TrainingSet
from zoo.report import Report
from zoo.training.checkpoints import list_checkpoints
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.step import RecordedUpdate, TrainStep
from zoo.training.trainer import Trainer

pytestmark = pytest.mark.integration
PACKED = (Purpose.TRAIN, Purpose.UPDATE)


@pytest.fixture(autouse=True)
def in_pytorch() -> Iterator[None]:
    with kernels_in_pytorch():
        yield


def batch(number: int) -> Batch:
    generator = np.random.default_rng(number)
    lengths = generator.integers(1, 15, (2, 6))
    return rows(*([generator.integers(4, 101, length) for length in side] for side in lengths)).to_batch()


def spec_for(small: Callable[..., Spec], parts: int = 1) -> Spec:
    budgets = {"source_tokens": 200, "target_tokens": 200}
    spec = changed(small(dropout=0.0), "training", **budgets, clip_norm=0.5, accumulation_steps=parts)
    return changed(spec, "corpus", max_length=30)


def weights_after(spec: Spec, purposes: Any, steps: int) -> tuple[Tensor, TrainStep]:
    program = build_module(spec, purposes)
    train_step = TrainStep(spec, program, Processes("cpu"), Report())
    for number in range(1, steps + 1):
        train_step(number, batch(number))
    return weights(program), train_step


def weights(program: EmittedProgram) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in program.parameters()]).clone()


@pytest.mark.parametrize("parts", [1, 3])
def test_packed_steps_train_like_padded_steps(small: Callable[..., Spec], parts: int) -> None:
    spec = spec_for(small, parts)
    padded, _ = weights_after(spec, (Purpose.TRAIN,), 20)
    packed, train_step = weights_after(spec, PACKED, 20)
    assert train_step._update.rows.source == (200 if parts == 1 else -(-200 // parts) + 31)
    torch.testing.assert_close(packed, padded, rtol=1e-2, atol=2e-3)
    assert float((padded - weights(build_module(spec))).abs().max()) > 0.01, "the steps changed the weights"


def test_a_step_that_is_not_finite_changes_nothing(small: Callable[..., Spec]) -> None:
    before, train_step = weights_after(spec_for(small), PACKED, 3)
    states = train_step.optimiser.state.values()
    moments, first = [state["exp_avg"].clone() for state in states], train_step.parameters[0].data
    kept = first.clone()
    first.fill_(torch.inf)
    assert not bool(train_step(4, batch(4)).taken)
    first.copy_(kept)
    assert torch.equal(before, weights(train_step.program))
    assert all(torch.equal(state["exp_avg"], moment) for state, moment in zip(states, moments, strict=True))
    assert bool(train_step(5, batch(4)).taken)


def test_a_step_that_does_not_fit_is_divided_once_for_all_steps(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def record(*arguments: Any) -> RecordedUpdate:
        made.append(arguments[-1])
        if arguments[-1] < 4:
            raise torch.OutOfMemoryError("out of memory")
        return RecordedUpdate(*arguments)

    monkeypatch.setattr("zoo.training.step.RecordedUpdate", record)
    weights_after(spec_for(small), PACKED, 3)
    assert made == [1, 2, 4]


def test_packed_batches_contain_each_pair_once_and_fill_both_budgets(world: Callable[..., Spec]) -> None:
    spec = world()
    store = prepare(spec, Report()).store("train")
    padded, batches = (
        [indices.tolist() for indices in TrainingSet(spec, store, packed=packed).epoch_batches(0)]
        for packed in (False, True)
    )
    assert batches != padded
    assert sorted(index for indices in batches for index in indices) == list(range(len(store)))
    sizes = [Examples.from_store(store, indices).size for indices in batches]
    assert max(size.source_tokens for size in sizes) <= spec.training.source_tokens
    assert max(size.target_tokens for size in sizes) <= spec.training.target_tokens
    assert len(batches) <= len(padded)


def test_processes_sum_gradients_and_losses(small: Callable[..., Spec]) -> None:
    """Two processes that compute the same share: their sums are twice those of one of them."""
    spec, twins = spec_for(small), Processes("cpu")
    one, _ = weights_after(spec, PACKED, 5)
    twins.count = 2
    twins.all_reduce = lambda sums: sums.mul_(2)
    twins.all_equal = lambda number: True
    program = build_module(spec, PACKED)
    train_step = TrainStep(spec, program, twins, Report())
    for number in range(1, 6):
        given = batch(number)
        size = given.size._replace(target_tokens=2 * given.size.target_tokens)
        result = train_step(number, replace(given, size=size))
    assert result.tokens == size.target_tokens
    torch.testing.assert_close(weights(program), one, rtol=1e-3, atol=1e-4)


def test_a_resumed_run_on_packed_rows_is_bitwise_the_unbroken_one(world: Callable[..., Spec]) -> None:
    spec = world("training.steps=6", "training.checkpoint_steps=3", "architecture.dropout=0.1")
    prepared = prepare(spec, Report())

    def train(folder: str, steps: int) -> Tensor:
        data = TrainingSet(spec, prepared.store("train"), packed=True)
        train_step = TrainStep(spec, build_module(spec, PACKED), Processes("cpu"), Report())
        trainer = Trainer(train_step, data, Run(Path(folder)))
        trainer.run.folder.mkdir(exist_ok=True)
        trainer.train(lambda: trainer.progress.step >= steps)
        return weights(trainer.program)

    unbroken = train("unbroken", 6)
    train("broken", 3)
    assert [checkpoint.step for checkpoint in list_checkpoints(Run(Path("broken")))] == [3]
    assert torch.equal(train("broken", 6), unbroken)

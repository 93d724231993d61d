"""Training steps: they equal the paper's formulas, skip steps that are not finite, clip, and split large batches."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

import specs
from tests.refusals import refused
from tests.zoo.training.conftest import Make, Patch
from zoo.data.batches import Batch
from zoo.training.step import AutogradUpdate, learning_rate
from zoo.training.trainer import Trainer

pytestmark = pytest.mark.integration
COMPUTE_PART = AutogradUpdate._part


def test_learning_rate_rises_in_the_warmup_falls_with_the_root_and_falls_to_zero_in_the_cooldown() -> None:
    plain, cooled = specs.load("base"), specs.load("base", ["training.steps=10000", "training.cooldown_steps=400"])
    rates = [learning_rate(step, plain) for step in (1, 2, 2000, 4000, 16000, 100000)]
    peak = 512**-0.5 * 4000**-0.5
    assert rates == pytest.approx([peak / 4000, peak / 2000, peak / 2, peak, peak / 2, peak / 5])
    factors = [learning_rate(step, cooled) / learning_rate(step, plain) for step in (1, 9600, 9601, 9801, 9901, 10000)]
    assert factors == pytest.approx([1, 1, 1, 1 / 2, 1 / 4, 1 / 400])


def first_moments(trainer: Trainer) -> list[Tensor]:
    return [trainer.train_step.optimiser.state[each]["exp_avg"] for each in trainer.train_step.parameters]


@pytest.mark.parametrize("parts", [1, 3])
def test_adam_equals_the_update_written_out(trainer: Make, parts: int) -> None:
    """Moments, bias correction, and epsilon outside of the root (5.3), with and without gradient accumulation."""
    one = trainer("architecture.dropout=0.0", f"training.accumulation_steps={parts}")
    settings, parameters = one.spec.training, list(one.program.parameters())
    twins = [p.detach().clone().double() for p in parameters]
    moments = [(torch.zeros_like(t), torch.zeros_like(t)) for t in twins]
    for number, batch in enumerate(inputs_of(one, 10), 1):
        loss = one.program(batch.source, batch.target.values).smoothed / batch.size.target_tokens
        gradients = torch.autograd.grad(loss, parameters)
        result = one.step(number, batch)
        assert float(result.smoothed) / result.tokens == pytest.approx(loss.item(), abs=1e-4)
        if number == 1:
            expected = [(1 - settings.beta1) * gradient for gradient in gradients]
            torch.testing.assert_close(first_moments(one), expected, rtol=1e-4, atol=1e-7)
        rate = 16**-0.5 * min(number**-0.5, number * 10**-1.5)
        for twin, (m, v), gradient in zip(twins, moments, gradients, strict=True):
            m.mul_(settings.beta1).add_((1 - settings.beta1) * gradient)
            v.mul_(settings.beta2).add_((1 - settings.beta2) * gradient.double() ** 2)
            root = (v / (1 - settings.beta2**number)).sqrt() + settings.epsilon
            twin -= rate * (m / (1 - settings.beta1**number)) / root
    torch.testing.assert_close([each.detach().double() for each in parameters], twins, atol=1e-3, rtol=1e-3)


def state_of(trainer: Trainer) -> list[Tensor]:
    """Copies of the weights, and of Adam's moments and step counts."""
    parameters = list(trainer.program.parameters())
    moments = [t for p in parameters for t in trainer.train_step.optimiser.state.get(p, {}).values()]
    return [t.detach().clone() for t in (*parameters, *moments)]


def inputs_of(trainer: Trainer, count: int) -> list[Batch]:
    return [batch for batch, _ in islice(trainer.inputs(), count)]


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_step_that_is_not_finite_changes_nothing(trainer: Make, monkeypatch: Patch, where: str, value: float) -> None:
    one = trainer()
    first, second, third = inputs_of(one, 3)
    assert bool(one.step(1, first).taken)
    before = state_of(one)

    def spoilt(update: AutogradUpdate, part: Batch, tokens: int) -> Tensor:
        sums = COMPUTE_PART(update, part, tokens)
        if where == "loss":
            return sums * value
        update._parameters[-1].grad.view(-1)[0] = value
        return sums

    with monkeypatch.context() as patch:
        patch.setattr(AutogradUpdate, "_part", spoilt)
        assert not bool(one.step(2, second).taken)
    assert all(torch.equal(a, b) for a, b in zip(state_of(one), before, strict=True))
    assert bool(one.step(3, third).taken)
    assert not torch.equal(state_of(one)[0], before[0])


def test_ten_skipped_steps_in_a_row_end_the_training(trainer: Make, words: Any, monkeypatch: Patch) -> None:
    one = trainer("training.steps=60", "training.checkpoint_steps=2", run="runs/tiny")
    one.run.folder.mkdir(parents=True)

    def spoilt(update: AutogradUpdate, part: Batch, tokens: int) -> Tensor:
        sums = COMPUTE_PART(update, part, tokens)
        return sums * math.nan if one.progress.step in {3, 4} or one.progress.step >= 20 else sums

    monkeypatch.setattr(AutogradUpdate, "_part", spoilt)
    error = refused("10 consecutive steps up to step 30", one.train, lambda: False)
    assert (error.exit_code, one.progress.skipped) == (1, 12)
    assert any("skipped 1 of the steps before step 4, because" in line for line in words.said)
    assert '"skipped": 2' in one.run.log.read_text()


@pytest.mark.parametrize("clip", [1e-3, 1e6])
def test_gradients_are_clipped_to_a_norm(trainer: Make, clip: float) -> None:
    """After one step, the first moment is (1 - beta1) times the gradient."""
    moments = []
    for one in (trainer(), trainer(f"training.clip_norm={clip}")):
        one.step(1, inputs_of(one, 1)[0])
        moments.append(torch.cat([moment.flatten() for moment in first_moments(one)]) / 0.1)
    expected = moments[0] * min(1.0, clip / float(moments[0].norm()))
    torch.testing.assert_close(moments[1], expected, rtol=1e-4, atol=1e-9)


def test_step_that_exhausts_the_memory_is_split(trainer: Make, words: Any, monkeypatch: Patch) -> None:
    """A batch that fits only in quarters gives the same step. A single pair that does not fit is an error."""
    whole, split = trainer("architecture.dropout=0.0"), trainer("architecture.dropout=0.0")
    batch = inputs_of(whole, 1)[0]
    whole.step(1, batch)
    max_rows, errors = -(-len(batch) // 4), [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")]

    def small(update: AutogradUpdate, part: Batch, tokens: int) -> Tensor:
        if len(part) > max_rows:
            raise errors[0] if len(part) == len(batch) else errors[1]
        return COMPUTE_PART(update, part, tokens)

    monkeypatch.setattr(AutogradUpdate, "_part", small)
    split.step(1, batch)
    assert [line.split()[-2] for line in words.said] == ["2", "4"]
    # The order of the sums differs, and Adam divides by the root of tiny second moments.
    torch.testing.assert_close(first_moments(whole), first_moments(split), rtol=1e-4, atol=1e-7)
    max_rows = 0
    assert refused("does not fit in memory", split.step, 1, batch).exit_code == 1
    max_rows, errors = 1, [RuntimeError("shapes differ")] * 2
    with pytest.raises(RuntimeError, match="shapes differ"):
        split.step(1, batch)

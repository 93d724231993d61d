"""One update: what is not finite changes nothing, long gradients are cut, and a step that is too large is split."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from specs import ZooError
from zoo.data.batches import Batch
from zoo.generation import compilation
from zoo.training.step import Updater
from zoo.training.trainer import StepInput, Trainer

Made = Callable[..., Trainer]


def _state(trainer: Trainer) -> list[torch.Tensor]:
    """Weights, and moments and count of Adam where there are any."""
    parameters = list(trainer.program.parameters())
    moments = [t for p in parameters for t in trainer.update.optimiser.state.get(p, {}).values()]
    return [t.detach().clone() for t in (*parameters, *moments)]


def _works(trainer: Trainer, count: int) -> list[StepInput]:
    works = trainer.inputs()
    return [next(works) for _ in range(count)]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_a_step_that_is_not_finite_changes_nothing(
    trainer: Made, monkeypatch: pytest.MonkeyPatch, where: str, value: float
) -> None:
    one = trainer()
    first, second, third = _works(one, 3)
    assert bool(one.step(first).taken)
    before = _state(one)
    parts = Updater._part

    def spoilt(update: Updater, part: Batch, tokens: int) -> torch.Tensor:
        sums = parts(update, part, tokens)
        if where == "loss":
            return sums * value
        grad = update.parameters[-1].grad
        assert grad is not None
        grad.view(-1)[0] = value
        return sums

    with monkeypatch.context() as patch:
        patch.setattr(Updater, "_part", spoilt)
        assert not bool(one.step(second).taken)
    assert all(torch.equal(a, b) for a, b in zip(_state(one), before, strict=True))
    assert bool(one.step(third).taken)
    assert not torch.equal(_state(one)[0], before[0])


def test_a_run_skips_such_steps_counts_them_and_gives_up_after_ten(
    trainer: Made, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = trainer("training.steps=60", "training.checkpoint_steps=2", run="runs/tiny")
    one.run.folder.mkdir(parents=True)
    parts = Updater._part

    def spoilt(update: Updater, part: Batch, tokens: int) -> torch.Tensor:
        sums = parts(update, part, tokens)
        return sums * float("nan") if one.progress.step in {3, 4} or one.progress.step >= 20 else sums

    monkeypatch.setattr(Updater, "_part", spoilt)
    with pytest.raises(ZooError, match="10 steps in a row, to step 30") as caught:
        one.train(lambda: False)
    assert caught.value.exit_code == 1
    assert one.progress.skipped == 12
    assert any("1 of the steps up to 4 changed nothing" in line for line in words.said)
    assert '"skipped": 2' in one.run.log.read_text()


@pytest.mark.parametrize("clip", [1e-3, 1e6])
def test_gradients_are_cut_to_a_norm(trainer: Made, clip: float) -> None:
    """Against the first moment after one step, which is (1 - beta1) times the gradient that was taken."""
    plain, cut = trainer(), trainer(f"training.clip_norm={clip}")
    moments = []
    for one in (plain, cut):
        one.step(_works(one, 1)[0])
        state = one.update.optimiser.state
        moments.append(torch.cat([state[p]["exp_avg"].flatten() for p in one.update.parameters]) / 0.1)
    norm = moments[0].norm()
    expected = moments[0] * min(1.0, clip / float(norm))
    torch.testing.assert_close(moments[1], expected, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory")])
def test_a_step_too_large_for_the_memory_is_split(
    trainer: Made, words: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """A batch that fits only in quarters gives the step of one that fits whole; a pair that does not fit is an end."""
    whole, split = trainer("architecture.dropout=0.0"), trainer("architecture.dropout=0.0")
    work = _works(whole, 1)[0]
    whole.step(work)
    most = -(-len(work.batch) // 4)
    parts = Updater._part

    def small(update: Updater, part: Batch, tokens: int) -> torch.Tensor:
        if len(part) > most:
            raise error
        return parts(update, part, tokens)

    monkeypatch.setattr(Updater, "_part", small)
    split.step(work)
    assert [line.split()[-2] for line in words.said] == ["2", "4"]
    for a, b in zip(_state(whole), _state(split), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    most = 0
    with pytest.raises(ZooError, match="does not fit the memory") as caught:
        split.step(work)
    assert caught.value.exit_code == 1


def test_other_failures_are_not_taken_for_a_lack_of_memory(trainer: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    one = trainer()

    def broken(update: Updater, part: Batch, tokens: int) -> torch.Tensor:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Updater, "_part", broken)
    with pytest.raises(RuntimeError, match="shapes differ"):
        one.step(_works(one, 1)[0])


def test_a_row_with_nothing_to_predict_has_no_gradient(trainer: Made) -> None:
    one = trainer()
    nothing = Batch.empty()
    loss = one.program(nothing.source, nothing.target)
    loss.smoothed.backward()
    assert nothing.target_tokens == 0
    assert loss.smoothed.item() == loss.plain.item() == 0.0
    assert all(p.grad is None or not p.grad.any() for p in one.program.parameters())


def test_the_first_step_alone_is_waited_for(trainer: Made, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "QUIET_SECONDS", 0.0)
    begun: Any = trainer()
    works = begun.inputs()
    step = begun.update.step
    monkeypatch.setattr(begun.update, "step", lambda *given: (time.sleep(0.1), step(*given))[1])
    begun.step(next(works))
    assert words.said == []  # eager compiles nothing
    begun._compiles = True
    for _ in range(2):
        begun.step(next(works))
    assert words.said == [compilation.LAZY_MESSAGE]

"""`--verify-resume` passes if resuming is exact, and fails if it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

import specs
from compiler.host import matrix_libraries, matrix_library
from specs import Spec, ZooError
from zoo.files import manifest
from zoo.planning.training_estimate import TrainingEstimator
from zoo.system import timing
from zoo.system.timing import PassTiming
from zoo.training import resume_check
from zoo.training import run as run_module
from zoo.training.checkpoints import list_checkpoints
from zoo.training.run import Run
from zoo.training.train import train_steps


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_exact_resume_passes(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    """With another matrix library than the default, on two threads, and with sampled tokens."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    spec = world("training.subword_regularization=0.2")
    seconds = {matrix_library(): 2.0, matrix_libraries()[-1]: 1.0}
    timing.save_timing(spec, PassTiming("found", 10, 27, seconds, None, 1.0, 0.0))
    result = resume_check.verify_resume(spec, device="cpu")
    assert result.differing == ()
    assert len(result.kills) == resume_check.KILLS
    assert all(0 < step < resume_check.STEPS - 2 for step in result.kills)
    assert not Path("runs").exists()


def test_kill_follows_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Mock()
    monkeypatch.setattr(resume_check, "Timer", timers)
    progress, started = resume_check._KillingReport(2).progress("training", resume_check.STEPS, "steps"), []
    for _ in range(3):
        progress.advance(1)
        started.append(timers.call_count)
    assert started == [0, 1, 2]


def test_second_run_keeps_the_choices_of_the_first(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    """The matrix library is chosen by timing, and another one rounds differently."""
    identities = []

    def record(file: Path, run: Run, device: str, kill_after: int = 0) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(TrainingEstimator, "matrix_library", "the library of the first" if not identities else "")
            train_steps(specs.load(file), run.folder, device)
        identities.append(run.identity)

    monkeypatch.setattr(resume_check, "_run", record)
    monkeypatch.setattr(run_module, "matrix_libraries", lambda: ("the library of the first",))
    resume_check.verify_resume(world(), device="cpu")
    assert {identity.matrix_library for identity in identities} == {"the library of the first"}


@pytest.mark.integration
def test_wrong_resume_is_found(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill seems to lose the position in the data."""

    def spoilt(file: Path, run: Run, device: str, kill_after: int = 0) -> None:
        train_steps(specs.load(file, ["training.steps=4"] if kill_after else []), run.folder, device)
        for checkpoint in list_checkpoints(run) if kill_after else []:
            state = json.loads((checkpoint.folder / "state.json").read_text())
            (checkpoint.folder / "state.json").write_text(json.dumps({**state, "batch": 0, "epoch": 5}))
            (checkpoint.folder / "manifest.json").unlink()
            manifest.write(checkpoint.folder)

    monkeypatch.setattr(resume_check, "_run", spoilt)
    monkeypatch.setattr(resume_check, "KILLS", 1)
    result = resume_check.verify_resume(world(), device="cpu")
    assert "weights.safetensors" in result.differing


@pytest.mark.integration
def test_training_that_fails_is_reported(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume_check, "_PROGRAM", "raise SystemExit('error: it cannot be')")
    with pytest.raises(ZooError, match="error: it cannot be"):
        resume_check.verify_resume(world(), device="cpu")

"""`--verify-resume`: it passes where resuming is exact, and fails where it is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import specs
from compiler.switches import matrix_libraries, matrix_library
from specs import Spec, ZooError
from zoo.files import manifest
from zoo.system import calibration
from zoo.system.calibration import Calibration
from zoo.training import resume_check
from zoo.training.checkpoints import list_checkpoints
from zoo.training.run import Run
from zoo.training.train import train_steps


@pytest.mark.timeout(200)
def test_a_resumed_training_is_the_same(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    """By another library of products than is usual here, too, on two threads, and with tokens that are drawn."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    spec = world("training.subword_regularization=0.2")
    seconds = {matrix_library(): 2.0, matrix_libraries()[-1]: 1.0}
    calibration.save_calibration(spec, Calibration("found", 10, 27, seconds, None, 1.0, 0.0))
    verdict = resume_check.verify_resume(spec, device="cpu")
    assert verdict.differing == ()
    assert len(verdict.kills) == resume_check.KILLS
    assert all(0 < step < resume_check.STEPS - 1 for step in verdict.kills)
    assert not Path("runs").exists()


def test_the_last_step_is_not_waited_for_with_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be quicker than the one before, and then nothing would be killed."""
    most: list[float] = []
    monkeypatch.setattr(resume_check.random, "uniform", lambda least, greatest: most.append(greatest) or 0.0)
    monkeypatch.setattr(resume_check, "_kill", lambda seconds: None)
    for after in (2, resume_check.STEPS - 1):
        killing = resume_check._Killing(after)
        killing._started -= 0.5
        killing.advance(after)
    assert 0.5 <= most[0] <= 1.0
    assert most[1] == 0.0


def test_one_that_is_not_is_told(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a kill had lost the place in the data."""

    def spoilt(file: Path, run: Run, device: str, kill_after: int = 0) -> None:
        train_steps(specs.load(file, ["training.steps=4"] if kill_after else []), run.folder, device)
        for checkpoint in list_checkpoints(run) if kill_after else []:
            state = json.loads((checkpoint.folder / "state.json").read_text())
            (checkpoint.folder / "state.json").write_text(json.dumps({**state, "batch": 0, "epoch": 5}))
            (checkpoint.folder / "manifest.json").unlink()
            manifest.write(checkpoint.folder)

    monkeypatch.setattr(resume_check, "_run", spoilt)
    monkeypatch.setattr(resume_check, "KILLS", 1)
    verdict = resume_check.verify_resume(world(), device="cpu")
    assert "weights.safetensors" in verdict.differing


def test_a_training_that_fails_says_why(world: Callable[..., Spec], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume_check, "_PROGRAM", "raise SystemExit('error: it cannot be')")
    with pytest.raises(ZooError, match="error: it cannot be"):
        resume_check.verify_resume(world(), device="cpu")

"""A checkpoint's writing, cut short or out of disk at each of its operations on files: what resumes is whole."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from specs import Spec, ZooError
from zoo.report import Report
from zoo.training import checkpoints
from zoo.training.checkpoints import TrainingProgress, TrainingState, gather_state
from zoo.training.run import Run
from zoo.training.train import train
from zoo.training.trainer import Trainer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")

CHANGING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
_save_file = safetensors.torch.save_file
WHOLE, REFUSED, KILLED = 0, 3, 9


@pytest.fixture
def before_saving(world: Callable[..., Spec], trainer: Callable[..., Trainer]) -> Trainer:
    """After the last step of a run whose checkpoint is still to be written."""
    train(world("training.steps=12"), run="run")
    one = trainer("training.steps=16", run="run")
    one.progress = checkpoints.resume(one.run, one.program, one.update.optimiser, Report())
    for work in one.inputs():
        one.step(work)
        one.progress = TrainingProgress(step=work.place.step, epoch=work.place.epoch, batch=work.place.batch)
        if work.place.step == 16:
            break
    return one


@pytest.mark.parametrize("how", ["killed", "full"])
def test_at_every_operation(how: str, before_saving: Trainer, trainer: Callable[..., Trainer]) -> None:
    one, resumed = before_saving, trainer("training.steps=16")
    tensors = {16: _of(one)}
    twin = trainer("training.steps=16")
    checkpoints.resume(one.run, twin.program, twin.update.optimiser, Report())
    tensors[12] = _of(twin)
    seen = []
    for number in range(1, 200):
        shutil.rmtree("copy", ignore_errors=True)
        shutil.copytree("run", "copy")
        run = Run(Path("copy"))
        ended = _saved_in_a_child(run, one, tensors[16], how, number)
        step = checkpoints.resume(run, resumed.program, resumed.update.optimiser, Report()).step
        found = _of(resumed)
        for ours, theirs in ((found.weights, tensors[step].weights), (found.moments, tensors[step].moments)):
            assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items()), (number, step)
        seen.append((ended, step))
        if ended == WHOLE:
            break
    assert seen[-1] == (WHOLE, 16)
    assert {ended for ended, _ in seen[:-1]} == {KILLED if how == "killed" else REFUSED}
    assert seen[0][1] == 12
    assert len(seen) > 4
    left = [path.name for path in run.checkpoints.iterdir()]
    assert all(name.removeprefix("best-").isdigit() for name in left), left


def _of(trainer: Trainer) -> TrainingState:
    found = gather_state(trainer.program, trainer.update.optimiser, keep=True)
    assert found
    return found


def _saved_in_a_child(run: Run, one: Trainer, tensors: TrainingState, how: str, number: int) -> int:
    """Of a process that writes the checkpoint, and comes to grief at this operation."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = 0

    def come_to_grief(path: object) -> None:
        nonlocal count
        count += 1
        if count == number and how == "killed":
            os._exit(KILLED)
        if count == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if writes or (how == "killed" and event in CHANGING):
            come_to_grief(arguments[0])

    def save_file(tensors: dict[str, torch.Tensor], path: Path) -> None:
        """Python does not hear of what safetensors writes: half of the file is there already."""
        _save_file(tensors, path)
        os.truncate(path, path.stat().st_size // 2)
        come_to_grief(path)
        _save_file(tensors, path)

    try:
        safetensors.torch.save_file = save_file
        sys.addaudithook(hook)
        checkpoints.save_checkpoint(run, one.spec, tensors, one.progress)
    except ZooError as error:
        os._exit(REFUSED if "the disk is full" in str(error) else 4)
    except BaseException:
        os._exit(5)
    os._exit(WHOLE)

"""Checkpoints: resuming finds an undamaged one, however the last was interrupted, and outdated ones are removed."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from specs import ZooError
from tests.refusals import refused
from tests.unreadable import unreadable
from tests.zoo.training.conftest import Make, World
from zoo.report import Report
from zoo.training import checkpoints
from zoo.training.checkpoints import TrainingProgress, TrainingState, gather_state, list_checkpoints
from zoo.training.run import Run
from zoo.training.train import train
from zoo.training.trainer import Trainer

pytestmark = pytest.mark.integration
CHANGING = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
WHOLE, REFUSED, KILLED = 0, 3, 9
_save_file = safetensors.torch.save_file


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
@pytest.mark.parametrize("how", ["killed", "full disk"])
@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_interrupted_write_leaves_a_valid_checkpoint(how: str, stride: int, finished_run: Run, trainer: Make) -> None:
    one, resumed = trainer("training.steps=28", run=finished_run.folder), trainer("training.steps=28")
    one.progress = checkpoints.resume(one.run, one.program, one.train_step.optimiser, Report())
    states = {24: _state_of(one)}
    for number, (batch, position) in zip(range(25, 29), one.inputs(), strict=False):
        one.step(number, batch)
        one.progress = TrainingProgress(number, *position)
    states[28] = _state_of(one)
    outcomes = []
    for number in range(1, 200, stride):
        shutil.rmtree("copy", ignore_errors=True)
        run = Run(Path(shutil.copytree(finished_run.folder, "copy")))
        ended = _save_in_a_child(run, one, states[28], how, number)
        step = checkpoints.resume(run, resumed.program, resumed.train_step.optimiser, Report()).step
        actual, expected = _state_of(resumed), states[step]
        for ours, theirs in ((actual.weights, expected.weights), (actual.moments, expected.moments)):
            assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items()), (number, step)
        outcomes.append((ended, step))
        if ended == WHOLE:
            break
    assert (outcomes[0][1], outcomes[-1]) == (24, (WHOLE, 28))
    assert {ended for ended, _ in outcomes[:-1]} == {KILLED if how == "killed" else REFUSED}
    assert stride * len(outcomes) > 4
    left = [path.name for path in run.checkpoints.iterdir()]
    assert all(name.removeprefix("best-").isdigit() for name in left), left


def _state_of(trainer: Trainer) -> TrainingState:
    state = gather_state(trainer.program, trainer.train_step.optimiser, keep=True)
    return TrainingState(*({k: t.clone() for k, t in part.items()} for part in (state.weights, state.moments)))


def _save_in_a_child(run: Run, one: Trainer, state: TrainingState, how: str, number: int) -> int:
    """Fork a process that writes the checkpoint and is interrupted at one operation. Return its exit status."""
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    count = 0

    def interrupt(path: object) -> None:
        nonlocal count
        count += 1
        if count == number and how == "killed":
            os._exit(KILLED)
        if count == number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if writes or (how == "killed" and event in CHANGING):
            interrupt(arguments[0])

    def save_file(tensors: dict[str, torch.Tensor], path: Path) -> None:
        """Interrupt after half of the file: Python has no audit event for what safetensors writes."""
        _save_file(tensors, path)
        os.truncate(path, path.stat().st_size // 2)
        interrupt(path)
        _save_file(tensors, path)

    try:
        safetensors.torch.save_file = save_file
        sys.addaudithook(hook)
        checkpoints.save_checkpoint(run, one.spec, state, one.progress)
    except ZooError as error:
        os._exit(REFUSED if "the disk is full" in str(error) else 4)
    except BaseException:
        os._exit(5)
    os._exit(WHOLE)


@pytest.mark.parametrize("damage", ["flip weights.safetensors", "truncate optimiser.safetensors", "empty state.json"])
def test_damaged_checkpoint_is_reported_and_skipped(finished_run: Run, trainer: Make, words: Any, damage: str) -> None:
    one, newest = trainer(), list_checkpoints(finished_run)[-1].folder
    kind, file = damage.split()
    content = bytearray((newest / file).read_bytes())
    content[len(content) // 2] ^= 4
    (newest / file).write_bytes({"truncate": content[: len(content) // 2], "flip": content, "empty": b""}[kind])
    assert checkpoints.resume(finished_run, one.program, one.train_step.optimiser, words).step == 20
    assert any(file in line and "training resumes from an earlier checkpoint" in line for line in words.said)
    assert not newest.exists()


def test_unreadable_checkpoint_is_kept_and_only_damaged_ones_are_refused(finished_run: Run, world: World) -> None:
    newest = list_checkpoints(finished_run)[-1].folder
    with unreadable(newest / "manifest.json", PermissionError()):
        refused(r"you do not have permission to read .*manifest\.json", train, world("training.steps=28"))
    assert list_checkpoints(finished_run)[-1].folder == newest
    for checkpoint in list_checkpoints(finished_run):
        (checkpoint.folder / "weights.safetensors").write_bytes(b"")
    assert "--fresh" in str(refused("cannot resume from any checkpoint", train, world("training.steps=28")).hint)


def test_only_the_newest_two_checkpoints_keep_the_optimiser(finished_run: Run) -> None:
    kept = [(checkpoint.step, checkpoint.resumable) for checkpoint in list_checkpoints(finished_run)]
    assert kept == [(16, False), (20, True), (24, True)]

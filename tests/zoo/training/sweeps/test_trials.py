"""Trials of a sweep: finished ones are left, others resume, changed ones are refused, and failures are reported."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.paths import ROOT
from tests.refusals import refused
from zoo.training.sweeps.comparison import compare
from zoo.training.sweeps.trials import Trial, default_folder, make_rows, make_trials, train_all
from zoo.training.train import train

FOLDER = Path("runs/sweep")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(1200)]
Trials = Callable[..., tuple[Trial, ...]]


@pytest.fixture
def trials(own_specs: Path, monkeypatch: pytest.MonkeyPatch) -> Trials:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the processes that train
    return lambda *overrides, seeds=2: make_trials(make_rows(["own"], overrides), seeds, FOLDER)


def test_finished_trials_are_left_and_compared(trials: Trials, report: Any) -> None:
    keys = ("training.steps=4", "training.checkpoint_steps=2")
    four = trials(*keys)
    names = ["plain.seed1", "flat.seed1", "plain.seed2", "flat.seed2"]
    assert [(trial.name, trial.finished) for trial in four] == [(name, False) for name in names]
    for trial in four:
        train(trial.spec, run=trial.run.folder)
    assert all(trial.finished for trial in four)
    assert not train_all(four, jobs=2, device="cpu", report=report)
    assert report.said == ["runs: 4, of which 4 finished"]
    rows = make_rows(["own"], keys)
    result = compare(rows, make_trials(rows, 2, FOLDER), report)
    assert [(r.row.name, len(r.trials)) for r in result.results] == [("plain", 2), ("flat", 2)]
    (pair,) = result.pairs
    for name, sample in result.results[0].samples.items():
        assert sample.resampled.mean() == pytest.approx(sample.mean, abs=max(sample.half_interval, 1e-9)), name
        assert result.variances[name].degrees == 2
        assert pair.differences[name].value == pytest.approx(result.results[1].samples[name].mean - sample.mean)
    with four[0].run.locked():
        assert f"is already being trained by process {os.getpid()}" in str(four[0].lock_problem)
    four[0].run.lock.write_text("process 1 on a machine that was switched off\n")
    with patch("fcntl.flock", side_effect=OSError("no locks")):
        assert four[0].lock_problem is None
    assert not trials(*keys[1:], "training.steps=5")[0].finished, "it has one more step"
    assert "--folder DIR" in str(refused("started with a different spec", trials, "training.warmup_steps=11").hint)


@pytest.mark.slow
def test_each_command_line_trains_its_run(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of `--list` works with xargs and Slurm as README describes it."""
    both = trials("training.steps=2", "compilation.disabled_passes=[]", seeds=1)
    first, second = (f"{shlex.join(trial.command())}\n" for trial in both)
    zoo = Path("zoo")
    zoo.write_text(f'#!/bin/sh\nexec {sys.executable} -m zoo "$@"\n')
    zoo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    by_xargs = "tr '\\n' '\\0' < lines | xargs -0 -P 2 -n 1 sh -c 'eval \"$0\"'"
    by_line_number = 'eval "$(sed -n ${SLURM_ARRAY_TASK_ID}p lines)"'
    for command, lines in ((by_xargs, first), (by_line_number, first + second)):
        Path("lines").write_text(lines)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert all(trial.finished for trial in both)


@pytest.mark.slow
def test_stop_makes_each_run_write_its_checkpoint(trials: Trials) -> None:
    first, *_ = trials("training.steps=100000", seeds=1)
    command = [sys.executable, "-m", "zoo", "sweep", "own", "--folder", str(FOLDER), "training.steps=100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while process.poll() is None and not any(first.run.checkpoints.glob("*")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, first.lock_problem) == (-signal.SIGINT, None), output
    assert "plain.seed1: stopped at step" in output
    assert "flat.seed1" not in output


class StubTrial:
    """Trial whose process runs a script instead of a training."""

    def __init__(self, script: str, lock_problem: Callable[[], str | None] = lambda: None, name: str = "stub") -> None:
        self.name, self._lock_problem = name, lock_problem
        Path(f"{name}.py").write_text(script)

    def command(self, device: str) -> list[str]:
        return [self.name]

    @property
    def finished(self) -> bool:
        return Path(f"{self.name}.done").exists()

    @property
    def lock_problem(self) -> str | None:
        return self._lock_problem()


DONE = "import pathlib, sys\npathlib.Path(sys.argv[0]).with_suffix('.done').touch()\n"


def train_stubs(*stubs: Any, report: Any) -> int:
    return train_all(stubs, jobs=1, device="cpu", report=report)


def test_failure_is_reported_after_the_others_are_trained(tmp_path: Path, report: Any) -> None:
    broken, whole = StubTrial("raise SystemExit('error: out of luck')", name="broken"), StubTrial(DONE, name="whole")
    error = refused(r"1 of 2 runs failed:\n  broken: out of luck", train_stubs, broken, whole, report=report)
    assert (error.exit_code, whole.finished) == (1, True)
    assert "broken: error: out of luck" in report.said


def test_trial_that_another_process_trains_waits_for_its_end(tmp_path: Path, report: Any) -> None:
    problems = iter(["another process trains it"] * 4)
    first, second = StubTrial(DONE, lambda: next(problems, None), "locked"), StubTrial(DONE, name="free")
    assert train_stubs(first, second, report=report) == 0
    assert (first.finished, second.finished) == (True, True)
    assert report.said.count("waiting: another process trains it") == 1


def test_stop_during_the_start_of_a_process_stops_it(tmp_path: Path, report: Any) -> None:
    stub = StubTrial("import time\ntime.sleep(600)\n", lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert (train_stubs(stub, report=report), stub.finished) == (signal.SIGTERM, False)


def test_default_folder_is_named_after_that_of_the_specs(own_specs: Path) -> None:
    for given, folder in ((["table3"], "sweep-table3"), (["own"], "sweep"), (["base", "table3/a-h1"], "sweep")):
        assert default_folder(make_rows(given, [])) == Path("runs", folder)

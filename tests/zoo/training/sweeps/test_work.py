"""A sweep is a folder of runs: killed in the middle it goes on, what is done is left, what is changed is refused."""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from specs import ZooError
from zoo.report import Report
from zoo.training.run import IN_USE, Run
from zoo.training.sweeps.comparison import compare
from zoo.training.sweeps.rows import make_rows
from zoo.training.sweeps.trials import Trial, default_folder, make_trials, train_all
from zoo.training.train import train

ROOT = Path(__file__).parents[4]
FOLDER = Path("runs/sweep")
pytestmark = pytest.mark.timeout(1200)  # a dozen processes, each of which loads torch


@pytest.fixture
def trials(mine: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Trial, ...]]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the processes that train
    return lambda *overrides, seeds=2: make_trials(make_rows(["mine"], overrides), seeds, FOLDER)


def started(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "zoo", "sweep", "mine", "--folder", str(FOLDER), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_a_killed_sweep_goes_on_where_it_was(trials: Callable[..., tuple[Trial, ...]], report: Report) -> None:
    """Killed while the second of four runs trains; what is done is left, the second resumes, all are compared."""
    words = ["training.steps=60", "--seeds", "2"]
    several = trials("training.steps=60")
    assert [trial.name for trial in several] == ["plain.seed1", "flat.seed1", "plain.seed2", "flat.seed2"]
    for done in several[0], several[3]:
        train(done.spec, run=done.run.folder)
    process = started(*words)
    second = several[1].run.checkpoints
    while process.poll() is None and not (second.is_dir() and any(second.iterdir())):
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert [trial.finished for trial in several] == [True, False, False, True]
    before = several[0].run.weights.stat().st_mtime_ns

    assert train_all(several, jobs=2, device="cpu", report=report)
    told = "\n".join(report.said)  # type: ignore[attr-defined]
    assert "4 runs, 2 of them done" in told
    assert "plain.seed1:" not in told
    assert re.search(r"flat\.seed1: resuming at step \d+|flat\.seed1: there is nothing left to train", told)
    assert several[0].run.weights.stat().st_mtime_ns == before
    assert all(trial.finished for trial in several)
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(trial.name for trial in several)

    rows = make_rows(["mine"], ["training.steps=60"])
    found = compare(rows, make_trials(rows, 2, FOLDER), report)
    assert [(each.row.name, len(each.trials)) for each in found.standings] == [("plain", 2), ("flat", 2)]
    (pair,) = found.pairs
    for name, sample in found.standings[0].samples.items():
        assert sample.drawn.mean() == pytest.approx(sample.mean, abs=max(sample.half, 1e-9)), name
        assert found.spreads[name].degrees == 2
        assert pair.differences[name].value == pytest.approx(found.standings[1].samples[name].mean - sample.mean)


def test_a_run_whose_spec_has_changed_is_refused_before_any_is_trained(
    trials: Callable[..., tuple[Trial, ...]],
) -> None:
    first, *_ = trials()
    train(first.spec, run=first.run.folder)
    with pytest.raises(ZooError, match="begun with another spec") as caught:
        trials("training.warmup_steps=11")
    assert "--folder DIR" in str(caught.value.hint)
    assert first.finished
    assert not trials("training.steps=31")[0].finished, "it has a step to go"


def test_each_command_line_trains_its_run(
    trials: Callable[..., tuple[Trial, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `--list` prints, the first line given to xargs and the second to Slurm, by the README's own words."""
    several = trials("training.steps=2", "compilation.disabled_passes=[]", seeds=1)
    first, second = (f"{shlex.join(trial.command())}\n" for trial in several)
    Path("zoo").write_text(f'#!/bin/sh\nexec {sys.executable} -m zoo "$@"\n')
    Path("zoo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
    shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("<!-- others start them -->")[2].splitlines()
    by_xargs = next(line for line in shown if "xargs" in line)
    slurm = next(shlex.split(line) for line in shown if line.startswith("sbatch"))
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    for command, lines in ((by_xargs, first), (slurm[slurm.index("--wrap") + 1], first + second)):
        Path("lines").write_text(lines)
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert all(trial.finished for trial in several)


def test_one_that_fails_is_named_and_the_others_are_trained(
    trials: Callable[..., tuple[Trial, ...]], report: Report
) -> None:
    broken, whole = trials("training.steps=2", seeds=1)
    broken.run.folder.mkdir(parents=True)
    (broken.run.folder / "spec.yaml").mkdir()
    with pytest.raises(ZooError, match=r"1 of 2 runs failed:\n  plain\.seed1: ") as caught:
        train_all((broken, whole), jobs=1, device="cpu", report=report)
    assert caught.value.exit_code == 1
    assert whole.finished


class Stub:
    """A trial whose command line is a script."""

    def __init__(self, script: str, busy: Callable[[], str | None]) -> None:
        self.name, self._busy = "stub.seed1", busy
        Path("stub.py").write_text(script)

    def command(self, device: str) -> list[str]:
        return ["stub"]

    @property
    def finished(self) -> bool:
        return Path("done").exists()

    @property
    def busy(self) -> str | None:
        return self._busy()


def test_one_that_another_process_was_quicker_to_begin_is_tried_again(tmp_path: Path, report: Report) -> None:
    """Both found it free, and the lock is taken seconds later."""
    held = iter([None, *["another trains it"] * 3])
    script = "import pathlib, sys\nbegun = pathlib.Path('begun')\n"
    script += "if not begun.exists():\n    begun.touch()\n    sys.exit(2)\npathlib.Path('done').touch()\n"
    stub = Stub(script, lambda: next(held, None))
    assert train_all([stub], jobs=1, device="cpu", report=report)  # type: ignore[list-item]
    assert stub.finished


def test_one_that_says_that_another_process_trains_it_is_tried_again(tmp_path: Path, report: Report) -> None:
    """Though that one has ended by the time that we look."""
    script = "import pathlib, sys\nbegun = pathlib.Path('begun')\nif not begun.exists():\n    begun.touch()\n"
    script += f"    sys.exit('error: `x` {IN_USE} process 1')\npathlib.Path('done').touch()\n"
    stub = Stub(script, lambda: None)
    assert train_all([stub], jobs=1, device="cpu", report=report)  # type: ignore[list-item]
    assert stub.finished


def test_a_lock_that_cannot_be_asked_for_keeps_nobody_waiting(
    trials: Callable[..., tuple[Trial, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = trials()
    first.run.folder.mkdir(parents=True)

    def full(run: Run) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Run, "locked", full)
    assert first.busy is None


def test_a_stop_while_one_is_being_started_stops_it_too(tmp_path: Path, report: Report) -> None:
    stub = Stub("import pathlib, time\ntime.sleep(5)\npathlib.Path('done').touch()\n", lambda: _asked_to_stop())
    assert not train_all([stub], jobs=1, device="cpu", report=report)  # type: ignore[list-item]
    assert not stub.finished


def _asked_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_a_stop_lets_each_run_write_its_checkpoint(trials: Callable[..., tuple[Trial, ...]]) -> None:
    process = started("training.steps=100000")
    first, *_ = trials("training.steps=100000", seeds=1)
    while process.poll() is None and not (first.run.checkpoints.is_dir() and any(first.run.checkpoints.iterdir())):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "plain.seed1: stopped at step" in said
    assert "flat.seed1" not in said
    assert first.busy is None


def test_the_folder_is_called_by_that_of_the_specs(mine: Path) -> None:
    assert default_folder(make_rows(["table3"], [])) == Path("runs/sweep-table3")
    assert default_folder(make_rows(["mine"], [])) == Path("runs/sweep")
    assert default_folder(make_rows(["base", "table3/a-h1"], [])) == Path("runs/sweep")

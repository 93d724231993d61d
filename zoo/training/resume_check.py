"""`zoo train --verify-resume`: check that a killed and resumed training run ends with bitwise identical weights."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import specs
from compiler.host import tune_process
from specs import Spec, ZooError
from zoo.files.manifest import sha256
from zoo.report import Progress, Report
from zoo.training.checkpoints import OPTIMISER, WEIGHTS, Checkpoint, list_checkpoints
from zoo.training.initial_model import prepare_corpus
from zoo.training.run import Run
from zoo.training.train import train_steps

STEPS, CHECKPOINT_STEPS = 7, 2
"""Steps of the short training run, and steps between its checkpoints. The run ends between two checkpoints."""
KILLS = 2
"""Number of times that the second training run is killed."""

_PROGRAM = "import sys; from zoo.training.resume_check import _train; _train(*sys.argv[1:])"


@dataclass(frozen=True)
class ResumeResult:
    """Result of comparing a training run that was killed and resumed with one that was not."""

    steps: int
    kills: tuple[int, ...]
    """Steps after which the training run was killed."""
    differing: tuple[str, ...]
    """Files of the last checkpoint (weights, moments) that are not bitwise identical."""


def verify_resume(spec: Spec, *, device: str = "auto", report: Report | None = None) -> ResumeResult:
    """Train STEPS steps twice, without interruption and with KILLS kills at random moments. Compare the results.

    All training takes place in new processes, in a temporary folder.

    Raises:
        ZooError: A training run fails, or this process was started by torchrun.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ZooError("`--verify-resume` works in a single process", hint="run the command without torchrun")
    report = report or Report()
    prepare_corpus(spec, report)
    # Not in the last steps: the process must not end before it is killed.
    kills = sorted(random.sample(range(1, STEPS - 2), KILLS))
    with TemporaryDirectory(prefix="zoo-") as folder:
        file, whole, killed = Path(folder, "spec.yaml"), Run(Path(folder, "whole")), Run(Path(folder, "killed"))
        file.write_text(_short(spec).yaml(), encoding="utf-8")
        report.info(f"training {STEPS} steps without interruption")
        _run(file, whole, device)
        killed.folder.mkdir()
        for name in (whole.spec_file.name, whole.data.name):  # so that both runs use the same matrix library
            shutil.copy(whole.folder / name, killed.folder)
        for step in kills:
            report.info(f"training until the process is killed after step {step}")
            _run(file, killed, device, kill_after=step)
        report.info(f"resuming to step {STEPS}")
        _run(file, killed, device)
        first, second = (list_checkpoints(run)[-1] for run in (whole, killed))
        differing = tuple(name for name in (WEIGHTS, OPTIMISER) if _differ(first, second, name))
        return ResumeResult(STEPS, tuple(kills), differing)


def _short(spec: Spec) -> Spec:
    """Return the spec with STEPS steps, frequent checkpoints and no other limits."""
    changes: dict[str, int | None] = dict.fromkeys(("max_tokens", "dev_score", "patience"), None)
    changes |= {"steps": STEPS, "checkpoint_steps": CHECKPOINT_STEPS, "average": 1, "log_steps": 1}
    return spec.model_copy(update={"training": spec.training.model_copy(update=changes)})


def _run(file: Path, run: Run, device: str, kill_after: int = 0) -> None:
    """Train in a new process. It trains to the end, or kills itself after the step `kill_after` if that is not 0."""
    command = [sys.executable, "-c", _PROGRAM, str(file), str(run.folder), device, str(kill_after)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != (-signal.SIGKILL if kill_after else 0):
        last_line = (result.stderr.strip().splitlines() or ["no output"])[-1]
        hint = "run `zoo train` with this spec to see the whole output"
        raise ZooError(
            f"the short training run failed; its last line of output is: {last_line}", hint=hint, exit_code=1
        )


def _train(file: str, run: str, device: str, kill_after: str) -> None:
    """Train in this process, which `_run` has started with these command line arguments."""
    tune_process()
    train_steps(specs.load(file), run, device, _KillingReport(int(kill_after)))


class _KillingReport(Report, Progress):
    """Report that kills this process at a random moment after the step `kill_after`. 0 means never.

    This object is also the `Progress` that its method `progress` returns.
    """

    def __init__(self, kill_after: int) -> None:
        self._kill_after, self._done, self._start = kill_after, 0, time.monotonic()

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return self if label == "training" and self._kill_after else Progress()

    def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
        self._done += n
        now = time.monotonic()
        if n and self._done >= self._kill_after:
            delay = random.uniform(0, min(now - self._start, 1.0))
            Timer(delay, os.kill, [os.getpid(), signal.SIGKILL]).start()
        self._start = now


def _differ(first: Checkpoint, second: Checkpoint, name: str) -> bool:
    return first.step != second.step or sha256(first.folder / name) != sha256(second.folder / name)

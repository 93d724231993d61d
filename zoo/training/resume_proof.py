"""`zoo train --verify-resume`: a short training is killed and resumed, and must end as one that nothing happened to."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import specs
from specs import Spec, ZooError
from zoo.files.hashes import sha256
from zoo.report import Progress, Report
from zoo.system import ram
from zoo.training.checkpoint import OPTIMISER, WEIGHTS, Checkpoint, checkpoints
from zoo.training.run import Run
from zoo.training.start import prepared_for
from zoo.training.train import train_steps

STEPS, EVERY = 7, 2
"""Of the short training: it ends between two checkpoints."""
KILLS = 2

_PROGRAM = "import sys; from zoo.training.resume_proof import _train; _train(*sys.argv[1:])"


@dataclass(frozen=True)
class Verdict:
    """What came of it."""

    steps: int
    kills: tuple[int, ...]
    """The steps after which it was killed."""
    differing: tuple[str, ...]
    """Files of the last checkpoint (weights, moments) that are not the same, bit for bit."""


def verify_resume(spec: Spec, *, device: str = "auto", report: Report | None = None) -> Verdict:
    """Trains STEPS steps by this spec, twice: once as it is, once with a SIGKILL at KILLS random moments.

    All of it in processes of their own and in a folder that is removed again. Raises ZooError where one of them fails.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise ZooError("resuming is verified in one process", hint="say it without torchrun")
    report = report or Report()
    prepared_for(spec, report)
    kills = sorted(random.sample(range(1, STEPS - 1), KILLS))
    with TemporaryDirectory(prefix="zoo-") as folder:
        file, whole, killed = Path(folder, "spec.yaml"), Run(Path(folder, "whole")), Run(Path(folder, "killed"))
        file.write_text(_short(spec).yaml(), encoding="utf-8")
        report.say(f"training {STEPS} steps without a break")
        _run(file, whole, device)
        for step in kills:
            report.say(f"training until a kill after step {step}")
            _run(file, killed, device, kill_after=step)
        report.say(f"resuming to step {STEPS}")
        _run(file, killed, device)
        first, second = (checkpoints(run)[-1] for run in (whole, killed))
        return Verdict(
            STEPS, tuple(kills), tuple(name for name in (WEIGHTS, OPTIMISER) if _differ(first, second, name))
        )


def _short(spec: Spec) -> Spec:
    changes = {"steps": STEPS, "checkpoint_steps": EVERY, "checkpoint_minutes": None, "average": 1, "log_steps": 1}
    changes |= {"max_tokens": None, "max_minutes": None, "dev_score": None, "patience": None}
    return spec.model_copy(update={"training": spec.training.model_copy(update=changes)})


def _run(file: Path, run: Run, device: str, kill_after: int = 0) -> None:
    """Trains in a process of its own, to the end or to the kill."""
    command = [sys.executable, "-c", _PROGRAM, str(file), str(run.folder), device, str(kill_after)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != (-signal.SIGKILL if kill_after else 0):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ZooError(f"the short training failed: {last}", hint="`zoo train` says more", exit_code=1)


def _train(file: str, run: str, device: str, kill_after: str) -> None:
    """What that process does."""
    ram.keep_freed()
    train_steps(specs.load(file), run, device, _Killer(int(kill_after)))


class _Killer(Report):
    """Kills its own process in the step after the one it is told, or in what follows it; never after step 0."""

    def __init__(self, after: int) -> None:
        self._after = after

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return _Killing(self._after) if label == "training" and self._after else Progress()


class _Killing(Progress):
    def __init__(self, after: int) -> None:
        self._after, self._done, self._started = after, 0, time.monotonic()

    def advance(self, n: int = 1, **figures: float | str) -> None:
        self._done += n
        now = time.monotonic()
        if n and self._done >= self._after:
            # At the last step but one at once: the last might be quicker than any before it.
            most = 0 if self._done >= STEPS - 1 else min(now - self._started, 1.0)
            Thread(target=_kill, args=[random.uniform(0, most)], daemon=True).start()
        self._started = now


def _kill(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def _differ(first: Checkpoint, second: Checkpoint, name: str) -> bool:
    return first.step != second.step or sha256(first.folder / name) != sha256(second.folder / name)

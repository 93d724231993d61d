"""Progress of a run as another process sees it: the entries of its log, whether it is training, and the time left."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from specs import Spec, ZooError
from zoo.models.folder import RUNS
from zoo.training.checkpoints import TrainingProgress, list_checkpoints
from zoo.training.run import Run
from zoo.training.run_log import read_log

LogEntry = Mapping[str, Any]
_RECENT_ENTRIES = 10
"""The time left is estimated from the speed over this many entries."""


def log_entries(run: Run) -> list[LogEntry]:
    """Return the entries of a run's log in the order of their steps. If a step was repeated, its last entry counts."""
    entries: list[LogEntry] = []
    for line in read_log(run):
        while entries and entries[-1]["step"] >= line["step"]:
            entries.pop()
        entries.append(line)
    return entries


def metric_value(entry: LogEntry, key: str) -> float:
    """Return a metric of an entry. NaN if the entry lacks it, or if it is not a finite number."""
    value = entry.get(key)
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.nan
    return number if math.isfinite(number) else math.nan


@dataclass(frozen=True)
class RunStatus:
    """Progress of a run at one moment.

    Attributes:
        run: The run.
        spec: Its spec.
        entries: The entries of its log, in the order of their steps.
        trainer: The process that trains the run now, as `Run.trainer` describes it.
        age: Seconds since the log was last written. 0 if there is no log.
    """

    run: Run
    spec: Spec
    entries: Sequence[LogEntry]
    trainer: str | None
    age: float

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the status of the run in a folder.

        Raises:
            ZooError: The folder has no run, or its spec or its log cannot be read.
        """
        run = Run(folder)
        trainer = run.trainer  # before the log, so that a process that has just ended has written its last entry
        try:
            age = max(0.0, time.time() - run.log.stat().st_mtime)
        except FileNotFoundError:
            age = 0.0
        return cls(run, run.spec, log_entries(run), trainer, age)

    @property
    def name(self) -> str:
        """The name of the run: the path of its folder, relative to `runs/` if it is there."""
        folder = self.run.folder
        return (folder.relative_to(RUNS) if folder.is_relative_to(RUNS) else folder).as_posix()

    @cached_property
    def progress(self) -> Sequence[TrainingProgress]:
        """The progress at each entry, before the first entry first."""
        progress = [TrainingProgress()]
        for entry in self.entries:
            before, seconds = progress[-1], float(entry["seconds"])
            tokens = entry["target_tokens_per_second"] * max(0.0, seconds - before.seconds)
            progress.append(TrainingProgress(int(entry["step"]), seconds=seconds, tokens=before.tokens + round(tokens)))
        return progress

    @property
    def step(self) -> int:
        """The step of the last entry. 0 if there is none."""
        return self.progress[-1].step

    @property
    def fraction(self) -> float:
        """The finished fraction of the training, from 0 to 1, by the limit of the spec that will be reached first."""
        return min(1.0, self.progress[-1].finished_fraction(self.spec.training)[0])

    @property
    def seconds_left(self) -> float | None:
        """The estimated time until training ends, without the time for checkpoints. None if it cannot be estimated."""
        recent = self.progress[-1 - _RECENT_ENTRIES :]
        fractions = [each.finished_fraction(self.spec.training)[0] for each in recent]
        # A resumed run was slower or faster on another machine, but its training time is continuous.
        seconds = sum(max(0.0, later.seconds - earlier.seconds) for earlier, later in pairwise(recent))
        gained = fractions[-1] - fractions[0]
        return max(0.0, (1 - fractions[-1]) * seconds / gained - self.age) if gained > 0 else None

    @cached_property
    def end_reason(self) -> str | None:
        """Why training has ended. None if it has not."""
        checkpoints = list_checkpoints(self.run)
        return checkpoints[-1].progress.end_reason(self.spec.training) if checkpoints else None

    @property
    def description(self) -> str:
        """The state and the step of the run, for people."""
        steps = f"at step {self.step:,} of {self.spec.training.steps:,}"
        if self.trainer is not None and self.fraction == 1.0:
            return f"training has ended {steps}; the weights are being averaged and scored"
        if self.trainer is not None:
            return f"training, {steps} ({self.fraction:.0%})"
        return (
            f"training has ended {steps}" if self.end_reason else f"training was stopped {steps} ({self.fraction:.0%})"
        )


def no_entries_error(status: RunStatus) -> ZooError:
    """Return the error for a run whose log has no entry yet."""
    if status.trainer is None:
        hint = f"`zoo train {status.run.spec_file}` continues the run"
    else:
        hint = f"the first is written after {status.spec.training.log_steps:,} steps; `zoo watch {status.name}` waits"
    return ZooError(f"the log of `{status.name}` has no complete entry yet", hint=hint)

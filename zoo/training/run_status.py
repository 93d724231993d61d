"""Read the progress and the learning curves of training runs from their logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from specs import Spec, ZooError
from zoo.evaluation.metrics import DEV_TITLES, METRICS
from zoo.models.folder import RUNS
from zoo.report import Report
from zoo.training.checkpoints import TrainingProgress, list_checkpoints
from zoo.training.run import Run
from zoo.training.run_log import read_log
from zoo.visualization.curves_page import CurveMetric, RunCurves, finite

LogEntry = Mapping[str, Any]
_CURVE_METRICS = (
    CurveMetric("loss", "Training loss", "loss (nats per target token)", higher_is_better=False),
    CurveMetric("perplexity", "Training perplexity", "perplexity per token", log=True, higher_is_better=False),
    *(
        CurveMetric(
            f"dev_{metric.name}",
            DEV_TITLES[f"dev_{metric.name}"].capitalize().replace(metric.title.lower(), metric.title),
            f"{metric.title} per {metric.unit}" if metric.unit else f"{metric.title} (points)",
            log=math.isinf(metric.max_value),
            higher_is_better=metric.higher_is_better,
        )
        for metric in METRICS
    ),
    CurveMetric("learning_rate", "Learning rate", "learning rate"),
    CurveMetric("target_tokens_per_second", "Speed", "target tokens per second"),
)


@dataclass(frozen=True)
class RunStatus:
    """Progress of a run at one moment.

    Attributes:
        run: The run.
        spec: Its spec.
        entries: The entries of its log, in the order of their steps.
        trainer: The process that is training the run, as `Run.trainer` describes it.
    """

    run: Run
    spec: Spec
    entries: Sequence[LogEntry]
    trainer: str | None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the status of the run in a folder.

        Raises:
            ZooError: The folder has no run, or its spec or its log cannot be read.
        """
        run = Run(folder)
        trainer = run.trainer  # before the log, so that a process that has just ended has written its last entry
        return cls(run, run.spec, read_log(run), trainer)

    @property
    def name(self) -> str:
        """The name of the run: the path of its folder, without `runs/` at the beginning."""
        folder = self.run.folder
        return (folder.relative_to(RUNS) if folder.is_relative_to(RUNS) else folder).as_posix()

    @cached_property
    def progress(self) -> Sequence[TrainingProgress]:
        """The progress before the first entry, and then at each entry."""
        progress = [TrainingProgress()]
        for entry in self.entries:
            before, seconds = progress[-1], float(entry["seconds"])
            tokens = entry["target_tokens_per_second"] * max(0.0, seconds - before.seconds)
            progress.append(TrainingProgress(int(entry["step"]), seconds=seconds, tokens=before.tokens + round(tokens)))
        return progress

    @property
    def step(self) -> int:
        """The step of the last entry, or 0 if the log has no entry."""
        return self.progress[-1].step

    @property
    def fraction(self) -> float:
        """The finished fraction of training, from 0 to 1, relative to the limit that will be reached first."""
        return min(1.0, self.progress[-1].finished_fraction(self.spec.training)[0])

    @cached_property
    def end_reason(self) -> str | None:
        """The reason why training has ended. None if it has not ended."""
        checkpoints = list_checkpoints(self.run)
        return checkpoints[-1].progress.end_reason(self.spec.training) if checkpoints else None

    @property
    def description(self) -> str:
        """The state and the step of the run, for display."""
        steps = f"at step {self.step:,} of {self.spec.training.steps:,}"
        if self.trainer is not None and self.fraction == 1.0:
            return f"training has ended {steps}; the weights are being averaged and scored"
        if self.trainer is not None:
            return f"training, {steps} ({self.fraction:.0%})"
        if self.end_reason:
            return f"training has ended {steps}"
        return f"training was stopped {steps} ({self.fraction:.0%})"


def learning_curves(folders: Sequence[Path], report: Report) -> tuple[list[CurveMetric], list[RunCurves]]:
    """Read the learning curves of runs.

    Args:
        folders: The folders of the runs. Duplicates are ignored.
        report: Receives a warning for each run that has no log yet.

    Returns:
        The metrics for which at least one run has a value, and the runs with their values.

    Raises:
        ZooError: No run has an entry in its log, or a run cannot be read.
    """
    different: dict[Path, Path] = {}
    for folder in folders:
        different.setdefault(folder.resolve(), folder)
    statuses = [RunStatus.read(folder) for folder in different.values()]
    runs = [_run_curves(status) for status in statuses if status.entries]
    for status in statuses:
        if not status.entries:
            problem = f"the log of `{status.name}` has no complete entry yet"
            if not runs:
                steps = f"{status.spec.training.log_steps:,} steps"
                raise ZooError(problem, hint=f"`zoo train {status.run.spec_file}` writes the first after {steps}")
            report.warn(f"{problem}; the run is skipped")
    metrics = [metric for metric in _CURVE_METRICS if any(finite(run.values.get(metric.key, ())) for run in runs)]
    return metrics, runs


def _run_curves(status: RunStatus) -> RunCurves:
    values = {}
    for metric in _CURVE_METRICS:
        # Only the entries of checkpoints contain dev scores. Other entries are therefore not gaps in the curve.
        points = list[tuple[float, float, float]]()
        for entry in status.entries:
            if metric.key in entry:
                number = math.nan if entry[metric.key] is None else float(entry[metric.key])
                number = math.nan if metric.log and number <= 0 else number
                points.append((float(entry["step"]), float(entry["seconds"]), number))
        if points:
            values[metric.key] = tuple(points)
    return RunCurves(status.name, status.description, values)

"""Read the progress and the learning curves of training runs from their logs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from specs import ZooError
from zoo.evaluation.metrics import DEV_TITLES, METRICS
from zoo.models.folder import RUNS
from zoo.report import Report
from zoo.training.checkpoints import TrainingProgress, list_checkpoints
from zoo.training.run import Run
from zoo.training.run_log import read_log
from zoo.visualization.curves_page import CurveMetric, RunCurves, finite

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


class RunStatus:
    """Progress of a run at one moment.

    Attributes:
        run: The run.
        spec: Its spec.
        entries: The entries of its log, in the order of their steps.
        trainer: The process that is training the run, as `Run.trainer` describes it.
    """

    def __init__(self, folder: Path) -> None:
        """Read the status of the run in a folder.

        Raises:
            ZooError: The folder has no run, or its spec or its log cannot be read.
        """
        self.run = Run(folder)
        # Read this before the log, so that a process that has just ended has written its last entry.
        self.trainer = self.run.trainer
        self.spec = self.run.spec
        self.entries = read_log(self.run)

    @property
    def name(self) -> str:
        """The name of the run: the path of its folder, without `runs/` at the beginning."""
        folder = self.run.folder
        return (folder.relative_to(RUNS) if folder.is_relative_to(RUNS) else folder).as_posix()

    @property
    def progress(self) -> TrainingProgress:
        """The progress at the last entry of the log, or before the first step if the log has no entry."""
        progress = TrainingProgress()
        for entry in self.entries:
            seconds = float(entry["seconds"])
            tokens = entry["target_tokens_per_second"] * max(0.0, seconds - progress.seconds)
            progress = TrainingProgress(int(entry["step"]), seconds=seconds, tokens=progress.tokens + round(tokens))
        return progress

    @property
    def description(self) -> str:
        """The state and the step of the run, for display."""
        training, progress = self.spec.training, self.progress
        fraction = min(1.0, progress.finished_fraction(training)[0])
        steps = f"at step {progress.step:,} of {training.steps:,}"
        if self.trainer is not None and fraction == 1.0:
            return f"training has ended {steps}; the weights are being averaged and scored"
        if self.trainer is not None:
            return f"training, {steps} ({fraction:.0%})"
        checkpoints = list_checkpoints(self.run)
        if checkpoints and checkpoints[-1].progress.end_reason(training):
            return f"training has ended {steps}"
        return f"training was stopped {steps} ({fraction:.0%})"


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
    statuses = [RunStatus(folder) for folder in different.values()]
    runs = [_run_curves(status) for status in statuses if status.entries]
    for status in statuses:
        if not status.entries:
            problem = f"the log of `{status.name}` has no complete entry yet"
            if not runs:
                steps = f"{status.spec.training.log_steps:,} steps"
                raise ZooError(problem, hint=f"`zoo train {status.run.spec_file}` writes the first entry after {steps}")
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

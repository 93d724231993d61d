"""Read the progress and the learning curves of training runs from their logs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.evaluation.metrics import DEV_TITLES, METRICS
from zoo.models.folder import RUNS
from zoo.report import Report
from zoo.training.checkpoints import TrainingProgress, list_checkpoints
from zoo.training.run import Run
from zoo.training.run_log import read_log, with_seconds
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
    CurveMetric("target_tokens_per_second", "Speed (tokens/s)", "target tokens per second"),
)


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
    found = [(run, run_curves(run)) for run in map(Run, different.values())]
    runs = [curves for _, curves in found if curves.values]
    for run, curves in found:
        if not curves.values:
            problem = f"the log of `{curves.name}` has no complete entry yet"
            if not runs:
                steps = f"{run.spec.training.log_steps:,} steps"
                hint = f"run `zoo train {run.spec_file}`, which writes the first entry after {steps}"
                raise ZooError(problem, hint=hint)
            report.warn(f"{problem}; the run is skipped")
    metrics = [metric for metric in _CURVE_METRICS if any(finite(curves.values.get(metric.key, ())) for curves in runs)]
    return metrics, runs


def run_curves(run: Run) -> RunCurves:
    """Read the learning curves and the progress of a run.

    Raises:
        ZooError: The folder contains no run, or its spec or its log cannot be read.
    """
    # Read this before the log, so that a process that has just ended has written its last entry.
    is_training = run.is_training
    entries, values = read_log(run), {}
    for metric in _CURVE_METRICS:
        # Only the entries of checkpoints contain dev scores. Other entries are therefore not gaps in the curve.
        points = list[tuple[float, float, float]]()
        for entry in entries:
            if metric.key in entry:
                number = math.nan if entry[metric.key] is None else float(entry[metric.key])
                number = math.nan if metric.log and number <= 0 else number
                points.append((float(entry["step"]), float(entry["seconds"]), number))
        if points:
            values[metric.key] = tuple(points)
    name = run.folder.relative_to(RUNS) if run.folder.is_relative_to(RUNS) else run.folder
    return RunCurves(name.as_posix(), _describe(run, entries, is_training=is_training), values)


def _describe(run: Run, entries: Sequence[Mapping[str, Any]], *, is_training: bool) -> str:
    """Describe the state of a run in one phrase, such as "training was stopped at step 600 of 1,000 (60%)"."""
    training, step = run.spec.training, int(entries[-1]["step"]) if entries else 0
    tokens = sum(entry["target_tokens_per_second"] * seconds for entry, seconds in with_seconds(entries))
    fraction = min(1.0, TrainingProgress(step, tokens=round(tokens)).finished_fraction(training)[0])
    steps = f"at step {step:,} of {training.steps:,}"
    if is_training and fraction == 1.0:
        return f"training has ended {steps}; the weights are being averaged and scored"
    if is_training:
        return f"training, {steps} ({fraction:.0%})"
    checkpoints = list_checkpoints(run)
    if checkpoints and checkpoints[-1].progress.end_reason(training):
        return f"training has ended {steps}"
    return f"training was stopped {steps} ({fraction:.0%})"

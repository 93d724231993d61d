"""Learning curves of runs, from their logs, for `zoo curves`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from specs import ZooError
from zoo.evaluation.metrics import DEV_TITLES, METRICS
from zoo.report import Report
from zoo.training.run_status import RunStatus, metric_value, no_entries_error
from zoo.visualization.curves_page import CurveMetric, RunCurves, finite

_BEFORE_DEV = (
    CurveMetric("loss", "Training loss", "loss (nats per target token)", higher_is_better=False),
    CurveMetric("perplexity", "Training perplexity", "perplexity per token", log=True, higher_is_better=False),
)
_DEV = tuple(
    CurveMetric(
        f"dev_{metric.name}",
        DEV_TITLES[f"dev_{metric.name}"].capitalize().replace(metric.title.lower(), metric.title),
        f"{metric.title} per {metric.unit}" if metric.unit else f"{metric.title} (points)",
        log=math.isinf(metric.max_value),
        higher_is_better=metric.higher_is_better,
    )
    for metric in METRICS
)
_AFTER_DEV = (
    CurveMetric("learning_rate", "Learning rate", "learning rate"),
    CurveMetric("target_tokens_per_second", "Speed", "target tokens per second"),
)


def learning_curves(folders: Sequence[Path], report: Report) -> tuple[list[CurveMetric], list[RunCurves]]:
    """Read the learning curves of runs.

    Args:
        folders: The folders of the runs. A folder that is given twice counts once.
        report: Receives a warning for each run that has no log yet.

    Returns:
        The metrics of which at least one run has a value, and the runs with their values.

    Raises:
        ZooError: No run has an entry in its log, or a run cannot be read.
    """
    different: dict[Path, Path] = {}
    for folder in folders:
        different.setdefault(folder.resolve(), folder)
    runs: list[RunCurves] = []
    errors: list[ZooError] = []
    for folder in different.values():
        status = RunStatus.read(folder)
        if status.entries:
            runs.append(_run_curves(status))
        else:
            errors.append(no_entries_error(status))
    if not runs:
        raise errors[0]
    for error in errors:
        report.warn(f"{error.summary}; the run is left out")
    metrics = [
        metric
        for metric in (*_BEFORE_DEV, *_DEV, *_AFTER_DEV)
        if any(finite(run.values.get(metric.key, ())) for run in runs)
    ]
    return metrics, runs


def _run_curves(status: RunStatus) -> RunCurves:
    values = {}
    for metric in (*_BEFORE_DEV, *_DEV, *_AFTER_DEV):
        # Dev scores are only in the entries of checkpoints. An entry without a key is no gap.
        entries = [entry for entry in status.entries if metric.key in entry]
        numbers = [metric_value(entry, metric.key) for entry in entries]
        points = tuple(
            (float(entry["step"]), float(entry["seconds"]), math.nan if metric.log and number <= 0 else number)
            for entry, number in zip(entries, numbers, strict=True)
        )
        if points:
            values[metric.key] = points
    return RunCurves(status.name, status.description, values)

"""Scores of a model on a dev or test set, in the form that `scores.json` stores, and their presentation as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from specs import Task
from zoo.evaluation.metrics import METRICS, Metric, metrics_for

if TYPE_CHECKING:
    from zoo.evaluation.outputs import ModelOutputs

Scores = dict[str, Any]
"""The entries of each metric, in the order of METRICS, then the number of sentences and the speed.

Numbers that are NaN or infinite, which JSON cannot represent, are None.
"""

MACHINE_KEY = "machine"
"""Key in `scores.json` for the device, backend and precision with which the speed was measured."""


def compute_scores(outputs: ModelOutputs, task: Task) -> Scores:
    """Return a model's scores by all metrics of its task, and its speed in sentences per second."""
    scores: Scores = {}
    for metric in metrics_for(task):
        scores |= metric.compute(outputs)
    scores["sentences"] = sentences = len(outputs.references)
    if task.reads:
        scores |= {"seconds": outputs.seconds, "sentences_per_second": sentences / outputs.seconds}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in scores.items()
    }


def summary_line(scores: Scores) -> str:
    """Return the scores by the main metrics as one line of text."""
    metrics = [metric for metric in _present_metrics(scores) if metric.in_summary]
    return ", ".join(f"{m.title} {m.format_score(scores[m.name])}{m.unit and f' per {m.unit}'}" for m in metrics)


def table_rows(scores: Scores) -> Iterator[tuple[str, str]]:
    """Yield the title and the formatted value of each row in a table of scores. Signatures come last."""
    metrics = _present_metrics(scores)
    for metric in metrics:
        yield metric.title, f"{metric.format_score(scores[metric.name])}{metric.unit and f' per {metric.unit}'}"
        yield from ((title, metric.format_score(scores[name])) for name, title in metric.details.items())
        start = f"{metric.name}_"
        for name, score in scores.items():
            if name.startswith(start) and isinstance(score, float) and name not in metric.details:
                yield f"{metric.title}, {name.removeprefix(start).replace('_', ' to ')}", metric.format_score(score)
    yield "sentences", f"{scores['sentences']:,}" + (f" in {scores['seconds']:.1f} s" if "seconds" in scores else "")
    signed = [metric for metric in metrics if metric.signature in scores]
    for metric in signed:
        yield f"signature, {metric.title}" if len(signed) > 1 else "signature", scores[metric.signature]


def _present_metrics(scores: Scores) -> tuple[Metric, ...]:
    return tuple(metric for metric in METRICS if metric.name in scores)

"""The scores of a model on a set: flat, as scores.json has them, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoo.evaluation.metric import METRICS, Metric

Scores = dict[str, Any]
"""What each metric says, in their order, then the sentences and the time that they took.

A number that is not finite is None: JSON has no word for it.
"""


def in_words(scores: Scores) -> str:
    """The metrics on one line."""
    several = _metrics(scores)
    return ", ".join(f"{m.called} {m.written(scores[m.name])}{m.unit and f' per {m.unit}'}" for m in several)


def rows(scores: Scores) -> Iterator[tuple[str, str]]:
    """What each number is called, and the number; the signature last."""
    for metric in _metrics(scores):
        yield metric.called, f"{metric.written(scores[metric.name])}{metric.unit and f' a word {metric.unit}'}"
        yield from ((called, metric.written(scores[name])) for name, called in metric.details.items())
    yield "sentences", f"{scores['sentences']:,} in {scores['seconds']:.1f} s"
    yield "signature", scores["signature"]


def _metrics(scores: Scores) -> tuple[Metric, ...]:
    return tuple(metric for metric in METRICS if metric.name in scores)

"""The scores of a model on a set: flat, as scores.json has them, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zoo.evaluation.metric import METRICS, Metric

Scores = dict[str, Any]
"""What each metric says, in their order, then the sentences and the time that they took.

A number that is not finite is None: JSON has no word for it.
"""

MACHINE = "machine"
"""Under which name scores say on what the model was that fast, and by which backend: for people."""


def in_words(scores: Scores) -> str:
    """The metrics on one line, but for those that only a table needs."""
    several = [metric for metric in _metrics(scores) if metric.brief]
    return ", ".join(f"{m.called} {m.written(scores[m.name])}{m.unit and f' per {m.unit}'}" for m in several)


def rows(scores: Scores) -> Iterator[tuple[str, str]]:
    """What each number is called, and the number; the signatures last."""
    found = _metrics(scores)
    for metric in found:
        yield metric.called, f"{metric.written(scores[metric.name])}{metric.unit and f' a word {metric.unit}'}"
        yield from ((called, metric.written(scores[name])) for name, called in metric.details.items())
    yield "sentences", f"{scores['sentences']:,}" + (f" in {scores['seconds']:.1f} s" if "seconds" in scores else "")
    signed = [metric for metric in found if metric.signature in scores]
    for metric in signed:
        yield f"signature, {metric.called}" if len(signed) > 1 else "signature", scores[metric.signature]


def _metrics(scores: Scores) -> tuple[Metric, ...]:
    return tuple(metric for metric in METRICS if metric.name in scores)

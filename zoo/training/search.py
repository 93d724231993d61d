"""`zoo average --search`: how many checkpoints, and how far apart, make the best mean, by the dev set."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from compiler import find_device
from specs import ZooError
from zoo.evaluation.bootstrap import FloatArray, bootstrap_scores, difference_half_width
from zoo.evaluation.metrics import Metric
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.average import mean_of, require_whole, to_average
from zoo.training.checkpoint import Checkpoint
from zoo.training.dev import DevSet
from zoo.training.run import Run

COUNTS = (1, 2, 5, 10, 20)
"""Of checkpoints in a mean."""


class Choice(NamedTuple):
    """The last so many of every so-manieth checkpoint, the newest one first among them."""

    last: int
    every: int
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True)
class Scored:
    """A mean's score on the dev set, and what that has more than the best."""

    last: int
    every: int
    steps: tuple[int, ...]
    score: float
    more: float
    half: float | None
    """Half the interval of 95 % of that, by the sentences (paired bootstrap); None where the score has none."""

    @property
    def worse(self) -> bool:
        """Whether it is further from the best than chance would have it, or not finite."""
        return not math.isfinite(self.score) or (self.half is not None and abs(self.more) > self.half)


@dataclass(frozen=True)
class Curve:
    """The means of a run's checkpoints, from few to many."""

    metric: Metric
    means: tuple[Scored, ...]
    best: Scored
    """Of several that are alike the one of fewest checkpoints."""


def search(run: Run, *, device: str = "auto", report: Report | None = None) -> Curve:
    """Scores means of the checkpoints that a run has kept by its `training.dev_score`, and writes nothing.

    Raises ZooError where there is no checkpoint, where one is damaged, where the dev set cannot be had, or where no
    mean has a finite score.
    """
    report, spec = report or Report(), run.spec
    found = to_average(run)
    require_whole(run, found)
    dev = DevSet(spec, Vocabulary.load(run.folder), find_device(device), report)
    several = list(choices(found))
    scores: list[float] = []
    drawn: list[FloatArray | None] = []
    with report.progress("scoring means", len(several), "means") as shown:
        for choice in several:
            answers = dev.answers(mean_of([checkpoint.weights for checkpoint in choice.checkpoints]))
            scores.append(dev.metric.score(answers))
            drawn.append(bootstrap_scores(dev.metric.name, answers))
            shown.advance(1)
    finite = [index for index, score in enumerate(scores) if math.isfinite(score)]
    if not finite:
        problem = f"no mean of `{run.folder}`'s checkpoints has a finite dev {dev.metric.title}"
        raise ZooError(problem, hint="a reference of the dev set may hold a token that the model never writes")
    best = min(finite, key=lambda index: _better(dev.metric, scores, index))
    means = [
        Scored(
            choice.last,
            choice.every,
            tuple(sorted(checkpoint.step for checkpoint in choice.checkpoints)),
            score,
            score - scores[best],
            difference_half_width(dev.metric.name, score, drawn[best], own) if math.isfinite(score) else None,
        )
        for choice, score, own in zip(several, scores, drawn, strict=True)
    ]
    return Curve(dev.metric, tuple(means), means[best])


def choices(found: Sequence[Checkpoint]) -> Iterator[Choice]:
    """Of COUNTS all that there are, of every checkpoint, every second, every fourth, ... from the newest back."""
    newest, every = found[::-1], 1
    while every == 1 or len(newest[::every]) > 1:
        for count in COUNTS:
            chosen = newest[::every][:count]
            if len(chosen) == count and (count > 1 or every == 1):
                yield Choice(count, every, tuple(reversed(chosen)))
        every *= 2


def _better(metric: Metric, scores: Sequence[float], index: int) -> int:
    """How many are better than this one."""
    return sum(metric.is_better(score, scores[index]) for score in scores)

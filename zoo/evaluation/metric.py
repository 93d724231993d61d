"""What models are scored by: one protocol, and its members.

To add one: its file, its line here, its word in `training.dev_score`. No torch is loaded: `zoo list` asks only how a
score is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from specs import Task
from specs.spec import SCORES
from zoo.evaluation import bleu, chrf, f1, paper_bleu, perplexity, ter

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good outputs are: what it is called, which way is better, how it is computed."""

    name: str
    """In specs, in the log and in scores.json."""
    called: str
    """For people."""
    compute: Callable[[Answers], Mapping[str, float | str]]
    """The number under its name, and what else belongs to it: a signature, the `details`."""
    better_is: Literal["more", "less"] = "more"
    task: str | None = None
    """The kind of task that it is of; None for all."""
    forced: bool = False
    """Whether it follows from the probabilities of the references: nothing is put out for it."""
    most: float = 100.0
    """The largest that it can be; the least is 0."""
    decimals: int = 2
    unit: str = ""
    """What it is a mean over."""
    brief: bool = True
    """Whether it is told where there is one line for all."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Further numbers of the same kind that people read beside it: their names, and how they are called."""

    @property
    def signature(self) -> str:
        """Under which name the signature of what was computed stands, where there is one."""
        return f"{self.name}_signature" if self.name not in _FIRST else "signature"

    def score(self, answers: Answers) -> float:
        """The number alone."""
        return float(self.compute(answers)[self.name])

    def better(self, score: float, than: float | None) -> bool:
        """Whether a score is better than another, or the first one; one that is not finite never is."""
        if than is None or not math.isfinite(score):
            return math.isfinite(score)
        return score > than if self.better_is == "more" else score < than

    def written(self, score: Any) -> str:
        """For people; a dash where there is none."""
        return "-" if score is None else f"{score:.{self.decimals}f}"

    def known(self, scores: object) -> float | None:
        """Out of what scores.json says of a set; None where it says none, or what cannot be one."""
        found = scores.get(self.name) if isinstance(scores, Mapping) else None
        if not isinstance(found, int | float) or not 0 <= found < self.most * 1.00001:
            return None
        return min(self.most, found)  # a perfect score comes out a rounding above 100


METRICS = (
    Metric("bleu", "BLEU", bleu.computed, task="translation"),
    Metric("paper_bleu", "paper's BLEU", paper_bleu.computed, task="translation", brief=False),
    Metric("chrf", "chrF", chrf.computed, task="translation", brief=False),
    Metric("ter", "TER", ter.computed, better_is="less", task="translation", most=math.inf, brief=False),
    Metric("f1", "F1", f1.computed, task="parsing", details=f1.DETAILS),
    Metric(
        "perplexity",
        "perplexity",
        perplexity.computed,
        better_is="less",
        forced=True,
        most=math.inf,
        decimals=3,
        unit="token",
    ),
)
"""In the order in which they are told."""
_FIRST = {scores[0] for scores in SCORES.values()}
"""Their signatures have no first name: there was no other score when the first ones were written."""
ON_DEV = {f"dev_{metric.name}": f"dev {metric.called}" for metric in METRICS}
"""Figures of a training's log, and how they are called."""


def named(name: str) -> Metric:
    """The metric of this name."""
    return {metric.name: metric for metric in METRICS}[name]


def metrics_of(task: Task) -> tuple[Metric, ...]:
    """Those of a task; the first is what it is first asked for."""
    return tuple(metric for metric in METRICS if metric.task in (None, task.kind))

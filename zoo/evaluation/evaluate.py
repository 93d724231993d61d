"""A translator against references: the scores of its task, and its speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from zoo.evaluation.answers import Answers
from zoo.evaluation.metric import metrics_of
from zoo.evaluation.samples import samples
from zoo.evaluation.scores import Scores
from zoo.report import Report
from zoo.search.request import Choice
from zoo.translation.translator import Translator


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    report: Report,
    *,
    show: bool = False,
    **choice: Unpack[Choice],
) -> Scores:
    """The scores of the task that the translator is for; progress goes to `report`.

    With `show` it hears of some of the outputs, too.
    Raises ZooError where there are not as many references as sources, or none.
    """
    answers = Answers(translator, sources, references, report, **choice)
    if show:
        report.say(samples(sources, references, answers.outputs))
    scores: Scores = {}
    for metric in metrics_of(translator.spec.task):
        scores |= metric.compute(answers)
    scores |= {"sentences": len(sources), "seconds": answers.seconds}
    scores["sentences_per_second"] = len(sources) / answers.seconds
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in scores.items()
    }

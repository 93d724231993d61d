"""A translator against references: the scores of its task, and its speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Unpack

from specs import Task
from zoo.evaluation.answers import Answers
from zoo.evaluation.metric import metrics_of
from zoo.evaluation.scores import Scores
from zoo.generation.config import GenerationOptions
from zoo.generation.translator import Translator
from zoo.report import Report


def evaluate(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    report: Report,
    **choice: Unpack[GenerationOptions],
) -> Scores:
    """The scores of the task that the translator is for; progress goes to `report`.

    Raises ZooError where there are not as many references as sources, or none.
    """
    return scored(Answers(translator, sources, references, report, **choice), translator.spec.task)


def scored(answers: Answers, task: Task) -> Scores:
    """The scores of a task."""
    scores: Scores = {}
    for metric in metrics_of(task):
        scores |= metric.compute(answers)
    sentences = len(answers.sources)
    scores |= {"sentences": sentences, "seconds": answers.seconds}
    scores["sentences_per_second"] = sentences / answers.seconds
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in scores.items()
    }

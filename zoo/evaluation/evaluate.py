"""A translator against references: the scores of its task, and its speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from specs import ZooError
from zoo.evaluation.answers import Answers
from zoo.evaluation.bleu import Bleu, bleu
from zoo.evaluation.metric import metrics_of
from zoo.evaluation.samples import samples
from zoo.evaluation.scores import Scores
from zoo.report import Report
from zoo.search.request import Choice
from zoo.text.lines import read_lines
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


def evaluate_files(
    hypotheses: Path | str, references: Path | str, *, tokenize: str = "13a", lowercase: bool = False
) -> Bleu:
    """BLEU of one file against another, a sentence a line.

    Raises ZooError where they cannot be read, are not UTF-8, or differ in the number of their lines.
    """
    found, wanted = read_lines(hypotheses), read_lines(references)
    if len(found) != len(wanted):
        raise ZooError(
            f"`{hypotheses}` has {len(found):,} lines and `{references}` has {len(wanted):,}",
            hint="line n of the one is compared with line n of the other: both need as many lines",
        )
    return bleu(found, wanted, tokenize=tokenize, lowercase=lowercase)

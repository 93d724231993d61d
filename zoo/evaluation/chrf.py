"""chrF2: F-score of character n-grams (Popović 2015), which knows no words and so no tokenisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.evaluation.overlap import overlap

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it: in points."""
    found = overlap("CHRF", answers.outputs, answers.references)
    return {"chrf": found.score, "chrf_signature": found.signature}

"""TER: edits and shifts of words that make a translation its reference, a reference's word (Snover et al. 2006)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoo.evaluation.overlap import overlap

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it: edits in a hundred words, which may be more than a hundred."""
    found = overlap("TER", answers.outputs, answers.references)
    return {"ter": found.score, "ter_signature": found.signature}

"""Perplexity per word token, as in the paper's Table 3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specs import ZooError
from zoo.generation.scoring import TokenScores

if TYPE_CHECKING:
    from zoo.evaluation.answers import Answers


def perplexity(scores: Sequence[TokenScores]) -> float:
    """exp of the mean negative log-probability of a token, EOS counted, over all sentences together.

    Per token, so only comparable between models of one vocabulary. Raises ZooError where there is no token.
    """
    tokens = sum(score.tokens for score in scores)
    if not tokens:
        raise ZooError("there is nothing to score: no sentence")
    mean = -math.fsum(score.log_probability for score in scores) / tokens
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


def computed(answers: Answers) -> dict[str, float | str]:
    """As `scores.json` says it."""
    return {"perplexity": perplexity(answers.forced)}

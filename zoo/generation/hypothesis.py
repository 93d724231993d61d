"""One translation as the search finds it, and the length penalty that ranks it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specs import ZooError

LengthPenalty = Literal["gnmt", "power"]


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A finished translation in tokens.

    `tokens` carries neither BOS nor EOS; `log_probability` is the sum of the natural log-probabilities of
    the tokens and of EOS, if it has one; `score` is that sum divided by the length penalty (paper, section 6.1).
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float


def length_penalty(length: int, alpha: float, kind: LengthPenalty = "gnmt") -> float:
    """((5 + length) / 6) ** alpha (Wu et al. 2016, equation 14) or length ** alpha, where EOS counts in the length."""
    return float(length**alpha if kind == "power" else ((5 + length) / 6) ** alpha)


def require_usable(scores: Sequence[float]) -> None:
    """Raises ZooError where a sentence has no hypothesis, or one whose score is no finite number."""
    if not scores or not all(map(math.isfinite, scores)):
        raise ZooError(
            "the model's log-probabilities are not usable numbers (nan or -inf)",
            hint="`zoo verify NAME` checks a published model; a training may have diverged",
            exit_code=1,
        )

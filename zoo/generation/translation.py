"""What a translator gives back: a translation with its score, or the probability of a given one."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of a text, as text.

    `log_probability` is the natural logarithm of its probability, EOS counted if it was not cut off at the limit;
    `score` is that divided by the length penalty (paper, section 6.1); `tokens` are its word tokens, without BOS and
    EOS.
    """

    text: str
    score: float
    log_probability: float
    tokens: tuple[int, ...]


def joined(parts: Sequence[Translation]) -> Translation:
    """The translations of parts of a text, which follow one another, as one; its numbers are their sums."""
    return Translation(
        " ".join(part.text for part in parts if part.text),
        sum(part.score for part in parts),
        sum(part.log_probability for part in parts),
        tuple(token for part in parts for token in part.tokens),
    )


NOTHING = Translation("", 0.0, 0.0, ())
"""The translation of an empty text."""


@dataclass(frozen=True, slots=True)
class ForcedScore:
    """The natural log-probability that the model gives to each token of a given translation, EOS last."""

    token_log_probabilities: tuple[float, ...]

    @property
    def log_probability(self) -> float:
        """Of the whole translation."""
        return sum(self.token_log_probabilities)

    @property
    def tokens(self) -> int:
        """How many tokens were scored, EOS counted."""
        return len(self.token_log_probabilities)

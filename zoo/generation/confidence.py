"""Confidence in a translation: the probability that it is good, calibrated on the dev set.

A translation counts as good if its chrF against a reference translation is at least `GOOD_CHRF`. A logistic regression
predicts this from two features of the search result:

- the log-probability per character. It finds the worst translations better than the mean log-probability per token,
  because rare words consist of many tokens.
- the deviation of the length ratio (translation to source) from the usual ratio.

Attention features do not find more bad translations (see docs/benchmarks/everyday.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from specs import ZooError
from zoo.models.folder import ModelFolder

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64
    from numpy.typing import ArrayLike

CALIBRATION_KEY, ERROR_KEY = "confidence", "calibration_error"
"""Keys in `scores.json`: the calibration, which is fitted on the dev set, and the calibration error on each set."""
GOOD_CHRF = 50.0
"""Smallest chrF of a good translation."""
UNCERTAIN = 0.3
"""Confidence below which a translation is uncertain."""
_MIN_SENTENCES = 100
_MAX_NUMBER = 1e6
_ITERATIONS = 2000
_BINS = 10


@dataclass(frozen=True)
class Calibration:
    """Logistic regression that predicts the confidence in a translation.

    A higher log-probability never lowers the confidence.

    Attributes:
        intercept: Intercept (bias) of the regression.
        log_probability: Coefficient of the log-probability per character, at least 0.
        length: Coefficient of the squared difference between the log length ratio and `usual_ratio`, at most 0.
        usual_ratio: Median over the dev set of the log length ratio, log(translation length / source length).
    """

    intercept: float
    log_probability: float
    length: float
    usual_ratio: float

    @classmethod
    def fit(cls, translations: Sequence[tuple[str, str, float]], good: ArrayLike) -> Self | None:
        """Fit a calibration on translations of the dev set.

        Args:
            translations: Source, translation and log-probability of each sentence in the dev set.
            good: For each sentence, whether its translation is good (chrF of at least `GOOD_CHRF`).

        Returns:
            The calibration. None if there are fewer than `_MIN_SENTENCES` sentences.
        """
        if len(translations) < _MIN_SENTENCES:
            return None
        per_character, ratios = np.array([_features(*each) for each in translations]).T
        usual = float(np.median(ratios))
        columns = np.stack([np.ones(len(ratios)), per_character, (ratios - usual) ** 2], axis=1)
        for count in (3, 2, 1):  # omit features whose effect on this set has the wrong sign
            coefficients = np.zeros(3)
            coefficients[:count] = _logistic_regression(columns[:, :count], np.array(good))
            if coefficients[1] >= 0 >= coefficients[2]:
                break
        intercept, log_probability, length = coefficients.tolist()
        return cls(intercept, log_probability, length, usual)

    @classmethod
    def read(cls, folder: ModelFolder) -> Self | None:
        """Read the confidence calibration from a model folder. Return None if there is no valid calibration."""
        try:
            calibration = cls(**folder.known_scores["dev"][CALIBRATION_KEY])
            is_valid = all(abs(number) <= _MAX_NUMBER for number in astuple(calibration))  # false for NaN
        except (ZooError, OSError, LookupError, TypeError):
            return None
        return calibration if is_valid else None

    def confidence(self, source: str, translation: str, log_probability: float) -> float:
        """Return the estimated probability that a translation is good (chrF of at least `GOOD_CHRF`)."""
        per_character, ratio = _features(source, translation, log_probability)
        logit = self.intercept + self.log_probability * per_character + self.length * (ratio - self.usual_ratio) ** 2
        return round(0.5 + 0.5 * math.tanh(logit / 2), 4)


def calibration_error(confidences: Sequence[float], good: ArrayLike) -> float:
    """Return the expected calibration error over `_BINS` bins of equal width.

    In each bin, the mean confidence is compared with the fraction of good translations. Bins are weighted by size.
    """
    surplus = np.array(confidences) - np.array(good)
    bins = np.minimum((np.array(confidences) * _BINS).astype(int), _BINS - 1)
    return float(np.abs(np.bincount(bins, weights=surplus)).sum()) / len(surplus)


def _features(source: str, translation: str, log_probability: float) -> tuple[float, float]:
    """Return the log-probability per character, and log(translation length / source length).

    Each length is the number of characters plus 1 for the end of the text.
    """
    length = len(translation) + 1
    return log_probability / length, math.log(length / (len(source.strip()) + 1))


def _logistic_regression(
    columns: Float64[np.ndarray, "sentences features"], good: Bool[np.ndarray, " sentences"]
) -> Float64[np.ndarray, " features"]:
    """Return the maximum-likelihood coefficients of the logistic regression.

    The targets are slightly above 0 or slightly below 1 (Platt 1999), so that a maximum exists even if all translations
    are good. Newton's method uses a bound on the Hessian (Böhning and Lindsay 1988), so that each step improves the
    likelihood.
    """
    count = good.sum()
    targets = np.where(good, (count + 1) / (count + 2), 1 / (len(good) - count + 2))
    inverse = np.linalg.pinv(columns.T @ columns / 4)
    coefficients = np.zeros(columns.shape[1])
    for _ in range(_ITERATIONS):
        probabilities = 0.5 + 0.5 * np.tanh(columns @ coefficients / 2)
        coefficients += inverse @ (columns.T @ (targets - probabilities))
    return coefficients

"""Bootstrap resampling of a test set: how much of a score is due to the choice of sentences (Koehn 2004).

Each resampled set has as many sentences as the original, drawn with replacement. All systems are scored on the same
resampled sets, so that their scores can be compared set by set. sacreBLEU draws the same sets with its default seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zoo.evaluation.outputs import ModelOutputs
from zoo.evaluation.text_metrics import FloatArray, text_metric

SAMPLES = 1_000
"""Number of resampled sets."""
SEED = 12_345


def bootstrap_scores(metric: str, outputs: ModelOutputs) -> FloatArray | None:
    """Return the score of each resampled set.

    Args:
        metric: Name of the metric.
        outputs: Outputs of the model on the original set.

    Returns:
        The scores, [SAMPLES]. For perplexity, their natural logarithms. None if the metric is not `bleu`, `paper_bleu`
        or `perplexity`, or if it is BLEU and the set has several translation directions.
    """
    weights = sample_counts(len(outputs.sources))
    if metric in ("bleu", "paper_bleu") and len(outputs.rows_by_direction) == 1:
        ((_, language),) = outputs.rows_by_direction
        return text_scores_by_sample(metric, weights, outputs.texts, outputs.references, language)
    if metric == "perplexity":
        scores = outputs.reference_scores
        log_probabilities, tokens = [each.log_probability for each in scores], [each.tokens for each in scores]
        return log_perplexity_by_sample(weights, log_probabilities, tokens)
    return None


def difference_half_width(
    metric: str, score: float, first: FloatArray | None, second: FloatArray | None
) -> float | None:
    """Return half the width of the 95 % confidence interval of the difference between two systems' scores.

    The width is estimated from the standard deviation of the differences on the resampled sets.

    Args:
        metric: Name of the metric.
        score: Score of the second system on the original set.
        first: Result of `bootstrap_scores` for the first system.
        second: Result of `bootstrap_scores` for the second system.

    Returns:
        Half the width, or None if `first` or `second` is None.
    """
    if first is None or second is None:
        return None
    half = 1.96 * float(np.std(second - first, ddof=1))
    return score * half if metric == "perplexity" else half


def sample_counts(sentences: int) -> FloatArray:
    """Return how often each resampled set contains each sentence, [SAMPLES, sentences].

    All calls with the same number of sentences draw the same sets.
    """
    counts = np.empty((SAMPLES, sentences))
    draws = np.random.default_rng(SEED).choice(sentences, counts.shape)
    for row, indices in zip(counts, draws, strict=True):
        row[:] = np.bincount(indices, minlength=sentences)
    return counts


def interval_half_width(scores: FloatArray) -> float:
    """Return half the distance between the 2.5 % and the 97.5 % quantile of the scores."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(high - low) / 2


def p_value(difference: float, sample_differences: FloatArray) -> float:
    """Return the p-value: the probability of a difference at least this large if both systems were equally good.

    The differences on the resampled sets, shifted to a mean of 0, are the null distribution.

    Args:
        difference: Difference of the two systems' scores on the original set.
        sample_differences: Difference of their scores on each resampled set.
    """
    at_least_as_large = np.abs(sample_differences - sample_differences.mean()) >= abs(difference)
    return float(1 + at_least_as_large.sum()) / (1 + len(sample_differences))


def text_scores_by_sample(
    name: str, weights: FloatArray, outputs: Sequence[str], references: Sequence[str], language: str
) -> FloatArray:
    """Return the score of each resampled set by one of `TEXT_METRICS`, in points, [SAMPLES].

    Args:
        name: Name of the metric.
        weights: Result of `sample_counts`.
        outputs: Translations of a system.
        references: The reference of each translation.
        language: Language code of the translations.

    Raises:
        ZooError: The numbers of outputs and references differ, or are 0.
    """
    metric = text_metric(name, language)
    return metric.scores(weights @ metric.statistics(outputs, references))


def log_perplexity_by_sample(
    weights: FloatArray, log_probabilities: Sequence[float], tokens: Sequence[int]
) -> FloatArray:
    """Return the natural logarithm of the perplexity per token for each resampled set, [SAMPLES].

    Args:
        weights: Result of `sample_counts`.
        log_probabilities: Natural log-probability of each reference.
        tokens: Number of tokens of each reference, with EOS.
    """
    result: FloatArray = -(weights @ np.array(log_probabilities)) / (weights @ np.array(tokens, dtype=np.float64))
    return result

"""Bootstrap resampling of a test set: how much of a score is due to the choice of sentences (Koehn 2004).

Each resampled set has as many sentences as the original, drawn with replacement. All systems get the same sets, so that
differences are paired. The sets are those that sacreBLEU draws by its default seed.
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
    """Return the score of each resampled set. For perplexity, return natural logarithms.

    Return None for BLEU of several directions, and if the metric is not BLEU, the paper's BLEU or perplexity.
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
    """Return half the width of the 95 % confidence interval of the difference between two systems.

    It is estimated from the standard deviation of the differences. Return None if bootstrap scores are missing.

    Args:
        metric: Name of the metric.
        score: Score of the second system.
        first: Bootstrap scores of the first system.
        second: Bootstrap scores of the second system.
    """
    if first is None or second is None:
        return None
    half = 1.96 * float(np.std(second - first, ddof=1))
    return score * half if metric == "perplexity" else half


def sample_counts(sentences: int) -> FloatArray:
    """Return how often each sentence is in each resampled set, [SAMPLES, sentences]. All calls draw the same sets."""
    counts = np.empty((SAMPLES, sentences))
    draws = np.random.default_rng(SEED).choice(sentences, counts.shape)
    for row, indices in zip(counts, draws, strict=True):
        row[:] = np.bincount(indices, minlength=sentences)
    return counts


def interval_half_width(scores: FloatArray) -> float:
    """Return half the width of the interval that holds 95 % of the scores, by quantiles."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(high - low) / 2


def p_value(difference: float, sample_differences: FloatArray) -> float:
    """Return the p-value: the probability of a difference at least this large if both systems were equally good.

    The null distribution is the resampled differences shifted to mean 0.
    """
    at_least_as_large = np.abs(sample_differences - sample_differences.mean()) >= abs(difference)
    return float(1 + at_least_as_large.sum()) / (1 + len(sample_differences))


def text_scores_by_sample(
    name: str, weights: FloatArray, outputs: Sequence[str], references: Sequence[str], language: str
) -> FloatArray:
    """Return the score of each resampled set by one of `TEXT_METRICS`, in points.

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
    """Return the natural logarithm of the perplexity per token of each resampled set."""
    result: FloatArray = -(weights @ np.array(log_probabilities)) / (weights @ np.array(tokens, dtype=np.float64))
    return result

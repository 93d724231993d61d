"""Bootstrap resampling of a test set: how much of a score is due to the choice of sentences (Koehn 2004).

Each resampled set has as many sentences as the original, drawn with replacement. All systems get the same sets, so that
differences are paired. The sets are those that sacreBLEU draws by its default seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zoo.evaluation.outputs import ModelOutputs
from zoo.evaluation.text_metrics import bleu_options, check_lengths, moses_tokenizer, sacrebleu_metric

SAMPLES = 1_000
"""Number of resampled sets."""
SEED = 12_345
FloatArray = npt.NDArray[np.float64]
"""Counts of each sentence in each set, [SAMPLES, sentences], or a score for each set, [SAMPLES]."""


def bootstrap_scores(metric: str, outputs: ModelOutputs) -> FloatArray | None:
    """Return a metric's score on each resampled set; for perplexity its logarithm. None for other metrics."""
    weights = sample_counts(len(outputs.sources))
    match metric:
        case "bleu":
            return bleu_by_sample(weights, outputs.texts, outputs.references)
        case "paper_bleu":
            return paper_bleu_by_sample(weights, outputs.texts, outputs.references, outputs.language)
        case "perplexity":
            scores = outputs.reference_scores
            log_probabilities, tokens = [each.log_probability for each in scores], [each.tokens for each in scores]
            return log_perplexity_by_sample(weights, log_probabilities, tokens)
        case _:
            return None


def difference_half_width(
    metric: str, score: float, first: FloatArray | None, second: FloatArray | None
) -> float | None:
    """Return half the 95 % confidence interval of the difference between two systems, by its standard deviation.

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
    """Return how often each sentence is in each resampled set, [SAMPLES, sentences]. It depends on nothing else."""
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
    """Return the probability of a difference at least this large in either direction, if there were none.

    The null distribution is the resampled differences shifted to mean 0.
    """
    at_least_as_large = np.abs(sample_differences - sample_differences.mean()) >= abs(difference)
    return float(1 + at_least_as_large.sum()) / (1 + len(sample_differences))


def bleu_by_sample(weights: FloatArray, outputs: Sequence[str], references: Sequence[str]) -> FloatArray:
    """Return sacreBLEU's BLEU of each resampled set, in points.

    Raises:
        ZooError: The numbers of outputs and references differ, or are 0.
    """
    return _bleu_by_sample(weights, outputs, references, **bleu_options("13a", False), smooth_method="exp")


def paper_bleu_by_sample(
    weights: FloatArray, outputs: Sequence[str], references: Sequence[str], language: str
) -> FloatArray:
    """Return the paper's BLEU of each resampled set, in points; `language` is that of the outputs.

    Raises:
        ZooError: As `bleu_by_sample`.
    """
    tokenize = moses_tokenizer(language)
    tokenized = [[tokenize(text) for text in texts] for texts in (outputs, references)]
    return _bleu_by_sample(weights, *tokenized, **bleu_options("none", False), smooth_method="none")


def _bleu_by_sample(
    weights: FloatArray, outputs: Sequence[str], references: Sequence[str], **options: Any
) -> FloatArray:
    metric = sacrebleu_metric("BLEU", **options)
    return scores_from_statistics(metric, weights @ sentence_statistics(metric, outputs, references))


def sentence_statistics(metric: Any, outputs: Sequence[str], references: Sequence[str]) -> FloatArray:
    """Return the statistics that a metric of sacreBLEU sums over the sentences of a corpus, [sentences, statistics].

    Raises:
        ZooError: The numbers of outputs and references differ, or are 0.
    """
    check_lengths(outputs, references)
    return np.array(metric._extract_corpus_statistics([*outputs], [[*references]]), dtype=np.float64)


def scores_from_statistics(metric: Any, sums: FloatArray) -> FloatArray:
    """Return the score of each row of summed statistics, [sets, statistics]."""
    return np.array([metric._compute_score_from_stats(row).score for row in sums])


def log_perplexity_by_sample(
    weights: FloatArray, log_probabilities: Sequence[float], tokens: Sequence[int]
) -> FloatArray:
    """Return the natural logarithm of the perplexity per token of each resampled set."""
    result: FloatArray = -(weights @ np.array(log_probabilities)) / (weights @ np.array(tokens, dtype=np.float64))
    return result

"""Compare systems by bootstrap resampling of a test set (Koehn 2004).

The bootstrap shows how much a score depends on the choice of sentences. Each bootstrap sample has as many sentences as
the original set, drawn with replacement. All systems are scored on the same samples, so that their scores can be
compared sample by sample. sacreBLEU draws the same samples with its default seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

import numpy as np

from compiler.options import BackendOptions
from specs import METADATA_FIELDS, ZooError, difference
from specs.corpus import Split
from specs.notation import quote_in_full
from specs.sections import OUTPUT
from zoo.data.corpus import MissingFileError
from zoo.evaluation.evaluate import MissingSetError, read_split, resolve_language
from zoo.evaluation.metrics import get_metric
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs
from zoo.evaluation.text_metrics import (
    TEXT_METRICS,
    TRANSCRIPT_METRICS,
    TRANSLATION_METRICS,
    FloatArray,
    check_lengths,
    read_aligned,
    text_metric,
)
from zoo.generation.loading import open_model
from zoo.generation.translator import Translator
from zoo.report import Report

SIGNIFICANCE_LEVEL = 0.05
"""Differences with a p-value below this level are significant."""


@dataclass(frozen=True, slots=True)
class ComparedModels:
    """Result of comparing two models."""

    comparisons: tuple[Comparison, ...]
    sentences: int
    """Number of sentences in the dev or test set."""
    settings: tuple[str, ...]
    """Spec fields in which the models differ, with both values, such as "training.steps: 2000 and 500"."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of two systems, A and B, on one metric. Scores are in points, such as 27.3 BLEU."""

    metric: str
    scores: tuple[float, float]
    confidence: tuple[float, float]
    """Half the width of the 95% confidence interval of each score."""
    p: float
    """The p-value: the probability of a difference at least this large if both systems were equally good."""
    signature: str

    @property
    def difference(self) -> float:
        """The score of B minus the score of A."""
        return self.scores[1] - self.scores[0]

    @property
    def better(self) -> Literal["A", "B"] | None:
        """The significantly better system. None if the difference is not significant."""
        if self.p >= SIGNIFICANCE_LEVEL:
            return None
        return "B" if get_metric(self.metric).is_better(self.scores[1], self.scores[0]) else "A"


def compare(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[str],
    language: str | None,
    metrics: Sequence[str] = TRANSLATION_METRICS,
) -> tuple[Comparison, ...]:
    """Compare the outputs of two systems for the same inputs.

    Args:
        first: Outputs of system A.
        second: Outputs of system B.
        references: One reference for each input.
        language: Language code for the paper's BLEU. If None, the paper's BLEU is not computed.
        metrics: Names of the metrics, from `TEXT_METRICS`.

    Returns:
        One comparison per metric.

    Raises:
        ZooError: The numbers of outputs and references differ, or are 0.
    """
    names = [name for name in metrics if name != "paper_bleu" or language is not None]
    texts = EvaluationSet({OUTPUT: references}, [("", language or "")] * len(references))
    return tuple(_compare_by(name, texts, (first, second)) for name in names)


def compare_files(
    first: Path, second: Path, references: Path, *, language: str | None = None, transcripts: bool = False
) -> tuple[Comparison, ...]:
    """Compare two files with one output per line.

    Args:
        first: Outputs of system A.
        second: Outputs of system B.
        references: File with one reference per line.
        language: Language code for the paper's BLEU. If None, the suffix of the reference file is used.
        transcripts: Whether to compute WER and CER instead of the metrics for translations.

    Returns:
        One comparison per metric.

    Raises:
        ZooError: For the same reasons as in `evaluate_files`.
    """
    first_texts, targets = read_aligned(first, references)
    second_texts, _ = read_aligned(second, references)
    metrics = TRANSCRIPT_METRICS if transcripts else TRANSLATION_METRICS
    return compare(first_texts, second_texts, targets, resolve_language(language, references), metrics)


def compare_models(
    first: Path,
    second: Path,
    split: Split,
    *,
    max_batch_tokens: int | None = None,
    report: Report,
    **options: Unpack[BackendOptions],
) -> ComparedModels:
    """Compare the models in two folders by their outputs for the same dev or test set.

    Each model uses the beam size and the length penalty in its spec. If only one model's set is available on this
    machine, it is used for both models.

    Raises:
        ZooError: The models have different dev or test sets, the task of a model has no text metric, or a folder has no
            valid model.
    """
    translators = []
    for folder in (first, second):
        translator = open_model(folder, max_batch_tokens=max_batch_tokens, report=report, **options)
        if not any(name in TEXT_METRICS for name in translator.spec.scores):
            problem = (
                f"the task of `{folder}` is `{translator.spec.task.kind}`, but only models with a text metric such as "
                "BLEU can be compared"
            )
            raise ZooError(problem, hint=f"score the model with `zoo evaluate --model {folder}`")
        translators.append(translator)
    texts = _shared_set((first, second), translators, split, report)
    outputs = [ModelOutputs(each, texts, report).texts for each in translators]
    one, other = (each.spec for each in translators)
    differing = difference(other, one).items()
    settings = (
        f"{key}: {quote_in_full(a)} and {quote_in_full(b)}"
        for key, (a, b) in differing
        if key not in (*METADATA_FIELDS, "corpus.folder")
    )
    compared = tuple(_compare_by(name, texts, outputs) for name in one.scores if name in TEXT_METRICS)
    return ComparedModels(compared, len(texts.references), tuple(settings))


def _shared_set(
    folders: Sequence[Path], translators: Sequence[Translator], split: Split, report: Report
) -> EvaluationSet:
    """Return the dev or test set that two models share. If only one model's set is on this machine, return that one.

    Raises:
        ZooError: No set is on this machine, or the sets differ.
    """
    sets: list[EvaluationSet] = []
    for folder, each in zip(folders, translators, strict=True):
        try:
            sets.append(read_split(each.spec, split, report, each.vocabulary))
        except (MissingSetError, MissingFileError) as error:
            missing = error
            if isinstance(error, MissingFileError):  # the set of an imported model is not worth a message
                report.info(f"the {split} set of `{folder}` is not on this machine: {error.problem}")
    if not sets:
        raise missing
    if sets[0] != sets[-1]:
        raise ZooError(
            f"the {split} sets of `{folders[0]}` and `{folders[1]}` contain different sentences",
            hint="translate one set with both models (`zoo decode`), and compare the files "
            "(`zoo compare FILE FILE --references FILE`)",
        )
    return sets[0]


def _compare_by(name: str, texts: EvaluationSet, outputs: Sequence[Sequence[str]]) -> Comparison:
    a, b = (bootstrap(name, texts, each) for each in outputs)
    half_widths = interval_half_width(a.samples), interval_half_width(b.samples)
    p = p_value(b.score - a.score, b.samples - a.samples)
    return Comparison(name, (a.score, b.score), half_widths, p, a.signature)


@dataclass(frozen=True, slots=True, eq=False)
class BootstrapScores:
    """Scores of a system on a dev or test set and on bootstrap samples of the set, with the metric's signature."""

    score: float
    samples: FloatArray
    """Scores on the samples, [SAMPLES]."""
    signature: str


def bootstrap(name: str, texts: EvaluationSet, outputs: Sequence[str]) -> BootstrapScores:
    """Score a system on a dev or test set, and on bootstrap samples of the set.

    If there are several translation directions, each score is the mean over the directions, and samples are drawn from
    each direction separately.

    Args:
        name: Name of the metric, from `TEXT_METRICS`.
        texts: The dev or test set, with its references.
        outputs: Outputs of the system.

    Raises:
        ZooError: The numbers of outputs and references differ, or are 0.
    """
    check_lengths(outputs, texts.references)
    scores, signatures = [], dict[str, None]()
    for number, ((_, target), *pair) in enumerate(texts.texts_to_score(name, outputs)):
        metric = text_metric(name, target)
        statistics = metric.statistics(*pair)
        counts = sample_counts(len(statistics), SEED + number)
        scores.append(metric.scores(np.vstack([statistics.sum(0), counts @ statistics])))
        signatures[metric.signature(seed=SEED, bs=SAMPLES)] = None
    score, *samples = np.mean(scores, axis=0)
    return BootstrapScores(float(score), np.array(samples), " and ".join(signatures))


SAMPLES = 1_000
"""Number of bootstrap samples."""
SEED = 12_345


def sample_counts(sentences: int, seed: int = SEED) -> FloatArray:
    """Draw bootstrap samples. Return how often each sample contains each sentence, [SAMPLES, sentences].

    All calls with the same number of sentences and the same seed draw the same samples.
    """
    counts = np.empty((SAMPLES, sentences))
    draws = np.random.default_rng(seed).choice(sentences, counts.shape)
    for row, indices in zip(counts, draws, strict=True):
        row[:] = np.bincount(indices, minlength=sentences)
    return counts


def interval_half_width(scores: FloatArray) -> float:
    """Return half the distance between the 2.5% quantile and the 97.5% quantile of the scores."""
    low, high = np.quantile(scores, (0.025, 0.975))
    return float(high - low) / 2


def p_value(difference: float, sample_differences: FloatArray) -> float:
    """Return the p-value: the probability of a difference at least this large if both systems were equally good.

    The null distribution consists of the differences on the bootstrap samples, shifted to a mean of 0.

    Args:
        difference: Difference between the scores of the two systems on the original set.
        sample_differences: Difference between their scores on each bootstrap sample.
    """
    at_least_as_large = np.abs(sample_differences - sample_differences.mean()) >= abs(difference)
    return float(1 + at_least_as_large.sum()) / (1 + len(sample_differences))


def log_perplexity_by_sample(
    weights: FloatArray, log_probabilities: Sequence[float], tokens: Sequence[int]
) -> FloatArray:
    """Return the natural logarithm of the perplexity per token on each bootstrap sample, [SAMPLES].

    Args:
        weights: Result of `sample_counts`.
        log_probabilities: Natural log-probability of each reference.
        tokens: Number of tokens in each reference, including EOS.
    """
    result: FloatArray = -(weights @ np.array(log_probabilities)) / (weights @ np.array(tokens, dtype=np.float64))
    return result

"""Compare the rows of a sweep (its specs): their scores, and whether the differences are significant.

Scores vary for two reasons: a different seed gives different weights, and a dev set is a sample of sentences. The
variance between seeds is assumed to be the same for all rows and is pooled over all rows with several seeds. The
variance due to sentences comes from the paired bootstrap, applied to the mean over the seeds. A difference is
significant if it exceeds half the width of its 95% confidence interval. The interval accounts for both variances
(Student's t with degrees of freedom by Welch and Satterthwaite).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import fmean, variance

import numpy as np

import compiler
from specs import Spec
from zoo.evaluation.comparison import bootstrap, interval_half_width, log_perplexity_by_sample, sample_counts
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.outputs import load_outputs
from zoo.evaluation.text_metrics import FloatArray
from zoo.report import Report
from zoo.training.checkpoints import list_checkpoints
from zoo.training.sweeps.trials import SweepRow, Trial

METRICS = ("perplexity", "bleu", "paper_bleu")
"""Metrics that are compared. Perplexity is per token."""
LOG_METRICS = frozenset({"perplexity"})
"""Metrics whose natural logarithm is used for all calculations."""
_INFINITE_PERPLEXITY = 1e300  # replaces a perplexity that is not finite, which is stored as None
_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Quantiles of Student's t for two-sided 95% intervals, for 1, 2, ... degrees of freedom."""
_NORMAL = 1.96


class Verdict(StrEnum):
    """Whether the difference between two specs' scores confirms or contradicts the expected difference."""

    CONFIRMED = "confirmed"
    CONTRADICTED = "contradicted"
    NOISE = "within noise"
    UNTESTED = "untested (one seed)"


@dataclass(frozen=True, eq=False)
class ScoreSample:
    """Scores of one spec of a sweep on one metric: one score for each seed, and one for each bootstrap sample."""

    seeds: tuple[float, ...]
    """Score for each seed."""
    resampled: FloatArray
    """For each bootstrap sample of sentences, the mean score over the seeds."""

    @property
    def mean(self) -> float:
        """Mean score over the seeds."""
        return fmean(self.seeds)

    @property
    def half_interval(self) -> float:
        """Half the width of the interval that contains the scores of 95% of the bootstrap samples."""
        return interval_half_width(self.resampled)


@dataclass(frozen=True)
class SeedVariance:
    """Variance of scores between seeds, pooled over a sweep's specs. Both fields are 0 if each spec has one seed."""

    variance: float
    degrees: int
    """Degrees of freedom."""


@dataclass(frozen=True)
class Difference:
    """Difference between two specs' mean scores (second minus first), with its 95% confidence interval."""

    value: float
    half_interval: float
    """Half the width of the confidence interval."""
    tested: bool = True
    """Whether the variance between seeds is known. Otherwise, another seed could reverse the difference."""

    @property
    def beyond_noise(self) -> bool:
        """Whether the difference is significant: it was tested, and its confidence interval does not contain 0."""
        return self.tested and abs(self.value) > self.half_interval

    def verdict(self, expected: float) -> Verdict:
        """Return whether this difference confirms an expected difference. Only the sign of `expected` matters."""
        if not self.beyond_noise:
            return Verdict.NOISE if self.tested else Verdict.UNTESTED
        return Verdict.CONFIRMED if self.value * expected > 0 else Verdict.CONTRADICTED


@dataclass(frozen=True)
class RowResult:
    """Spec of a sweep (`row`) with the scores of its finished training runs (`trials`, one per seed)."""

    row: SweepRow
    trials: tuple[Trial, ...]
    parameters: int
    seconds: float
    """Training time, as the mean over the seeds."""
    samples: Mapping[str, ScoreSample]
    """Scores, keyed by the names of METRICS."""


@dataclass(frozen=True)
class RowPair:
    """Two specs of a sweep that can be compared. If one extends the other, `first` is the parent."""

    first: SweepRow
    second: SweepRow
    differences: Mapping[str, Difference]
    """Differences by metric. Perplexity is missing if the vocabularies differ."""


@dataclass(frozen=True)
class SweepComparison:
    """Results of all specs with a finished training run, and all pairs of these specs that can be compared."""

    results: tuple[RowResult, ...]
    pairs: tuple[RowPair, ...]
    variances: Mapping[str, SeedVariance]
    """Variance between seeds by metric."""


def compare(rows: Sequence[SweepRow], trials: Sequence[Trial], report: Report) -> SweepComparison:
    """Compare the specs of a sweep (`rows`) by their finished training runs. Raise ZooError if a run is damaged."""
    finished = [trial for trial in trials if trial.finished]
    by_row = [(row, tuple(trial for trial in finished if trial.row is row)) for row in rows]
    scored_rows = [(row, trials_of_row) for row, trials_of_row in by_row if trials_of_row]
    results = []
    with report.progress("bootstrap resampling", len(scored_rows), "rows") as progress:
        for row, trials_of_row in scored_rows:
            seconds = fmean(list_checkpoints(trial.run)[-1].progress.seconds for trial in trials_of_row)
            samples = _samples(row.spec, trials_of_row)
            results.append(RowResult(row, trials_of_row, compiler.parameters(row.spec), seconds, samples))
            progress.advance(1)
    variances = {name: seed_variance(result.samples[name] for result in results) for name in METRICS}
    return SweepComparison(tuple(results), tuple(row_pairs(results, variances)), variances)


def _samples(spec: Spec, trials: Sequence[Trial]) -> dict[str, ScoreSample]:
    texts = read_split(spec, "dev", Report())
    draws = sample_counts(len(texts.references))
    resampled: dict[str, list[FloatArray]] = {name: [] for name in METRICS}
    by_seed: dict[str, list[float]] = {name: [] for name in METRICS}
    for trial in trials:
        answers = load_outputs(trial.run.answers("dev"))
        outputs = [answer.output for answer in answers]
        scores = trial.run.known_scores["dev"]
        for name in ("bleu", "paper_bleu"):
            resampled[name].append(bootstrap(name, texts, outputs).samples)
            by_seed[name].append(float(scores[name]))
        logs, tokens = [answer.log_probability for answer in answers], [answer.tokens for answer in answers]
        resampled["perplexity"].append(log_perplexity_by_sample(draws, logs, tokens))
        by_seed["perplexity"].append(math.log(scores["perplexity"] or _INFINITE_PERPLEXITY))
    return {name: ScoreSample(tuple(by_seed[name]), np.mean(resampled[name], axis=0)) for name in METRICS}


def row_pairs(results: Sequence[RowResult], variances: Mapping[str, SeedVariance]) -> Iterator[RowPair]:
    """Yield the pairs of specs to compare.

    A pair consists of a spec and its parent, of two specs that change the same fields of their parent, or of two specs
    without a parent in the sweep. Specs with different corpora are not compared.
    """
    groups: dict[tuple[str | None, tuple[str, ...]], list[RowResult]] = {}
    by_name = {result.row.name: result for result in results}
    for result in results:
        row = result.row
        parent = [by_name[row.parent]] if row.parent in by_name else []
        groups.setdefault((row.parent, (*row.changes,)), parent).append(result)
    for members in groups.values():
        for first, second in combinations(members, 2):
            if first.row.spec.corpus == second.row.spec.corpus:
                yield RowPair(first.row, second.row, _differences(first, second, variances))


def _differences(first: RowResult, second: RowResult, variances: Mapping[str, SeedVariance]) -> dict[str, Difference]:
    """Return the differences between two specs' scores, by metric. Omit perplexity if the vocabularies differ."""
    same_tokens = first.row.spec.vocabulary == second.row.spec.vocabulary
    names = [name for name in METRICS if same_tokens or name != "perplexity"]
    return {name: difference(first.samples[name], second.samples[name], variances[name]) for name in names}


def seed_variance(samples: Iterable[ScoreSample]) -> SeedVariance:
    """Return the variance of scores between seeds, pooled over all samples (one per spec)."""
    groups = [sample.seeds for sample in samples if len(sample.seeds) > 1]
    degrees = sum(len(seeds) - 1 for seeds in groups)
    total = sum((len(seeds) - 1) * variance(seeds) for seeds in groups)
    return SeedVariance(total / degrees if degrees else 0.0, degrees)


def difference(first: ScoreSample, second: ScoreSample, seeds: SeedVariance) -> Difference:
    """Return the difference between two specs' scores on the same sentences, with its confidence interval."""
    by_seeds = seeds.variance * (1 / len(first.seeds) + 1 / len(second.seeds))
    by_sentences = float(np.var(second.resampled - first.resampled, ddof=1))
    total = by_seeds + by_sentences
    degrees = seeds.degrees * (total / by_seeds) ** 2 if by_seeds else math.inf
    return Difference(second.mean - first.mean, t_quantile(degrees) * math.sqrt(total), tested=seeds.degrees > 0)


def t_quantile(degrees: float) -> float:
    """Return the quantile of Student's t for a two-sided 95% interval with `degrees` degrees of freedom."""
    if degrees >= len(_T):
        return _NORMAL + 2.46 / degrees
    return _T[max(1, int(degrees)) - 1]

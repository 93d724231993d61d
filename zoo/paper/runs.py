"""Measurements, and functions that check the paper's claims against measurements.

Measurements are training runs with their specs, logs and scores, and the sizes of corpora. A function that checks a
claim takes the claim, the measurements, and the arguments that follow its name in `claims.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import specs
from specs import METADATA_FIELDS, Spec, ZooError, difference
from specs.corpus import SPLITS
from zoo.data.corpus import CorpusReader
from zoo.data.prepare import known_counts
from zoo.evaluation.metrics import Metric, get_metric
from zoo.models.find import all_runs
from zoo.models.folder import RUNS, ModelFolder
from zoo.paper.claims import CheckedClaim, Claim, Status
from zoo.report import Report
from zoo.training.run_log import TrainingRecord, training_record

_IGNORED_FIELDS = (
    *(*METADATA_FIELDS, "decoding.workers", "compilation", "training.seed", "training.log_steps"),
    *("corpus.source", "corpus.target", "corpus.folder", "corpus.train", "corpus.dev", "corpus.test"),
    *("training.steps", "training.checkpoint_steps", "training.max_tokens", "training.patience"),
    *("training.dev_score", "training.accumulation_steps"),
)
"""Spec fields that `RunResults.scale` does not list. They do not affect scores, or `scale` covers them with the corpus
and the number of steps."""


@dataclass(frozen=True)
class RunResults:
    """Spec, scores and training log of a training run."""

    folder: str
    spec: Spec
    shipped: Spec | None
    """Shipped spec with the same name, for comparison with the run. None if there is no such spec."""
    scores: dict[str, Any]
    weights: bool
    """Whether the run folder has weights to translate with."""
    record: TrainingRecord | None

    def score(self, split: str, metric: Metric) -> float | None:
        """Return the run's score for a metric on the dev or test set, or None if the run has no such score."""
        return metric.read_score(self.scores.get(split))

    @cached_property
    def _differing(self) -> dict[str, tuple[Any, Any]]:
        fields = difference(self.spec, self.shipped) if self.shipped else {}
        ignored = _IGNORED_FIELDS
        return {k: pair for k, pair in fields.items() if k not in ignored and k.partition(".")[0] not in ignored}

    @property
    def distance(self) -> int:
        """Number of differences between the run and the shipped spec of the same name."""
        shipped = self.shipped
        other_steps = self.record is None or shipped is None or self.record.steps != shipped.training.steps
        return len(self._differing) + other_steps + bool(self._other_sets)

    @property
    def scale(self) -> str:
        """Description of the run: its differences from the shipped spec, its corpus and its number of steps."""
        changed = [f"{key.rpartition('.')[2]}={new}" for key, (_, new) in self._differing.items()]
        steps = [f"{self.record.steps:,} steps"] if self.record else []
        # A different training set implies different dev and test sets, so these are not listed.
        sets = [f"a different {part} set" for part in self._other_sets if "train" not in self._other_sets]
        return ", ".join([*changed, f"on {CorpusReader(self.spec, Report()).short_name}", *sets, *steps])

    @cached_property
    def _other_sets(self) -> tuple[str, ...]:
        """Splits ("train", "dev", "test") for which the run and the shipped spec use different data."""
        ours, theirs = self.spec.corpus, self.shipped and self.shipped.corpus
        return tuple(part for part in SPLITS if getattr(ours, part) != getattr(theirs, part, None))


@dataclass(frozen=True)
class Measurements:
    """All training runs in the folder `root`."""

    root: Path
    runs: tuple[RunResults, ...]

    def of(self, spec: str) -> tuple[RunResults, ...]:
        """Return the training runs of a shipped spec, given its short name. Runs with overrides are included."""
        name = specs.load(spec).name
        return tuple(run for run in self.runs if run.spec.name == name)


def read_measurements(root: Path | None, report: Report) -> Measurements:
    """Read all training runs in a folder. Skip damaged runs with a warning.

    Args:
        root: The folder. The default is `runs/`.
        report: Receives the warnings.

    Raises:
        ZooError: `root` is given but does not exist.
    """
    if root is not None and not root.is_dir():
        hint = "select a folder of training runs, or of a sweep, with `--runs DIR`"
        raise ZooError(f"there is no folder `{root}`", hint=hint)
    shipped = {spec.name: spec for spec in map(specs.load, specs.names())}
    runs = []
    for run in map(ModelFolder, all_runs(root or RUNS)):
        try:
            spec = run.spec
            contents = run.known_scores, run.trained, training_record(run, spec)
            runs.append(RunResults(run.folder.as_posix(), spec, shipped.get(spec.name), *contents))
        except ZooError as error:
            report.warn(error.summary)
    return Measurements(root or RUNS, tuple(runs))


def score(claim: Claim, measurements: Measurements, split: str, *metrics: str) -> CheckedClaim:
    """Report the scores of training runs with the claim's spec.

    The function does not judge whether a score is close to the paper's score. It reports how the runs differ from the
    paper's runs, so that readers can judge.

    Args:
        claim: The claim to check.
        measurements: The training runs.
        split: Split that was scored: "dev" or "test".
        metrics: Names of metrics. The metric for which most runs have a score is used. In a tie, the first metric is
            used.
    """
    runs = measurements.of(claim.spec)
    comparable = _comparable_runs(runs, split, [get_metric(name) for name in metrics])
    if comparable is None:
        return CheckedClaim(claim, Status.OPEN, _reason_for_no_score(claim.spec, measurements, runs, split))
    metric, chosen, scale = comparable
    values = [run.score(split, metric) or 0.0 for run in chosen]
    spread = f" ({metric.format_score(min(values))} to {metric.format_score(max(values))})" if len(values) > 1 else ""
    folders = chosen[0].folder if len(chosen) == 1 else f"{len(chosen)} runs, the first {chosen[0].folder}"
    mean = fmean(values)
    return CheckedClaim(
        claim,
        Status.MEASURED,
        f"{metric.title} of {folders}: {scale}",
        mean,
        f"{metric.format_score(mean)}{spread}",
        tuple(run.folder for run in chosen),
    )


def corpus_size(claim: Claim, measurements: Measurements) -> CheckedClaim:
    """Check whether the corpus of the claim's spec has as many sentence pairs as the paper reports.

    If the corpus has not been prepared on this machine, report the claim as not tested.
    """
    spec = specs.load(claim.spec)
    if missing := CorpusReader(spec, Report()).missing_part():
        return CheckedClaim(claim, Status.OPEN, missing)
    counts = known_counts(spec)
    if counts is None:
        reason = f"its corpus is available, but `zoo prepare {claim.spec}` has not been run"
        return CheckedClaim(claim, Status.OPEN, reason)
    words, number = f"pairs in the corpus of {claim.spec}, prepared here", f"{counts.read:,}"
    if all(printed.agrees(counts.read) for printed in claim.printed):
        return CheckedClaim(claim, Status.MEASURED, words, counts.read, number)
    return CheckedClaim(claim, Status.DIFFERENT, f"{number} {words}", counts.read, number)


def gpu(claim: Claim, measurements: Measurements, name: str) -> CheckedClaim:
    """Report a claim as not tested, because it is about the speed of the GPU `name`."""
    return CheckedClaim(claim, Status.OPEN, f"needs a {name}, and is not measured here")


def figure(claim: Claim, measurements: Measurements, number: str) -> CheckedClaim:
    """Report a claim about a figure as not tested, because readers must judge it by eye.

    If there is a trained model, give the command that draws the figure with this model.
    """
    trained = [run for run in measurements.of(claim.spec) if run.weights]
    if not trained:
        return CheckedClaim(claim, Status.OPEN, _reason_for_no_score(claim.spec, measurements, (), "test"))
    how = f"readers must judge the figure: `zoo attend --model {trained[0].folder} --figure {number}` draws it"
    return CheckedClaim(claim, Status.OPEN, how, runs=tuple(run.folder for run in trained))


def _comparable_runs(
    runs: Sequence[RunResults], split: str, metrics: Sequence[Metric]
) -> tuple[Metric, tuple[RunResults, ...], str] | None:
    """Choose training runs whose scores can be averaged, because their corpus and all relevant settings are equal.

    If there are several groups of such runs, choose the group with the fewest differences from the shipped spec. In a
    tie, choose the largest group.

    Returns:
        The metric for which most of these runs have a score, the runs with this score, and their `RunResults.scale`;
        or None if no run has a score.
    """
    groups: dict[tuple[str, str], list[RunResults]] = {}
    for run in runs:
        if any(run.score(split, metric) is not None for metric in metrics):
            corpus = run.spec.corpus.model_copy(update={"folder": ""})  # its folder differs between machines
            groups.setdefault((run.scale, repr(corpus)), []).append(run)
    if not groups:
        return None
    (scale, _), group = min(groups.items(), key=lambda item: (item[1][0].distance, -len(item[1]), item[0]))
    by_metric = {m: tuple(run for run in group if run.score(split, m) is not None) for m in metrics}
    metric = max(metrics, key=lambda metric: len(by_metric[metric]))
    return metric, by_metric[metric], scale


def _reason_for_no_score(spec: str, measurements: Measurements, runs: Sequence[RunResults], split: str) -> str:
    if runs:
        folders, first = ", ".join(run.folder for run in runs[:3]), runs[0].folder
        return f"not scored on the {split} set: {folders}; run `zoo evaluate --model {first} --set {split}`"
    missing = CorpusReader(specs.load(spec), Report()).missing_part()
    return f"no run of {spec} in `{measurements.root}`" + (f"; {missing}" if missing else "")

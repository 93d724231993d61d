"""Measurements for the paper's claims: training runs with their specs, logs and scores, and timings of layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import specs
from specs import METADATA_FIELDS, Spec, ZooError, difference
from zoo.data.corpus import corpus_name
from zoo.evaluation.evaluate import SavedEnsemble, ensembles
from zoo.evaluation.metrics import Metric
from zoo.models.find import all_runs
from zoo.models.folder import RUNS, ModelFolder
from zoo.report import Report
from zoo.training.run_log import TrainingRecord, training_record

_IGNORED_FIELDS = (
    *(*METADATA_FIELDS, "decoding.workers", "compilation", "training.seed", "training.log_steps"),
    *("corpus.source", "corpus.target", "corpus.folder", "corpus.train", "corpus.dev", "corpus.test"),
    *("training.steps", "training.checkpoint_steps", "training.max_tokens", "training.patience"),
    *("training.dev_score", "training.accumulation_steps"),
)
"""Fields that `RunResults.scale` does not list, because they do not affect scores, or because the run's corpus and
number of steps already express them."""

_PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class RunResults:
    """Spec, scores, training log and ensembles of a training run."""

    folder: str
    spec: Spec
    shipped: Spec | None
    """Shipped spec of the same name, which the run is compared with. None if there is none."""
    scores: dict[str, Any]
    weights: bool
    """Whether the run folder has weights to translate with."""
    record: TrainingRecord | None
    ensembles: tuple[SavedEnsemble, ...] = ()
    """Scored ensembles whose first member is this run."""

    def score(self, split: str, metric: Metric) -> float | None:
        """Return the run's score on the dev or test set by a metric. None if the run has no such score."""
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
        return ", ".join(self.scale_parts)

    @property
    def scale_parts(self) -> tuple[str, ...]:
        """Parts of `scale`: a text for each difference from the shipped spec, one for the corpus, one for the steps."""
        changed = [f"{key.rpartition('.')[2]}={new}" for key, (_, new) in self._differing.items()]
        steps = [f"{self.record.steps:,} steps"] if self.record else []
        # Another training set implies other dev and test sets, so these are not listed.
        sets = [f"another {part} set" for part in self._other_sets if "train" not in self._other_sets]
        return (*changed, f"on {corpus_name(self.spec.corpus)}", *sets, *steps)

    @cached_property
    def _other_sets(self) -> tuple[str, ...]:
        """Names of the corpus parts ("train", "dev", "test") that differ from those of the shipped spec."""
        ours, theirs = self.spec.corpus, self.shipped and self.shipped.corpus
        return tuple(part for part in _PARTS if getattr(ours, part) != getattr(theirs, part, None))


@dataclass(frozen=True)
class LayerTiming:
    """Measured times of a layer of Table 1 at several sequence lengths."""

    key: str
    seconds: Mapping[int, float]
    """Time in seconds by sequence length, in increasing order."""
    exponent: float
    """Exponent b of the measured growth: the time is proportional to length^b."""
    formula: float
    """Exponent of the growth by the formula in Table 1."""


@dataclass(frozen=True)
class Measurements:
    """All training runs in the folder `root`, and the measured times of Table 1's layers."""

    root: Path
    runs: tuple[RunResults, ...]
    timings: tuple[LayerTiming, ...] = ()

    def of(self, spec: str) -> tuple[RunResults, ...]:
        """Return the training runs of a shipped spec, given its short name, with or without overrides."""
        name = specs.load(spec).name
        return tuple(run for run in self.runs if run.spec.name == name)


def read_measurements(root: Path | None, report: Report) -> Measurements:
    """Read all training runs in a folder, by default `runs/`. Skip damaged runs with a warning.

    Args:
        root: The folder.
        report: Receives the warnings.

    Returns:
        The runs, without timings of layers.

    Raises:
        ZooError: `root` is given but does not exist.
    """
    if root is not None and not root.is_dir():
        raise ZooError(
            f"there is no folder `{root}`", hint="give a folder of training runs, or of a sweep, with `--runs DIR`"
        )
    shipped = {spec.name: spec for spec in map(specs.load, specs.names())}
    return Measurements(root or RUNS, tuple(_read_runs(root or RUNS, shipped, report)))


def _read_runs(root: Path, shipped: dict[str, Spec], report: Report) -> Iterator[RunResults]:
    for folder in all_runs(root):
        run = ModelFolder(folder)
        try:
            spec = run.spec
            contents = run.known_scores, run.trained, training_record(run, spec), tuple(ensembles(folder))
            yield RunResults(folder.as_posix(), spec, shipped.get(spec.name), *contents)
        except ZooError as error:
            report.warn(error.summary)

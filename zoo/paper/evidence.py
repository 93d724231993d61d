"""What has been measured: the runs in a folder, each as its spec, its log and its scores tell of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import specs
from specs import ENTITLING, Spec, ZooError, difference
from zoo.data.corpus import corpus_name
from zoo.evaluation.ensembles import KeptEnsemble, ensembles
from zoo.evaluation.metric import Metric
from zoo.models.find import all_runs
from zoo.models.folder import RUNS, ModelFolder
from zoo.report import Report
from zoo.training.record import Record, record_of

_UNTOLD = (
    *(*ENTITLING, "decoding.workers", "compilation", "training.seed", "training.log_steps"),
    *("corpus.source", "corpus.target", "corpus.folder", "corpus.train", "corpus.dev", "corpus.test"),
    *("training.steps", "training.checkpoint_steps", "training.checkpoint_minutes", "training.max_tokens"),
    *("training.max_minutes", "training.patience", "training.dev_score", "training.accumulation_steps"),
)
"""Fields that make no run another's rival, or that its scale tells otherwise: by its steps, by its corpus."""

_PARTS = ("train", "dev", "test")


@dataclass(frozen=True)
class Found:
    """A run that was begun. `row` is the shipped spec whose name it has, against which its scale is told, if any."""

    folder: str
    spec: Spec
    row: Spec | None
    scores: dict[str, Any]
    weights: bool
    """Whether it has any yet."""
    record: Record | None
    ensembles: tuple[KeptEnsemble, ...] = ()
    """Those that it is the first of."""

    def score(self, split: str, metric: Metric) -> float | None:
        return metric.known(self.scores.get(split))

    @cached_property
    def _differing(self) -> dict[str, tuple[Any, Any]]:
        found = difference(self.spec, self.row) if self.row else {}
        return {key: pair for key, pair in found.items() if key not in _UNTOLD and key.partition(".")[0] not in _UNTOLD}

    @property
    def distance(self) -> int:
        """How many things are otherwise than in the shipped spec."""
        steps = self.record is None or self.row is None or self.record.steps != self.row.training.steps
        return len(self._differing) + steps + bool(self._other_text)

    @property
    def scale(self) -> str:
        """What is otherwise than in the shipped spec, the corpus and the steps: in words."""
        return ", ".join(self.scales)

    @property
    def scales(self) -> tuple[str, ...]:
        """The same, one by one."""
        changed = [f"{key.rpartition('.')[2]}={new}" for key, (_, new) in self._differing.items()]
        steps = [f"{self.record.steps:,} steps"] if self.record else []
        # Other text to train on has other sets beside it.
        sets = [f"another {part} set" for part in self._other_text if "train" not in self._other_text]
        return (*changed, f"on {corpus_name(self.spec.corpus)}", *sets, *steps)

    @cached_property
    def _other_text(self) -> tuple[str, ...]:
        """The parts of its corpus that are not those of the shipped spec."""
        ours, theirs = self.spec.corpus, self.row and self.row.corpus
        return tuple(part for part in _PARTS if getattr(ours, part) != getattr(theirs, part, None))


@dataclass(frozen=True)
class Timing:
    """Of one of Table 1's layers: seconds at lengths, the exponent that they grow with, and its formula's."""

    key: str
    seconds: tuple[tuple[int, float], ...]
    exponent: float
    formula: float


@dataclass(frozen=True)
class Evidence:
    """The runs in the folder `root`, in order, and the layers that were timed."""

    root: Path
    runs: tuple[Found, ...]
    timings: tuple[Timing, ...] = ()

    def of(self, spec: str) -> tuple[Found, ...]:
        """The runs of a shipped spec, whatever else was set in them."""
        name = specs.load(spec).name
        return tuple(run for run in self.runs if run.spec.name == name)


def evidence(root: Path | None, report: Report) -> Evidence:
    """Reads the runs in a folder, in `runs/` where none is named; one that is damaged is left out, with a warning.

    Raises ZooError where a folder is named, and is not there.
    """
    if root is not None and not root.is_dir():
        raise ZooError(f"there is no folder `{root}`", hint="`--runs DIR` names a folder of runs, or of a sweep")
    shipped = {spec.name: spec for spec in map(specs.load, specs.names())}
    return Evidence(root or RUNS, tuple(_read(root or RUNS, shipped, report)))


def _read(root: Path, shipped: dict[str, Spec], report: Report) -> Iterator[Found]:
    for folder in all_runs(root):
        run = ModelFolder(folder)
        try:
            spec = run.spec
            told = run.known_scores, run.trained, record_of(run, spec), tuple(ensembles(folder))
            yield Found(folder.as_posix(), spec, shipped.get(spec.name), *told)
        except ZooError as error:
            report.warn(error.summary)

"""What the runs of a sweep say: a line for each row, and for each two rows of one kind which is better."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

import compiler
from specs import Spec
from zoo.evaluation import bootstrap
from zoo.evaluation.evaluate import read_split
from zoo.report import Report
from zoo.training.sweeps.difference import Difference, Sample, Spread, difference, spread
from zoo.training.sweeps.rows import Row
from zoo.training.sweeps.trial import Trial

_LARGEST = 1e300  # a perplexity that is not finite
METRICS = ("perplexity", "bleu", "paper_bleu")
"""Perplexity is that a word token, and is reckoned with as its natural logarithm."""


@dataclass(frozen=True)
class Standing:
    """A row, and what those of its trials that are finished came to."""

    row: Row
    trials: tuple[Trial, ...]
    parameters: int
    seconds: float
    """Of training, the mean over the seeds."""
    samples: Mapping[str, Sample]
    """By the names of METRICS."""


@dataclass(frozen=True)
class Pair:
    """Two rows of one kind, the one that the other extends first; by each metric that they can be compared by."""

    first: Row
    second: Row
    differences: Mapping[str, Difference]


@dataclass(frozen=True)
class Table:
    """The rows of which a trial is finished, and all pairs of them."""

    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    spreads: Mapping[str, Spread]


def table(rows: Sequence[Row], trials: Sequence[Trial], report: Report) -> Table:
    """Of the trials that are finished; the work is in drawing sentences anew. Raises ZooError for a damaged run."""
    finished = [trial for trial in trials if trial.finished]
    several = {row.name: tuple(trial for trial in finished if trial.row is row) for row in rows}
    begun = [row for row in rows if several[row.name]]
    with report.progress("drawing sentences anew", len(begun), "rows") as shown:
        standings = []
        for row in begun:
            standings.append(_standing(row, several[row.name]))
            shown.advance(1)
    spreads = {name: spread(each.samples[name] for each in standings) for name in METRICS}
    return Table(tuple(standings), tuple(pairs_of(standings, spreads)), spreads)


def _standing(row: Row, trials: tuple[Trial, ...]) -> Standing:
    samples = _samples(row.spec, trials)
    return Standing(row, trials, compiler.parameters(row.spec), fmean(each.seconds for each in trials), samples)


def _samples(spec: Spec, trials: Sequence[Trial]) -> dict[str, Sample]:
    _, references = read_split(spec, "dev", Report())
    drawn = bootstrap.sample_counts(len(references))
    found: dict[str, list[bootstrap.FloatArray]] = {name: [] for name in METRICS}
    for trial in trials:
        answers = trial.answers
        outputs = [each.output for each in answers]
        found["bleu"].append(bootstrap.bleu_by_sample(drawn, outputs, references))
        found["paper_bleu"].append(bootstrap.paper_bleu_by_sample(drawn, outputs, references, spec.corpus.target))
        logs, tokens = [each.log_probability for each in answers], [each.tokens for each in answers]
        found["perplexity"].append(bootstrap.log_perplexity_by_sample(drawn, logs, tokens))
    scores = [trial.run.known_scores["dev"] for trial in trials]
    by_seed = {name: [_LARGEST if each[name] is None else float(each[name]) for each in scores] for name in METRICS}
    by_seed["perplexity"] = [math.log(value) for value in by_seed["perplexity"]]
    return {name: Sample(tuple(by_seed[name]), np.mean(found[name], axis=0)) for name in METRICS}


def pairs_of(standings: Sequence[Standing], spreads: Mapping[str, Spread]) -> Iterator[Pair]:
    """All two of a kind: of the rows that set the same keys against one row, and of that one."""
    kinds: dict[tuple[str | None, tuple[str, ...]], list[Standing]] = {}
    by_name = {each.row.name: each for each in standings}
    for each in standings:
        kind = (each.row.above, each.row.own)
        above = [by_name[each.row.above]] if each.row.above in by_name else []
        kinds.setdefault(kind, above).append(each)
    for members in kinds.values():
        for first, second in combinations(members, 2):
            if first.row.spec.corpus == second.row.spec.corpus:
                yield Pair(first.row, second.row, _differences(first, second, spreads))


def _differences(first: Standing, second: Standing, spreads: Mapping[str, Spread]) -> dict[str, Difference]:
    """Perplexities a token are of one scale where the tokens are the same."""
    alike = first.row.spec.vocabulary == second.row.spec.vocabulary
    names = [name for name in METRICS if alike or name != "perplexity"]
    return {name: difference(first.samples[name], second.samples[name], spreads[name]) for name in names}

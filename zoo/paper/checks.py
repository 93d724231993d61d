"""How claims are checked: each check looks, and what it finds decides the status."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import specs
from zoo.data.corpus import missing_part
from zoo.data.prepare import known_counts
from zoo.evaluation.metric import Metric, named
from zoo.paper.claim import Check, Claim, Finding, Status
from zoo.paper.evidence import Evidence, Found
from zoo.paper.numbers import written

Derived = tuple[float | None, str]
"""A number, None where several are found that the paper says are one, and how it was come by."""


def equals(derive: Callable[[], Derived], told: Callable[[float], str] = written) -> Check:
    """That a number which is derived rounds to what is printed, wherever it is printed."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        value, how = derive()
        if value is None:
            return Finding(Status.OPEN, f"not one number: {how}")
        wrong = [each for each in claim.printed if not each.agrees(value)]
        if not wrong:
            return Finding(Status.DERIVED, how, value, told(value))
        right = "".join(f"{each} and " for each in claim.printed if each not in wrong)
        because = f"{right}not {' and not '.join(map(str, wrong))}: {how}"
        return Finding(Status.OPEN, because, value, told(value))

    return check


def holds(decide: Callable[[], tuple[bool, str]]) -> Check:
    """That a sentence is true of numbers that are derived, which the words name."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        true, how = decide()
        return Finding(Status.DERIVED, how, ours="yes") if true else Finding(Status.OPEN, how, ours="no")

    return check


def scored(split: str, *metrics: str) -> Check:
    """What the runs of its spec score on "dev" or "test", by the first of these metrics that most of them have.

    Whether that is near what is printed it leaves to whoever reads the scale beside it.
    """

    def check(claim: Claim, evidence: Evidence) -> Finding:
        found = evidence.of(claim.spec) if claim.spec is not None else ()
        alike = _alike(found, split, [named(name) for name in metrics])
        if alike is None:
            return Finding(Status.OPEN, _why_not(claim, evidence, found, split))
        metric, runs, scale = alike
        values = [run.score(split, metric) or 0.0 for run in runs]
        spread = f" ({metric.written(min(values))} to {metric.written(max(values))})" if len(values) > 1 else ""
        several = f"{runs[0].folder}" if len(runs) == 1 else f"{len(runs)} runs, the first {runs[0].folder}"
        words = f"{metric.called} of {several}: {scale}"
        mean = fmean(values)
        return Finding(
            Status.MEASURED, words, mean, f"{metric.written(mean)}{spread}", tuple(run.folder for run in runs)
        )

    return check


def corpus() -> Check:
    """How many pairs the corpus of its spec has, where it has been prepared here."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        assert claim.spec is not None
        spec = specs.load(claim.spec)
        if lacking := missing_part(spec):
            return Finding(Status.OPEN, lacking)
        counts = known_counts(spec)
        if counts is None:
            return Finding(Status.OPEN, f"its corpus is here, and `zoo prepare {claim.spec}` has not been done")
        words = f"pairs in the corpus of {claim.spec}, prepared here"
        if all(each.agrees(counts.read) for each in claim.printed):
            return Finding(Status.MEASURED, words, counts.read, f"{counts.read:,}")
        return Finding(Status.OPEN, f"{counts.read:,} {words}", counts.read, f"{counts.read:,}")

    return check


def hardware(name: str) -> Check:
    """Whether a device of this name is in this machine: what it does is not measured for this."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        found = [file.read_text(errors="replace") for file in _DRIVER.glob("*/information")]
        if any(re.search(rf"\b{name}[a-z]?\b", told) for told in found):  # a K40m is one, a Quadro K4000 is none
            return Finding(Status.OPEN, f"a {name} is here: `zoo plan base --device cuda` measures its products")
        return Finding(Status.OPEN, f"no {name} is in this machine")

    return check


def timing(key: str, near: float) -> Check:
    """That the time of a layer grows as its formula does, where it has been measured."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        found = next((each for each in evidence.timings if each.key == key), None)
        if found is None:
            return Finding(Status.OPEN, "not timed: `zoo paper table1 --measure` does it")
        words = f"n^{found.exponent:.2f} of {found.seconds[0][0]:,} to {found.seconds[-1][0]:,} positions"
        close = abs(found.exponent - found.formula) <= near
        words += "" if close else f", and n^{found.formula:.2f} by the formula"
        return Finding(Status.MEASURED if close else Status.OPEN, words, found.exponent, f"n^{found.exponent:.2f}")

    return check


def drawn(figure: int) -> Check:
    """A picture, which no number decides on: how it is drawn, where there is a model to draw it of."""

    def check(claim: Claim, evidence: Evidence) -> Finding:
        assert claim.spec is not None
        trained = [run for run in evidence.of(claim.spec) if run.weights]
        if not trained:
            return Finding(Status.OPEN, _why_not(claim, evidence, (), "test"))
        how = f"`zoo attend --model {trained[0].folder} --figure {figure}` draws it: what it shows is for eyes to judge"
        return Finding(Status.OPEN, how, runs=tuple(run.folder for run in trained))

    return check


_DRIVER = Path("/proc/driver/nvidia/gpus")


def _alike(
    found: Sequence[Found], split: str, metrics: Sequence[Metric]
) -> tuple[Metric, tuple[Found, ...], str] | None:
    """Of the runs with scores, those of one scale and corpus: the nearest to the paper's, and of these the most."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for run in found:
        if any(run.score(split, metric) is not None for metric in metrics):
            corpus = run.spec.corpus.model_copy(update={"folder": ""})  # the same one lies elsewhere on each machine
            groups.setdefault((run.scale, repr(corpus)), []).append(run)
    if not groups:
        return None
    (scale, _), runs = min(groups.items(), key=lambda item: (item[1][0].distance, -len(item[1]), item[0]))
    by = {metric: tuple(run for run in runs if run.score(split, metric) is not None) for metric in metrics}
    metric = max(metrics, key=lambda each: len(by[each]))
    return metric, by[metric], scale


def _why_not(claim: Claim, evidence: Evidence, found: Sequence[Found], split: str) -> str:
    if claim.spec is None:
        return "a model of others: no spec of it is in this zoo"
    if found:
        folders = ", ".join(run.folder for run in found[:3])
        return (
            f"not scored on its {split} set: {folders}; `zoo evaluate --model {found[0].folder} --set {split}` does it"
        )
    lacking = missing_part(specs.load(claim.spec))
    return f"no run of {claim.spec} in `{evidence.root}`" + (f"; {lacking}" if lacking else "")

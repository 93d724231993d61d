"""Checks of claims by measurements: scores of training runs, sizes of corpora, and timings of layers.

Each function takes the claim, the measurements, and the arguments that `claims.yaml` gives after the function's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import specs
from zoo.data.corpus import missing_part
from zoo.data.prepare import known_counts
from zoo.evaluation.metrics import Metric, get_metric
from zoo.paper.claims import CheckedClaim, Claim, Status
from zoo.paper.runs import Measurements, RunResults
from zoo.paper.table1 import TOLERANCE


def score(claim: Claim, measurements: Measurements, split: str, *metrics: str) -> CheckedClaim:
    """Report the scores of training runs with the claim's spec.

    The function does not judge whether a score is close to the printed one. It reports how the runs differ from the
    paper's, so that readers can judge.

    Args:
        claim: The claim.
        measurements: The measurements.
        split: "dev" or "test".
        metrics: Names of metrics. The one for which most runs have a score is used. In a tie, the first is used.
    """
    assert claim.spec is not None
    runs = measurements.of(claim.spec)
    comparable = _comparable_runs(runs, split, [get_metric(name) for name in metrics])
    if comparable is None:
        return CheckedClaim(claim, Status.OPEN, _reason_for_no_score(claim.spec, measurements, runs, split))
    metric, chosen, scale = comparable
    values = [run.score(split, metric) or 0.0 for run in chosen]
    spread = f" ({metric.format_score(min(values))} to {metric.format_score(max(values))})" if len(values) > 1 else ""
    folders = f"{chosen[0].folder}" if len(chosen) == 1 else f"{len(chosen)} runs, the first {chosen[0].folder}"
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
    """Check whether the corpus of the claim's spec has the printed number of pairs.

    If the corpus has not been prepared on this machine, report the claim as not tested.
    """
    assert claim.spec is not None
    spec = specs.load(claim.spec)
    if missing := missing_part(spec):
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
    return CheckedClaim(claim, Status.OPEN, f"needs a {name}, which is not measured here")


def time(claim: Claim, measurements: Measurements, layer: str) -> CheckedClaim:
    """Check whether a layer's time grows with the sequence length as Table 1's formula predicts."""
    timing = next((timing for timing in measurements.timings if timing.key == layer), None)
    if timing is None:
        return CheckedClaim(claim, Status.OPEN, "not timed: `zoo paper table1 --measure` measures it")
    words = f"n^{timing.exponent:.2f} for {min(timing.seconds):,} to {max(timing.seconds):,} positions"
    close = abs(timing.exponent - timing.formula) <= TOLERANCE
    words += "" if close else f", but n^{timing.formula:.2f} by the formula"
    status = Status.MEASURED if close else Status.DIFFERENT
    return CheckedClaim(claim, status, words, timing.exponent, f"n^{timing.exponent:.2f}")


def figure(claim: Claim, measurements: Measurements, number: str) -> CheckedClaim:
    """Report a claim about a figure as not tested, because readers must judge it by eye.

    If there is a trained model, give the command that draws the figure with this model.
    """
    assert claim.spec is not None
    trained = [run for run in measurements.of(claim.spec) if run.weights]
    if not trained:
        return CheckedClaim(claim, Status.OPEN, _reason_for_no_score(claim.spec, measurements, (), "test"))
    how = f"`zoo attend --model {trained[0].folder} --figure {number}` draws it, for readers to judge"
    return CheckedClaim(claim, Status.OPEN, how, runs=tuple(run.folder for run in trained))


def _comparable_runs(
    runs: Sequence[RunResults], split: str, metrics: Sequence[Metric]
) -> tuple[Metric, tuple[RunResults, ...], str] | None:
    """Choose training runs whose scores can be averaged, because their corpus and all relevant settings are equal.

    If there are several groups of such runs, choose the group with the fewest differences from the shipped spec. In a
    tie, choose the largest group.

    Returns:
        The metric that most of these runs were scored by, the runs with a score by it, and their `RunResults.scale`.
        None if no run has a score.
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
        return f"not scored on the {split} set: {folders}; `zoo evaluate --model {first} --set {split}` scores it"
    missing = missing_part(specs.load(spec))
    return f"no run of {spec} in `{measurements.root}`" + (f"; {missing}" if missing else "")

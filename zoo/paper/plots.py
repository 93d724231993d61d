"""Plots of the paper's page: learning rate, cost of a layer, BLEU by training cost, and quality by model size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import compiler
import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper import table1, table2, table3
from zoo.paper.claims import CheckedClaim
from zoo.paper.evidence import Evidence
from zoo.training.step import learning_rate
from zoo.visualization.plot import Axis, Plot, Series

MAX_SERIES = 7
"""Largest number of series in one plot. The page defines this many colours."""
_PARTS = {
    "": "base and big",
    "A": "(A) heads",
    "B": "(B) keys",
    "C": "(C) size",
    "D": "(D) regularisation",
    "E": "(E) positions",
}
_MAX_LABEL = 20  # characters of a point's label
_PointSeries = tuple[str, tuple[tuple[float, float], ...], tuple[str, ...]]
"""Name of a series, its points (x, y), and the label of each point."""


def schedule() -> Plot:
    """Return a plot of the learning rate by step, for `base` and `big` (section 5.3)."""
    curves = []
    for name in ("base", "big"):
        spec = specs.load(name)
        warmup, last = spec.training.warmup_steps, 40_000
        steps = sorted({1, warmup, *range(200, last + 1, 200)})
        points = tuple((float(step), learning_rate(step, spec)) for step in steps)
        curves.append(Series(f"{name}, d_model = {spec.architecture.d_model}", points, line=True))
    peaks = " and ".join(f"{max(rate for _, rate in curve.points):.3g}" for curve in curves)
    tells = f"It rises linearly for 4,000 steps to {peaks}, then falls with the inverse square root of the step."
    return Plot("Learning rate by step (5.3)", tells, Axis("step"), Axis("learning rate"), tuple(curves))


def complexity() -> Plot:
    """Return a plot of the operations per layer by sequence length, computed with the formulas of Table 1."""
    lengths = [2.0**power for power in range(4, 15)]
    curves = [
        Series(layer.name, tuple((n, layer.operations(n, 512, 3, 16)) for n in lengths), line=True)
        for layer in table1.LAYERS
    ]
    tells = (
        "On logarithmic axes, self-attention has slope 2 and all others slope 1. Self-attention and recurrent layers "
        "cost the same at n = d."
    )
    up = Axis("operations of a layer", log=True)
    title = "Table 1's formulas at d = 512, k = 3, r = 16"
    return Plot(title, tells, Axis("sequence length n", log=True), up, tuple(curves))


def times(evidence: Evidence) -> Plot | None:
    """Return a plot of the measured times of Table 1's layers. None if no times were measured."""
    names = {layer.key: layer.name for layer in table1.LAYERS}
    curves = [
        Series(names[timing.key], tuple((n, s) for n, s in timing.seconds), line=True) for timing in evidence.timings
    ]
    tells = "; ".join(f"{names[timing.key]}: n^{timing.exponent:.2f}" for timing in evidence.timings)
    axes = Axis("sequence length n", log=True), Axis("seconds of a layer", log=True)
    return Plot("Table 1, measured on this machine", tells, *axes, tuple(curves)) if curves else None


def cost(languages: str) -> Plot:
    """Return a plot of Table 2: BLEU by training cost, for the systems whose cost the paper prints.

    Args:
        languages: "EN-DE" or "EN-FR".
    """
    kinds = {"single models": table2.OTHERS, "ensembles": table2.OTHERS, "Transformer": (table2.BASE, table2.BIG)}
    series = []
    for kind, systems in kinds.items():
        chosen = [s for s in systems if s.pairs[languages].flops and s.ensemble is (kind == "ensembles")]
        results = [(system, printed) for system in chosen for printed in system.pairs[languages].bleu]
        points = tuple((float(system.pairs[languages].flops or 0), printed.value) for system, printed in results)
        labels = tuple(system.name.removeprefix("Transformer ").strip("()") for system, _ in results)
        series.append(Series(kind, points, labels))
    words = [f"{name} {y:g} at {x:.2g} FLOPs" for s in series for (x, y), name in zip(s.points, s.labels, strict=True)]
    across = Axis("training FLOPs, as printed", log=True)
    return Plot(f"Table 2, {languages}: BLEU by cost", "; ".join(words), across, Axis("BLEU"), tuple(series))


def sizes(metric: str, ours: tuple[Sequence[CheckedClaim], Evidence] | None = None) -> Plot | None:
    """Return a plot of Table 3: perplexity or BLEU by the number of parameters.

    Args:
        metric: "perplexity" or "bleu".
        ours: Checked claims, and the evidence with our own training runs, whose scores are plotted. None: plot the
            numbers that the paper prints.

    Returns:
        The plot. None if there are no points.
    """
    measure = get_metric(metric)
    point_series = _measured(metric, *ours) if ours else _printed(metric)
    series = tuple(Series(part, points, labels) for part, points, labels in point_series if points)
    if not series:
        return None
    words = [f"{label} {y:g} at {x:.3g} M" for s in series for (x, y), label in zip(s.points, s.labels, strict=True)]
    source = "our runs" if ours else "as printed"
    title = f"Table 3, {source}: {measure.title} by parameters"
    up = Axis(f"{measure.title}, {'dev set' if ours else 'newstest2013'}")
    return Plot(title, "; ".join(words), Axis("million parameters", log=True), up, series)


def _printed(metric: str) -> Iterator[_PointSeries]:
    for part, name in _PARTS.items():
        rows = [row for row in table3.ROWS if row.part == part]
        values = [float(row.perplexity if metric == "perplexity" else row.bleu) for row in rows]
        counts = [table3.parameters(row.spec) / 1e6 for row in rows]
        yield name, tuple(zip(counts, values, strict=True)), tuple(_label(row) for row in rows)


def _measured(metric: str, entries: Sequence[CheckedClaim], evidence: Evidence) -> Iterator[_PointSeries]:
    """Yield a series for each part of Table 3 (A to E), with the scores of our own training runs."""
    by_key = {entry.claim.key: entry.finding for entry in entries}
    runs = {run.folder: run for run in evidence.runs}
    for part, name in _PARTS.items():
        rows = [row for row in table3.ROWS if row.part == part and by_key[f"table3.{row.key}.{metric}"].runs]
        findings = [by_key[f"table3.{row.key}.{metric}"] for row in rows]
        counts = [compiler.parameters(runs[finding.runs[0]].spec) / 1e6 for finding in findings]
        values = [finding.value or 0.0 for finding in findings]
        yield name, tuple(zip(counts, values, strict=True)), tuple(_label(row) for row in rows)


def _label(row: table3.VariationRow) -> str:
    words = row.says.partition(":")[0].partition(",")[0]
    return words if len(words) < _MAX_LABEL else row.key.partition("-")[2]


def all_plots(entries: Sequence[CheckedClaim], evidence: Evidence) -> Sequence[Plot]:
    """Return all plots that have data, in the order of the page."""
    metrics = ("perplexity", "bleu")
    printed = [sizes(metric) for metric in metrics]
    ours = [sizes(metric, (entries, evidence)) for metric in metrics]
    costs = [cost("EN-DE"), cost("EN-FR")]
    return [plot for plot in (complexity(), times(evidence), schedule(), *costs, *printed, *ours) if plot is not None]

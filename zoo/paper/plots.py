"""The pictures of the report: the schedule, what a layer costs, BLEU over cost, quality over size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import compiler
import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper import table1, table2, table3
from zoo.paper.claim import Entry
from zoo.paper.evidence import Evidence
from zoo.training.schedule import learning_rate
from zoo.visualization.plot import Axis, Plot, Series

MAX_SERIES = 7
"""Of one plot: as many colours a page has to have."""


def schedule() -> Plot:
    """The learning rate of the paper's two models (5.3)."""
    curves = []
    for name in ("base", "big"):
        spec = specs.load(name)
        warmup, last = spec.training.warmup_steps, 40_000
        steps = sorted({1, warmup, *range(200, last + 1, 200)})
        points = tuple((float(step), learning_rate(step, spec)) for step in steps)
        curves.append(Series(f"{name}, d_model = {spec.architecture.d_model}", points, line=True))
    peaks = " and ".join(f"{max(rate for _, rate in curve.points):.3g}" for curve in curves)
    tells = f"It rises in a line for 4,000 steps, to {peaks}, and falls with the inverse square root of the step."
    return Plot("Learning rate by step (5.3)", tells, Axis("step"), Axis("learning rate"), tuple(curves))


def complexity() -> Plot:
    """The formulas of Table 1."""
    lengths = [2.0**power for power in range(4, 15)]
    curves = [
        Series(row.name, tuple((n, row.operations(n, 512, 3, 16)) for n in lengths), line=True) for row in table1.ALL
    ]
    tells = "On logarithmic axes self-attention has the slope 2, all others 1; it crosses the recurrent one at n = d."
    up = Axis("operations of a layer", log=True)
    title = "Table 1's formulas at d = 512, k = 3, r = 16"
    return Plot(title, tells, Axis("sequence length n", log=True), up, tuple(curves))


def times(evidence: Evidence) -> Plot | None:
    """What Table 1's layers took here."""
    names = {kind.key: kind.name for kind in table1.ALL}
    curves = [Series(names[each.key], tuple((n, s) for n, s in each.seconds), line=True) for each in evidence.timings]
    tells = "; ".join(f"{names[each.key]}: n^{each.exponent:.2f}" for each in evidence.timings)
    axes = Axis("sequence length n", log=True), Axis("seconds of a layer", log=True)
    return Plot("Table 1, measured here", tells, *axes, tuple(curves)) if curves else None


def cost(languages: str) -> Plot:
    """Table 2: BLEU over the cost of training, of systems whose cost is printed."""
    kinds = {"single models": table2.OTHERS, "ensembles": table2.OTHERS, "Transformer": (table2.BASE, table2.BIG)}
    series = []
    for kind, systems in kinds.items():
        chosen = [s for s in systems if s.pairs[languages].flops and s.ensemble is (kind == "ensembles")]
        told = [(s, printed) for s in chosen for printed in s.pairs[languages].bleu]
        points = tuple((float(s.pairs[languages].flops or 0), printed.value) for s, printed in told)
        labels = tuple(s.name.removeprefix("Transformer ").strip("()") for s, _ in told)
        series.append(Series(kind, points, labels))
    words = [
        f"{name} {y:g} at {x:.2g} FLOPs"
        for each in series
        for (x, y), name in zip(each.points, each.labels, strict=True)
    ]
    across = Axis("FLOPs of the training, as printed", log=True)
    return Plot(f"Table 2, {languages}: BLEU over cost", "; ".join(words), across, Axis("BLEU"), tuple(series))


def sizes(metric: str, ours: tuple[Sequence[Entry], Evidence] | None = None) -> Plot | None:
    """Table 3: perplexity or BLEU over parameters, as printed over the compiler's counts, or as found of our runs."""
    told = get_metric(metric)
    found = list(_measured(metric, *ours) if ours else _printed(metric))
    series = tuple(Series(part, points, labels) for part, points, labels in found if points)
    if not series:
        return None
    words = [
        f"{label} {y:g} at {x:.3g} M" for each in series for (x, y), label in zip(each.points, each.labels, strict=True)
    ]
    whose = "our runs" if ours else "as printed"
    title = f"Table 3, {whose}: {told.title} over parameters"
    up = Axis(f"{told.title}, {'dev set' if ours else 'newstest2013'}")
    return Plot(title, "; ".join(words), Axis("million parameters", log=True), up, series)


_PARTS = {
    "": "base and big",
    "A": "(A) heads",
    "B": "(B) keys",
    "C": "(C) size",
    "D": "(D) regularisation",
    "E": "(E) positions",
}
_LONGEST = 20  # letters beside a point
Points = tuple[tuple[float, float], ...]


def _printed(metric: str) -> Iterator[tuple[str, Points, tuple[str, ...]]]:
    for part, name in _PARTS.items():
        rows = [row for row in table3.ROWS if row.part == part]
        values = [float(row.perplexity if metric == "perplexity" else row.bleu) for row in rows]
        counts = [table3.parameters(row.spec) / 1e6 for row in rows]
        yield name, tuple(zip(counts, values, strict=True)), tuple(_short(row) for row in rows)


def _measured(
    metric: str, entries: Sequence[Entry], evidence: Evidence
) -> Iterator[tuple[str, Points, tuple[str, ...]]]:
    """The numbers that stand in the table."""
    found, runs = {entry.claim.key: entry.finding for entry in entries}, {run.folder: run for run in evidence.runs}
    for part, name in _PARTS.items():
        rows = [row for row in table3.ROWS if row.part == part and found[f"table3.{row.key}.{metric}"].runs]
        findings = [found[f"table3.{row.key}.{metric}"] for row in rows]
        counts = [compiler.parameters(runs[each.runs[0]].spec) / 1e6 for each in findings]
        values = [each.value or 0.0 for each in findings]
        yield name, tuple(zip(counts, values, strict=True)), tuple(_short(row) for row in rows)


def _short(row: table3.Row) -> str:
    words = row.says.partition(":")[0].partition(",")[0]
    return words if len(words) < _LONGEST else row.key.partition("-")[2]


def all_plots(entries: Sequence[Entry], evidence: Evidence) -> Sequence[Plot]:
    """In the order of the paper."""
    metrics = ("perplexity", "bleu")
    printed = [sizes(metric) for metric in metrics]
    ours = [sizes(metric, (entries, evidence)) for metric in metrics]
    costs = [cost("EN-DE"), cost("EN-FR")]
    return [plot for plot in (complexity(), times(evidence), schedule(), *costs, *printed, *ours) if plot is not None]

"""HTML page with all claims of the paper, tables and plots, in a single file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import compiler
import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper import derived, table1
from zoo.paper.claims import CLAIMS, PARTS, ROWS, Status
from zoo.paper.runs import Measurements
from zoo.paper.tables import TABLES, Checked, claim_row, summary_table
from zoo.report import Table
from zoo.training.step import learning_rate
from zoo.visualization.page import asset, escape_text, page, table, table_cells
from zoo.visualization.plot import STYLE as PLOT_STYLE
from zoo.visualization.plot import Axis, Plot, Series, plot_figures

_KINDS = {status: status.name.lower() for status in Status}
_SIGNS = dict(zip(Status, "✓=●✗?·", strict=True))
_HIDDEN = "\n".join(
    f"body:has(#only-{kind}:checked) tr.claim:not(.{kind}) {{ display: none }}" for kind in _KINDS.values()
)
"""Style rules that hide the claims whose status is not selected, so that the page needs no script."""
_TITLES = {"table1": "Table 1", "table2": "Table 2", "table3": "Table 3", "table4": "Table 4"}


def paper_page(checked: Checked, measurements: Measurements) -> str:
    """Return a self-contained HTML page with all tables, plots and claims."""
    parts = {**_TITLES, "plots": "Plots", "claims": "Every claim"}
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in parts.items())
    intro = (
        "This page lists every number in the paper, and the result of its check. We derive a number with the compiler "
        "or from other numbers in the paper, set it in our spec, or measure it in the training runs in "
        f"`{measurements.root}`. Some numbers come out differently, and some are not tested. The table gives the "
        "reason. Every status is computed, not written by hand."
    )
    body = [
        f"<h1>Attention Is All You Need, checked</h1>\n<p>{_html(intro)}</p>",
        f'<nav aria-label="Parts of this page" class="screen"><ul>{links}</ul></nav>',
        _table(summary_table(checked)),
        '<h2 id="plots">Plots</h2>',
        "<p>Point at a plot or at one of its markers to see names and values.</p>",
        plot_figures(all_plots(checked, measurements), captions=True),
    ]
    for key, title in _TITLES.items():
        body += [f'<h2 id="{key}">{title}</h2>', *map(_table, TABLES[key](checked, measurements))]
    body += ['<h2 id="claims">Every claim</h2>', *_claims(checked, measurements)]
    style = f"{PLOT_STYLE}{asset('paper_page.css')}@media screen {{ {_HIDDEN} }}\n"
    return page("Attention Is All You Need, checked", *body, style=style, series_count=MAX_SERIES)


def _table(each: Table) -> str:
    rows = (f"<tr>{table_cells(each.columns, map(_html, row))}</tr>" for row in each.rows)
    notes = "".join(f'<p class="quiet">{_html(note)}</p>' for note in each.notes)
    return table(_html(each.title), each.columns, rows) + notes


def _html(words: str) -> str:
    """Convert plain text to HTML. Text in backticks becomes a `code` element."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape_text(words))


def _claims(checked: Checked, measurements: Measurements) -> Iterator[str]:
    choices = {"all": "all", **{kind: status.value for status, kind in _KINDS.items()}}
    yield '<fieldset class="choice screen"><legend>Show claims that are</legend>'
    for kind, label in choices.items():
        selected = " checked" if kind == "all" else ""
        yield f'<label><input type="radio" name="only" id="only-{kind}"{selected}> {escape_text(label)}</label>'
    yield "</fieldset>"
    (claims,), rows = TABLES["claims"](checked, measurements), list[str]()
    for each in checked.values():
        row = [*claim_row(each)]
        row[-2] = f"{_SIGNS[each.status]} {row[-2]}"
        rows.append(f'<tr class="claim {_KINDS[each.status]}">{table_cells(claims.columns, map(_html, row))}</tr>')
    yield table(f"{len(checked):,} claims", claims.columns, rows, "wide claims")


MAX_SERIES = 7
"""Largest number of series in one plot. The page defines this many colours."""
_SECTIONS: Mapping[str, str] = PARTS["table3"]["sections"]
"""Names of the series in plots of Table 3, keyed by the section of the table."""
_Points = dict[str, list[tuple[float, float, str]]]
"""Points (x, y) with their labels, keyed by series name."""


def schedule() -> Plot:
    """Return a plot of the learning rate against the training step, for `base` and `big` (section 5.3)."""
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
    """Return a plot of the operations per layer against the sequence length, computed with Table 1's formulas."""
    lengths = [2.0**power for power in range(4, 15)]
    curves = [
        Series(ROWS["table1"][key]["name"], tuple((n, layer.operations(n, 512, 3, 16)) for n in lengths), line=True)
        for key, layer in table1.LAYERS.items()
    ]
    tells = (
        "On logarithmic axes, self-attention has slope 2, and all other layers have slope 1. Self-attention and "
        "recurrent layers cost the same at n = d."
    )
    up = Axis("operations per layer", log=True)
    title = "Table 1's formulas at d = 512, k = 3, r = 16"
    return Plot(title, tells, Axis("sequence length n", log=True), up, tuple(curves))


def cost(languages: str) -> Plot:
    """Return a plot of BLEU against training cost, for the systems in Table 2 whose cost is given in the paper.

    Args:
        languages: Language pair: "en-de" or "en-fr".
    """
    points: _Points = {"single models": [], "ensembles": [], "Transformer": []}
    for key, row in ROWS["table2"].items():
        if flops := row.get(f"{languages}.flops"):
            kind = "Transformer" if "spec" in row else "ensembles" if key.endswith("-ensemble") else "single models"
            printed = CLAIMS[f"table2.{key}.{languages}.bleu"].printed
            points[kind] += [(float(flops), bleu.value, row["name"]) for bleu in printed]
    words = [f"{name} {y:g} at {x:.2g} FLOPs" for group in points.values() for x, y, name in group]
    across = Axis("training FLOPs, as reported", log=True)
    return Plot(f"Table 2, {languages.upper()}: BLEU by cost", "; ".join(words), across, Axis("BLEU"), _series(points))


def sizes(metric: str, ours: tuple[Checked, Measurements] | None = None) -> Plot | None:
    """Return a plot of perplexity or BLEU against the number of parameters, for the models in Table 3.

    Args:
        metric: "perplexity" or "bleu".
        ours: Checked claims, and the measurements with our own training runs. The plot shows the scores of these runs.
            If None, the plot shows the numbers in the paper.

    Returns:
        The plot, or None if there are no points.
    """
    measure = get_metric(metric)
    points: _Points = {name: [] for name in _SECTIONS.values()}
    for key, row in ROWS["table3"].items():
        printed = derived.parameters(f"table3/{key}") / 1e6, float(row[metric])
        if point := _measured_point(metric, key, *ours) if ours else printed:
            points[_SECTIONS[row["section"]]].append((*point, row["says"]))
    points = {name: group for name, group in points.items() if group}
    if not points:
        return None
    words = [f"{label} {y:g} at {x:.3g} M" for group in points.values() for x, y, label in group]
    title = f"Table 3, {'our runs' if ours else 'as reported'}: {measure.title} by parameters"
    up = Axis(f"{measure.title}, {'dev set' if ours else 'newstest2013'}")
    return Plot(title, "; ".join(words), Axis("million parameters", log=True), up, _series(points))


def _measured_point(metric: str, row: str, checked: Checked, measurements: Measurements) -> tuple[float, float] | None:
    """Return the parameter count (in millions) and the mean score of our runs for a Table 3 row.

    If there are no runs, return None.
    """
    score = checked[f"table3.{row}.{metric}"]
    spec = next((run.spec for run in measurements.runs if run.folder in score.runs[:1]), None)
    return (compiler.parameters(spec) / 1e6, score.value or 0.0) if spec else None


def _series(points: _Points) -> tuple[Series, ...]:
    return tuple(
        Series(name, tuple((x, y) for x, y, _ in group), tuple(label for _, _, label in group))
        for name, group in points.items()
    )


def all_plots(checked: Checked, measurements: Measurements) -> Sequence[Plot]:
    """Return all plots that have data, in the order in which the page shows them."""
    metrics = ("perplexity", "bleu")
    printed = [sizes(metric) for metric in metrics]
    ours = [sizes(metric, (checked, measurements)) for metric in metrics]
    plots = (complexity(), schedule(), cost("en-de"), cost("en-fr"), *printed, *ours)
    return [plot for plot in plots if plot is not None]

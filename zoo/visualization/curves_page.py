"""HTML page with learning curves: each metric of one or more runs by step and by training time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from zoo.visualization.page import asset, escape_text, page, table, table_cells
from zoo.visualization.plot import STYLE, Axis, Plot, Series, plot_figures

_TIME_UNITS = ((2 * 86_400, 86_400, "days"), (2 * 3600, 3600, "hours"), (120, 60, "minutes"), (0, 1, "seconds"))
"""Units of time. For each unit: the shortest training time that is shown in it (in seconds), its length (in seconds),
and its name."""

MetricValues = tuple[tuple[float, float, float], ...]
"""Values of a metric in a run, as (step, seconds of training, value). A value that is not finite leaves a gap."""


def finite(values: MetricValues) -> MetricValues:
    """Return the points whose value is a finite number."""
    return tuple(point for point in values if math.isfinite(point[2]))


@dataclass(frozen=True)
class CurveMetric:
    """Training metric: its key in the log, its title, and the label and scale of its axis."""

    key: str
    title: str
    label: str
    log: bool = False
    higher_is_better: bool | None = None
    """Whether higher values are better. None if neither direction is better."""


@dataclass(frozen=True)
class RunCurves:
    """Learning curves of a run.

    Attributes:
        name: The name of the run.
        state: A sentence about the progress of the run.
        values: Values of each metric that the log contains, by the metric's key.
    """

    name: str
    state: str
    values: Mapping[str, MetricValues]


def curves_page(metrics: Sequence[CurveMetric], runs: Sequence[RunCurves]) -> str:
    """Return a self-contained HTML page with two plots for each metric, by step and by time.

    Args:
        metrics: The metrics. For each metric, at least one run must have a finite value.
        runs: The runs, in the order of the legend.
    """
    title = f"Learning curves of {', '.join(run.name for run in runs)}"
    body = [f"<h1>{escape_text(title)}</h1>", _run_table(metrics, runs)]
    for metric in metrics:
        body.append(f'<h2 id="{escape_text(metric.key)}">{escape_text(metric.title)}</h2>')
        body.append(plot_figures(_plots(metric, runs)))
    return page(title, *body, style=STYLE + asset("curves_page.css"), series_count=len(runs))


def _plots(metric: CurveMetric, runs: Sequence[RunCurves]) -> Iterator[Plot]:
    """Yield the plots of a metric, by step and by time. Each run has the same colour in all plots."""
    values = [run.values.get(metric.key, ()) for run in runs]
    longest = max(seconds for each in values for _, seconds, _ in finite(each))
    unit, unit_name = next((size, name) for smallest, size, name in _TIME_UNITS if longest >= smallest)
    for by, axis in (("step", Axis("step")), ("time", Axis(f"training time ({unit_name})"))):
        series = tuple(
            Series(
                run.name,
                tuple((step if by == "step" else seconds / unit, value) for step, seconds, value in each),
                line=True,
            )
            for run, each in zip(runs, values, strict=True)
        )
        names = ", ".join(run.name for run, each in zip(runs, values, strict=True) if finite(each))
        summary = f"{metric.title} of {names}. The table at the top has the last values."
        yield Plot(f"{metric.title} by {by}", summary, axis, Axis(metric.label, metric.log), series)


def _run_table(metrics: Sequence[CurveMetric], runs: Sequence[RunCurves]) -> str:
    columns, rows = ["Run", "Progress", *(f"{metric.title}>" for metric in metrics)], list[str]()
    for number, run in enumerate(runs):
        colour = f'<i class="colour" style="background: var(--series-{number})"></i>' if len(runs) > 1 else ""
        cells = [escape_text(run.state), *(_last_and_best(metric, run) for metric in metrics)]
        name = f'<th scope="row">{colour}<bdi>{escape_text(run.name)}</bdi></th>'
        rows.append(f"<tr>{name}{table_cells(columns[1:], cells)}</tr>")
    return table("Last value of each metric, and the best value if it differs", columns, rows)


def _last_and_best(metric: CurveMetric, run: RunCurves) -> str:
    """Return a table cell with the last value of a metric and, if it differs, the best value and its step."""
    points = finite(run.values.get(metric.key, ()))
    if not points:
        return "-"
    last = f"{points[-1][2]:,.5g}"
    if metric.higher_is_better is None:
        return last
    choose = max if metric.higher_is_better else min
    step, _, best = choose(points, key=lambda point: point[2])
    differs = best != points[-1][2]
    return f'{last}<br><span class="quiet">best {best:,.5g} at step {step:,.0f}</span>' if differs else last

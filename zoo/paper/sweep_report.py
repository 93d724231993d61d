"""Report the scores of a sweep, and compare pairs of its specs, with the paper's numbers for rows of Table 3."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from zoo.evaluation.comparison import SAMPLES
from zoo.evaluation.metrics import get_metric
from zoo.paper.claims import ROWS, Row
from zoo.report import Table, duration
from zoo.training.sweeps.comparison import (
    LOG_METRICS,
    METRICS,
    Difference,
    RowPair,
    ScoreSample,
    SweepComparison,
    Verdict,
)
from zoo.training.sweeps.trials import SweepRow

ORDERED = ("perplexity", "paper_bleu")
"""Metrics in Table 3, by which pairs of its rows are compared. The paper computes BLEU differently from sacreBLEU."""


def printed_row(row: SweepRow) -> Row | None:
    """Return the paper's numbers for a row of a sweep, or None if the row is not in Table 3.

    Overrides are ignored, so a scaled-down model is compared with the full-size model in Table 3.
    """
    folder, _, key = row.spec.short_name.rpartition("/")
    return ROWS["table3"].get(key) if folder == "table3" else None


def printed_difference(metric: str, pair: RowPair) -> float | None:
    """Return the second row's score in the paper minus the first row's, or None if the paper lacks a score.

    For perplexity, return the difference between the natural logarithms of the two perplexities.
    """
    one, two = printed_row(pair.first), printed_row(pair.second)
    if one is None or two is None or metric not in ORDERED:
        return None
    first, second = (float(row[metric.removeprefix("paper_")]) for row in (one, two))
    return math.log(second / first) if metric in LOG_METRICS else second - first


def sweep_tables(comparison: SweepComparison) -> list[Table]:
    """Return the tables of a sweep report.

    The first table contains the scores of each row. If the sweep compares pairs of rows, a second table contains these
    comparisons.
    """
    tables = [row_table(comparison), *([pair_table(comparison)] if comparison.pairs else [])]
    return [*tables[:-1], replace(tables[-1], notes=list(sweep_notes(comparison)))]


def row_table(comparison: SweepComparison) -> Table:
    """Return a table with the scores of a sweep, with one row for each spec.

    For specs of the paper's Table 3, the row also contains the paper's numbers.
    """
    columns = ["row", "sets", "seeds>", "parameters>", *(f"{get_metric(name).title}>" for name in METRICS), "time>"]
    with_paper = any(printed_row(result.row) for result in comparison.results)
    lines = []
    for result in comparison.results:
        scores = [_format_score(name, result.samples[name]) for name in METRICS]
        line = [result.row.name, _format_changes(result.row), f"{len(result.trials)}", f"{result.parameters:,}"]
        line += [*scores, duration(result.seconds)]
        if with_paper:
            paper = printed_row(result.row)
            parameters = f"{paper['parameters']} M" if paper and "parameters" in paper else ""
            line += [paper["perplexity"], paper["bleu"], parameters] if paper else [""] * 3
        lines.append(line)
    return Table(columns + (["paper: perplexity>", "BLEU>", "parameters>"] if with_paper else []), lines)


def pair_table(comparison: SweepComparison) -> Table:
    """Return a table that compares pairs of specs by the metrics of Table 3.

    Each row contains the difference between the scores of two specs (second minus first; for perplexity, the ratio) and
    a verdict: whether the sweep confirms the paper's ordering.
    """
    with_paper = any(_verdict(pair, name) for pair in comparison.pairs for name in ORDERED)
    columns = ["", "than"]
    for name in ORDERED:
        ratio = " ×" if name in LOG_METRICS else ""
        columns += [f"{get_metric(name).title}{ratio}>", *(["paper>"] if with_paper else []), ""]
    lines = []
    for pair in comparison.pairs:
        line = [pair.second.name, pair.first.name]
        for name in ORDERED:
            line.append(_format_difference(name, pair.differences.get(name)))
            if with_paper:
                line.append(_format_printed(name, printed_difference(name, pair)))
            line.append(_judgement(pair, name))
        lines.append(line)
    return Table(columns, lines)


def sweep_notes(comparison: SweepComparison) -> Iterator[str]:
    """Yield notes for the reader of the tables.

    The notes give the overrides of each row and the meaning of the confidence intervals. They also state for how many
    pairs of rows the sweep confirms the ordering in Table 3.
    """
    for result in comparison.results:
        if result.row.parent is None:
            yield f"{result.row.name}: {' '.join(result.row.overrides) or 'as shipped'}"
    degrees = comparison.variances["paper_bleu"].degrees
    seeds = f"pooled over all rows ({degrees} degrees of freedom)" if degrees else "which is unknown with one seed"
    yield (
        f"± is half the width of a 95% confidence interval, computed for a score from {SAMPLES:,} bootstrap samples "
        f"of the sentences, and for a difference from the paired bootstrap and the variance between seeds, {seeds}"
    )
    verdicts = [verdict for pair in comparison.pairs for name in ORDERED if (verdict := _verdict(pair, name))]
    if verdicts:
        counts = Counter(verdicts)
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
        yield (
            f"of {len(verdicts)} orderings that Table 3 implies: {words}; if two rows are equally good, they still "
            "appear to differ in one of twenty cases"
        )
    if not degrees:
        yield "no difference is tested, because each row has one seed: pass `--seeds 3` to train each spec three times"


def sweep_json(comparison: SweepComparison) -> dict[str, Any]:
    """Return the whole comparison as a dictionary that can be written as JSON.

    Differences in perplexity are given as differences between natural logarithms.
    """
    rows = []
    for result in comparison.results:
        row, paper = result.row, printed_row(result.row)
        rows.append(
            {
                "row": row.name,
                "spec": row.reference,
                "overrides": list(row.overrides),
                "extends": row.parent,
                "sets": row.changes,
                "parameters": result.parameters,
                "seconds": result.seconds,
                "runs": [str(trial.run.folder) for trial in result.trials],
                "scores": {name: _score_json(name, result.samples[name]) for name in METRICS},
                "paper": {name: paper.get(name) for name in ("perplexity", "bleu", "parameters")} if paper else None,
            }
        )
    pairs = []
    for pair in comparison.pairs:
        by = {
            name: {
                **asdict(difference),
                "beyond_noise": difference.beyond_noise,
                "paper": printed_difference(name, pair),
                "verdict": _verdict(pair, name),
            }
            for name, difference in pair.differences.items()
        }
        pairs.append({"row": pair.second.name, "than": pair.first.name, "by": by})
    return {"rows": rows, "pairs": pairs, "seeds": {k: asdict(v) for k, v in comparison.variances.items()}}


def _score_json(name: str, sample: ScoreSample) -> dict[str, Any]:
    seeds = [_without_log(name, value)[0] for value in sample.seeds]
    mean, half_interval = _without_log(name, sample.mean, sample.half_interval)
    return {"mean": mean, "half_interval": half_interval, "seeds": seeds}


def _without_log(name: str, value: float, half_interval: float = 0.0) -> tuple[float, float]:
    """Convert a mean score or a difference, and half the width of its confidence interval, for display.

    If the metric is in `LOG_METRICS`, the mean becomes a geometric mean, and the difference becomes a ratio.
    """
    if name not in LOG_METRICS:
        return value, half_interval
    return math.exp(value), math.exp(value) * half_interval


def _format_score(name: str, sample: ScoreSample) -> str:
    mean, half_interval = _without_log(name, sample.mean, sample.half_interval)
    return f"{get_metric(name).format_score(mean)} ± {get_metric(name).format_score(half_interval)}"


def _format_difference(name: str, difference: Difference | None) -> str:
    if difference is None:
        return "-"
    value, half_interval = _without_log(name, difference.value, difference.half_interval)
    return f"{value:.3f} ± {half_interval:.3f}" if name in LOG_METRICS else f"{value:+.2f} ± {half_interval:.2f}"


def _format_printed(name: str, difference: float | None) -> str:
    if difference is None:
        return "-"
    value, _ = _without_log(name, difference)
    return f"{value:.3f}" if name in LOG_METRICS else f"{value:+.1f}"


def _verdict(pair: RowPair, name: str) -> Verdict | None:
    """Return whether the sweep confirms the paper's ordering of two rows by a metric.

    Returns:
        The verdict, or None if the paper gives no numbers or equal numbers for the two rows.
    """
    difference, printed = pair.differences.get(name), printed_difference(name, pair)
    return difference.verdict(printed) if difference and printed else None


def _judgement(pair: RowPair, name: str) -> str:
    """Return the verdict that the table shows for a pair of rows: whether the sweep confirms the paper's ordering.

    If the paper gives no ordering, return "better", "worse", "within noise" or "untested (one seed)" for the second
    row. If the rows cannot be compared by the metric, return an empty string.
    """
    difference, verdict = pair.differences.get(name), _verdict(pair, name)
    if verdict or difference is None:
        return verdict or ""
    if not difference.beyond_noise:
        return difference.verdict(0.0)
    return "better" if get_metric(name).is_better(difference.value, 0.0) else "worse"


def _format_changes(row: SweepRow) -> str:
    values = {key.rpartition(".")[2]: value for key, value in row.changes.items()}
    return " ".join(f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in values.items())

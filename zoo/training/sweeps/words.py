"""The table of a sweep for people and for programs."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from zoo.evaluation.bootstrap import SAMPLES
from zoo.evaluation.metrics import get_metric
from zoo.report import duration
from zoo.training.sweeps.difference import Difference, Sample, Verdict
from zoo.training.sweeps.printed import ORDERED, printed, printed_difference
from zoo.training.sweeps.rows import Row
from zoo.training.sweeps.table import METRICS, Pair, Table

Lines = tuple[list[str], list[list[str]]]
"""Columns, as `show_table` has them, and rows."""


def standing_lines(table: Table) -> Lines:
    """A line for each row, with what the paper prints of it where it does."""
    columns = ["row", "sets", "seeds>", "parameters>", *(f"{get_metric(name).title}>" for name in METRICS), "time>"]
    beside = any(printed(each.row) for each in table.standings)
    lines = []
    for each in table.standings:
        scores = [_score(name, each.samples[name]) for name in METRICS]
        line = [each.row.name, _own(each.row), f"{len(each.trials)}", f"{each.parameters:,}", *scores]
        paper = printed(each.row)
        of_paper = (
            [paper.perplexity, paper.bleu, f"{paper.parameters} M" if paper.parameters else ""] if paper else [""] * 3
        )
        lines.append([*line, duration(each.seconds), *(of_paper if beside else [])])
    return columns + (["paper: perplexity>", "BLEU>", "parameters>"] if beside else []), lines


def pair_lines(table: Table) -> Lines:
    """A line for each pair: how much the second row differs from the first, and what that says."""
    beside = any(_verdict(pair, name) for pair in table.pairs for name in ORDERED)
    columns = ["", "than"]
    for name in ORDERED:
        ratio = " ×" if name == "perplexity" else ""
        columns += [f"{get_metric(name).title}{ratio}>", *(["paper>"] if beside else []), ""]
    lines = []
    for pair in table.pairs:
        line = [pair.second.name, pair.first.name]
        for name in ORDERED:
            found, wanted = pair.differences.get(name), printed_difference(name, pair.first, pair.second)
            line += [_difference(name, found), *([_paper(name, wanted)] if beside else []), _said(pair, name)]
        lines.append(line)
    return columns, lines


def notes(table: Table) -> Iterator[str]:
    """What was compared, and what came of it."""
    for each in table.standings:
        if each.row.above is None:
            yield f"{each.row.name}: {' '.join(each.row.overrides) or 'as it is shipped'}"
    degrees = table.spreads["paper_bleu"].degrees
    yield (
        f"± is half an interval of 95 %: behind a score that of {SAMPLES:,} sets of sentences drawn anew, behind a "
        "difference that of the same sets for both (paired bootstrap) together with the spread of seeds, "
        + (f"pooled over all rows ({degrees} degrees of freedom)" if degrees else "which one seed a row does not show")
    )
    verdicts = [found for pair in table.pairs for name in ORDERED if (found := _verdict(pair, name))]
    if verdicts:
        counts = Counter(verdicts)
        told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict)
        chance = "one in twenty looks like one" if degrees else "more than one in twenty look like one, by their seed"
        yield f"of {len(verdicts)} orderings that Table 3 prints: {told}; where there is no difference, {chance}"


def as_json(table: Table) -> dict[str, Any]:
    """The same, whole; perplexities and their intervals as they are, their differences in natural logarithms."""
    rows = []
    for each in table.standings:
        paper = printed(each.row)
        rows.append(
            {
                "row": each.row.name,
                "spec": each.row.reference,
                "overrides": list(each.row.overrides),
                "extends": each.row.above,
                "sets": {key: _value(each.row, key) for key in each.row.own},
                "parameters": each.parameters,
                "seconds": each.seconds,
                "runs": [str(trial.run.folder) for trial in each.trials],
                "scores": {name: _plain(name, each.samples[name]) for name in METRICS},
                "paper": {"perplexity": paper.perplexity, "bleu": paper.bleu, "parameters": paper.parameters}
                if paper
                else None,
            }
        )
    pairs = [
        {
            "row": pair.second.name,
            "than": pair.first.name,
            "by": {
                name: {
                    **asdict(found),
                    "beyond_noise": found.beyond_noise,
                    "paper": printed_difference(name, pair.first, pair.second),
                    "verdict": _verdict(pair, name),
                }
                for name, found in pair.differences.items()
            },
        }
        for pair in table.pairs
    ]
    spreads = {name: asdict(each) for name, each in table.spreads.items()}
    return {"rows": rows, "pairs": pairs, "seeds": spreads}


def _plain(name: str, sample: Sample) -> dict[str, Any]:
    each = [math.exp(value) if name == "perplexity" else value for value in sample.seeds]
    mean, half = _mean(name, sample)
    return {"mean": mean, "half": half, "seeds": each}


def _mean(name: str, sample: Sample) -> tuple[float, float]:
    """And half the interval; of perplexity the geometric mean."""
    if name != "perplexity":
        return sample.mean, sample.half
    mean = math.exp(sample.mean)
    return mean, mean * sample.half


def _score(name: str, sample: Sample) -> str:
    mean, half = _mean(name, sample)
    return f"{get_metric(name).format_score(mean)} ± {get_metric(name).format_score(half)}"


def _difference(name: str, found: Difference | None) -> str:
    if found is None:
        return "-"
    if name == "perplexity":
        ratio = math.exp(found.value)
        return f"{ratio:.3f} ± {ratio * found.half:.3f}"
    return f"{found.value:+.2f} ± {found.half:.2f}"


def _paper(name: str, wanted: float | None) -> str:
    if wanted is None:
        return "-"
    return f"{math.exp(wanted):.3f}" if name == "perplexity" else f"{wanted:+.1f}"


def _verdict(pair: Pair, name: str) -> Verdict | None:
    """On the paper's ordering of two rows, where it has one: two that it prints alike have none."""
    found, wanted = pair.differences.get(name), printed_difference(name, pair.first, pair.second)
    return found.verdict(wanted) if found and wanted else None


def _said(pair: Pair, name: str) -> str:
    """The verdict; where the paper has no ordering, whether the one is better than the other."""
    found, verdict = pair.differences.get(name), _verdict(pair, name)
    if verdict or found is None:
        return verdict or ""
    if not found.beyond_noise:
        return Verdict.NOISE
    return "better" if get_metric(name).is_better(found.value, 0.0) else "worse"


def _own(row: Row) -> str:
    return " ".join(f"{key.rpartition('.')[2]}={_plainly(_value(row, key))}" for key in row.own)


def _plainly(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _value(row: Row, key: str) -> Any:
    found: Any = row.spec.model_dump(mode="json")
    for step in key.split("."):
        found = found[step]
    return found

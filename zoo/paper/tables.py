"""The paper's tables next to our own numbers, for the terminal and for the HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import specs
from zoo.evaluation.metrics import get_metric
from zoo.models.folder import RUNS
from zoo.paper import table1, table2, table3, table4
from zoo.paper.claims import CheckedClaim, Status, power_of_ten
from zoo.paper.evidence import Evidence
from zoo.paper.ledger import summary
from zoo.report import duration

Entries = Mapping[str, CheckedClaim]
"""Checked claims by their keys."""


@dataclass(frozen=True)
class Table:
    """Table of text.

    Columns whose names end in `>` are right-aligned. Cells may be wrapped in columns whose names end in `…`.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def by_key(entries: Sequence[CheckedClaim]) -> Entries:
    """Return a dictionary of the checked claims by their keys."""
    return {entry.claim.key: entry for entry in entries}


def tables(name: str, entries: Sequence[CheckedClaim], evidence: Evidence) -> tuple[Table, ...]:
    """Return the tables that `zoo paper` prints for an argument. Some include a table of our own training runs.

    Args:
        name: The argument: "table1" to "table4", or "claims".
        entries: All checked claims.
        evidence: The evidence that they were checked with.
    """
    return tuple(TABLES[name](by_key(entries), evidence))


def of_table(name: str, entries: Sequence[CheckedClaim]) -> tuple[CheckedClaim, ...]:
    """Return the checked claims of one table, such as "table1". For "claims", return all of them."""
    return tuple(entry for entry in entries if name == "claims" or entry.claim.key.startswith(f"{name}."))


def summary_table(entries: Sequence[CheckedClaim], evidence: Evidence) -> Table:
    """Return a table with the number of claims for each part of the paper and each status."""
    rows = []
    for key, name in {**_PARTS, "": "all"}.items():
        part = tuple(entry for entry in entries if entry.claim.key.startswith(f"{key}." if key else ""))
        rows.append((name, *(f"{count:,}" for count in summary(part).values()), f"{len(part):,}"))
    return Table("The paper's claims", ("part", *(f"{status}>" for status in Status), "all>"), tuple(rows))


def contradiction_table(entries: Sequence[CheckedClaim]) -> Table:
    """Return a table of the claims that zoo contradicts: its own number or finding differs from the paper's."""
    columns = ("section", "claim…", "paper>", "ours>", "because…")
    differing = [entry for entry in entries if entry.finding.status is Status.DIFFERENT]
    cells = [claim_row(entry) for entry in differing]
    rows = tuple((section, says, paper, ours, because) for section, says, _, paper, ours, _, because in cells)
    return Table("Claims that come out differently", columns, rows)


_PARTS = {
    "network": "sections 3 and 4: the network",
    "table1": "Table 1: complexity",
    "recipe": "section 5: training",
    "table2": "Table 2: BLEU and cost",
    "table3": "Table 3: variations",
    "table4": "Table 4: parsing",
    "figures": "Figures 3 to 5",
}


def _claims(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = ("section", "claim…", "spec", "paper>", "ours>", "status", "because…")
    yield Table("Claims", columns, tuple(claim_row(entry) for entry in entries.values()))


def claim_row(entry: CheckedClaim) -> tuple[str, ...]:
    """Return the cells of a claim: section, claim, spec, the paper's number, zoo's number, status and reason."""
    claim, finding = entry.claim, entry.finding
    printed = " or ".join(printed.text for printed in claim.printed)
    unit = f", {claim.unit}" if claim.unit and claim.unit.casefold() not in claim.says.casefold() else ""
    numbers = claim.spec or "-", printed or "-", finding.ours or "-"
    return claim.section, f"{claim.says}{unit}", *numbers, finding.status.value, finding.because


def _table1(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("layer", "complexity>", "by the graph>", "sequential>", "by the graph>", "maximum path>", "by the graph>"),
        "time>",
    )
    rows = []
    for layer in table1.LAYERS:
        exponents = table1.exponents(layer).items()
        growth = "·".join(_power(name, graph) for name, (graph, _) in exponents if graph > 0.005)
        steps, path = layer.counted(table1.SIZES)
        time = entries[f"table1.{layer.key}.time"].finding.ours or "-"
        rows.append((layer.name, layer.complexity, growth, layer.sequential, f"{steps}", layer.path, f"{path}", time))
    sizes = ", ".join(f"{name} = {value}" for name, value in table1.SIZES.items() if name != "d")
    notes = (
        f"Counted in graphs of a decoder layer, with {sizes} for sequential operations and paths. As in the paper, "
        "the projections of attention are not counted.",
    )
    title = "Table 1: layers with n positions, d features, kernel width k, neighbourhood r"
    yield Table(title, columns, tuple(rows), notes)
    if evidence.timings:
        yield _timing_table(evidence)


def _timing_table(evidence: Evidence) -> Table:
    names = {layer.key: layer.name for layer in table1.LAYERS}
    lengths = sorted({n for timing in evidence.timings for n, _ in timing.seconds})
    rows = []
    for timing in evidence.timings:
        seconds = dict(timing.seconds)
        cells = (f"{1000 * seconds[n]:,.1f}" if n in seconds else "-" for n in lengths)
        rows.append((names[timing.key], *cells, f"n^{timing.exponent:.2f}", f"n^{timing.formula:.2f}"))
    columns = ("layer", *(f"n = {n:,}>" for n in lengths), "grows as>", "formula>")
    notes = (
        "Forward pass of a decoder layer. If a length takes over a quarter of a second, greater ones are left out.",
    )
    return Table("Table 1 measured on this machine, in milliseconds", columns, tuple(rows), notes)


def _power(name: str, exponent: float) -> str:
    digits = f"{exponent:.2f}".rstrip("0").rstrip(".")
    return name if digits == "1" else f"{name}^{digits}"


def _table2(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("system", "EN-DE BLEU>", "ours>", "EN-FR BLEU>", "ours>"),
        *("EN-DE FLOPs>", "EN-FR FLOPs>", "derived>", "of products, by the plan>"),
    )
    rows = []
    for system in table2.ROWS:
        name = f"{system.name} ensemble" if system.ensemble else system.name
        bleu = [cell for pair in ("en-de", "en-fr") for cell in _numbers(entries, f"table2.{system.key}.{pair}.bleu")]
        flops = [_numbers(entries, f"table2.{system.key}.{pair}.flops") for pair in ("en-de", "en-fr")]
        spec = system.german.spec
        plan = _planned_flops(spec, entries[f"table2.{system.key}.en-de.flops"]) if spec else "-"
        rows.append((name, *bleu, flops[0][0], flops[1][0], flops[0][1], plan))
    notes = (
        "The paper's FLOPs are training time x GPUs x sustained FLOPs of a GPU. The last column counts the FLOPs of "
        "all matrix products in training, forward and backward, with full batches of sentences of 27 tokens. In "
        "parentheses it gives this number as a share of the paper's FLOPs.",
    )
    yield Table("Table 2: BLEU on newstest2014, and training cost", columns, tuple(rows), notes)
    if costs := tuple(map(_own_cost, table2.own_costs(evidence))):
        titles = (
            *("run", "the paper's BLEU>", "time>", "devices>", "FLOPs of a device>"),
            *("cost by 6.1>", "of products>", "scale…"),
        )
        notes = ("FLOPs of a device: speed of a large matrix product, measured at the start of training.",)
        yield Table(f"The cost of our own runs in `{evidence.root}`", titles, costs, notes)


def _planned_flops(spec: str, cost: CheckedClaim) -> str:
    planned = table2.planned_flops(spec)
    return f"{power_of_ten(planned)} ({planned / cost.claim.number:.0%})"


def _own_cost(cost: table2.OwnCost) -> tuple[str, ...]:
    bleu = "-" if cost.bleu is None else f"{cost.bleu:.2f}"
    share = f" ({cost.flops / cost.estimated_flops:.0%})" if cost.estimated_flops else ""
    peak = f"{cost.peak / 1e9:,.0f} GFLOPS" if cost.peak else "-"
    estimate = power_of_ten(cost.estimated_flops) if cost.estimated_flops else "-"
    time, flops = duration(cost.seconds), f"{power_of_ten(cost.flops)}{share}"
    return cost.folder, bleu, time, f"{cost.devices}", peak, estimate, flops, cost.scale


def _table3(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("", "row…", "M parameters>", "ours>", "fitting vocabulary>"),
        *("perplexity>", "ours>", "BLEU>", "ours>", "measured, or command that measures…"),
    )
    common, measured = _scales(entries, evidence)
    rows = []
    for row in table3.ROWS:
        cells = [_numbers(entries, f"table3.{row.key}.{column}") for column in ("parameters", "perplexity", "bleu")]
        fit = table3.vocabulary_sizes(row) if row.parameters else range(0)
        tokens = f"{fit[0]:,} to {fit[-1]:,}" if fit else "-"
        ours = cells[0][1] if row.parameters else f"{table3.parameters(row.spec) / 1e6:.2f}"
        parameters = (cells[0][0], ours, tokens)
        rows.append((row.part, row.says, *parameters, *cells[1], *cells[2], measured[row.key]))
    vocabulary = specs.load("table3/base").vocabulary.size
    notes = (
        *([f"Measured with {', '.join(common)}. The last column lists further differences."] if common else []),
        f"Our number of parameters is for a vocabulary of {vocabulary:,} tokens. The next column gives the vocabulary "
        "sizes for which the number of parameters is as printed.",
        f"All ten small models together: {entries['table3.counts'].finding.because}.",
    )
    yield Table("Table 3: variations of the base model, newstest2013", columns, tuple(rows), notes)


def _scales(entries: Entries, evidence: Evidence) -> tuple[list[str], dict[str, str]]:
    """Separate the settings that the runs of all measured rows share, such as the number of steps, from other settings.

    Returns:
        The shared settings. For the key of each row, a description of its runs, with their other settings. If the row
        was not measured, the command that measures it.
    """
    runs = {run.folder: run for run in evidence.runs}
    findings = {row.key: entries[f"table3.{row.key}.bleu"].finding for row in table3.ROWS}
    first = {key: runs[finding.runs[0]] for key, finding in findings.items() if finding.runs}
    scales = [run.scale_parts for run in first.values()]
    common = [part for part in scales[0] if all(part in scale for scale in scales)] if len(scales) > 1 else []
    measured = {row.key: _missing(row, findings[row.key].because, evidence) for row in table3.ROWS}
    for key, run in first.items():
        words = findings[key].because.removesuffix(f": {run.scale}")
        rest = [part for part in run.scale_parts if part not in common]
        measured[key] = f"{words}: {', '.join(rest)}" if rest else words
    return common, measured


def _missing(row: table3.VariationRow, because: str, evidence: Evidence) -> str:
    """Return the command that measures a row, or the reason why its runs have no score."""
    if evidence.of(row.spec):
        return because
    return f"zoo train {row.spec}" + ("" if evidence.root == RUNS else f" --run {evidence.root / row.key}")


def _table4(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = ("parser", "training", "F1>", "ours>", "because…")
    rows = []
    for row in table4.ROWS:
        entry = entries[f"table4.{row.key}"]
        because = entry.finding.because if row.spec else "-"
        rows.append((row.name, row.how, *_numbers(entries, entry.claim.key), because))
    yield Table("Table 4: F1 on section 23 of the Wall Street Journal", columns, tuple(rows))
    metric = get_metric("f1")
    own = [run for run in evidence.runs if run.spec.task.kind == metric.task]
    if own:
        scores = [[metric.format_score(run.score(split, metric)) for split in ("dev", "test")] for run in own]
        cells = tuple((run.folder, *values, run.scale) for run, values in zip(own, scores, strict=True))
        yield Table(f"Our own parsers in `{evidence.root}`", ("run", "dev F1>", "test F1>", "scale…"), cells)


def _numbers(entries: Entries, key: str) -> tuple[str, str]:
    """Return the paper's number and zoo's number for a claim as text. A missing number becomes a dash."""
    if key not in entries:
        return "-", "-"
    claim, finding = entries[key].claim, entries[key].finding
    return " or ".join(printed.text for printed in claim.printed), finding.ours or "-"


TABLES: Mapping[str, Callable[[Entries, Evidence], Iterator[Table]]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "claims": _claims,
}
"""Functions that yield the tables for each argument of `zoo paper`."""

"""The paper's tables, its columns beside ours: for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import specs
from zoo.evaluation.metrics import get_metric
from zoo.paper import table1, table2, table3, table4
from zoo.paper.claim import Entry
from zoo.paper.evidence import Evidence
from zoo.paper.ledger import summary
from zoo.paper.numbers import power
from zoo.report import duration

Entries = Mapping[str, Entry]
"""By their keys."""


@dataclass(frozen=True)
class Table:
    """Rows of text. A column whose name ends in `>` is set to the right, one that ends in `…` may be folded."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def by_key(entries: Sequence[Entry]) -> Entries:
    return {entry.claim.key: entry for entry in entries}


def tables(name: str, entries: Sequence[Entry], evidence: Evidence) -> tuple[Table, ...]:
    """Those that are shown for "table1" to "table4" and "claims", some with another one of our own runs."""
    return tuple(TABLES[name](by_key(entries), evidence))


def of_table(name: str, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The claims of one table; all of them for "claims"."""
    return tuple(entry for entry in entries if name == "claims" or entry.claim.key.startswith(f"{name}."))


def summed(entries: Sequence[Entry], evidence: Evidence) -> Table:
    """How many claims there are of each status."""
    counts = summary(tuple(entries))
    rows = tuple((status, f"{count:,}") for status, count in counts.items())
    return Table("The paper's claims", ("status", "claims>"), (*rows, ("all", f"{len(entries):,}")))


def _claims(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = ("section", "claim…", "spec", "paper>", "ours>", "status", "because…")
    yield Table("Claims", columns, tuple(claim_row(entry) for entry in entries.values()))


def claim_row(entry: Entry) -> tuple[str, ...]:
    """Section, claim, spec, the paper's number, ours, the status and why."""
    claim, finding = entry.claim, entry.finding
    printed = " or ".join(each.text for each in claim.printed)
    unit = f", {claim.unit}" if claim.unit and claim.unit.casefold() not in claim.says.casefold() else ""
    told = claim.section, f"{claim.says}{unit}", claim.spec or "-", printed or "-", finding.ours or "-"
    return *told, finding.status.value, finding.because


def _table1(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("layer", "complexity>", "by the graph>", "sequential>", "by the graph>", "longest path>", "by the graph>"),
        "time>",
    )
    rows = []
    for kind in table1.ALL:
        grown = "·".join(_raised(name, graph) for name, (graph, _) in table1.exponents(kind).items() if graph > 0.005)
        steps, path = kind.counted(table1.AT)
        time = entries[f"table1.{kind.key}.time"].finding.ours or "-"
        rows.append((kind.name, kind.complexity, grown, kind.sequential, f"{steps}", kind.path, f"{path}", time))
    sizes = ", ".join(f"{name} = {value}" for name, value in table1.AT.items() if name != "d")
    notes = (
        f"Counted on graphs of such a layer as a decoder has, steps and paths at {sizes}; of attention without its "
        "projections, as in the paper.",
    )
    title = "Table 1: a layer of n positions and d features, k wide, r near"
    yield Table(title, columns, tuple(rows), notes)
    if evidence.timings:
        yield _timed(evidence)


def _timed(evidence: Evidence) -> Table:
    names = {kind.key: kind.name for kind in table1.ALL}
    lengths = sorted({n for timing in evidence.timings for n, _ in timing.seconds})
    rows = []
    for timing in evidence.timings:
        took = dict(timing.seconds)
        cells = (f"{1000 * took[n]:,.1f}" if n in took else "-" for n in lengths)
        rows.append((names[timing.key], *cells, f"n^{timing.exponent:.2f}", f"n^{timing.formula:.2f}"))
    columns = ("layer", *(f"n = {n:,}>" for n in lengths), "grows as>", "the formula>")
    notes = (
        "Forwards, as a decoder has the layer; what takes longer than a quarter of a second is not asked for more.",
    )
    return Table("The same, measured here, in milliseconds", columns, tuple(rows), notes)


def _raised(name: str, power: float) -> str:
    told = f"{power:.2f}".rstrip("0").rstrip(".")
    return name if told == "1" else f"{name}^{told}"


def _table2(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("system", "EN-DE BLEU>", "ours>", "EN-FR BLEU>", "ours>"),
        *("EN-DE FLOPs>", "EN-FR FLOPs>", "derived>", "of products, by the plan>"),
    )
    rows = []
    for system in table2.ROWS:
        name = f"{system.name} ensemble" if system.ensemble else system.name
        bleu = [cell for pair in ("en-de", "en-fr") for cell in _pair(entries, f"table2.{system.key}.{pair}.bleu")]
        flops = [_pair(entries, f"table2.{system.key}.{pair}.flops") for pair in ("en-de", "en-fr")]
        spec = system.german.spec
        plan = _planned(spec, entries[f"table2.{system.key}.en-de.flops"]) if spec else "-"
        rows.append((name, *bleu, flops[0][0], flops[1][0], flops[0][1], plan))
    notes = (
        "The paper's FLOPs are time x GPUs x what a GPU sustains; the plan's are those of the matrix products, forward "
        "and backward, of all steps on full batches of 27 tokens a sentence, and their share of the paper's.",
    )
    yield Table("Table 2: BLEU on newstest2014, and the cost of training", columns, tuple(rows), notes)
    if own := tuple(map(_own, table2.own(evidence))):
        titles = (
            "run",
            "the paper's BLEU>",
            "time>",
            "devices>",
            "a device sustains>",
            "cost as in 6.1>",
            "of products>",
        )
        notes = ("What a device sustains is a large matrix product's, measured as the training began.",)
        yield Table(f"The same of our own runs in `{evidence.root}`", (*titles, "scale…"), own, notes)


def _planned(spec: str, cost: Entry) -> str:
    planned = table2.planned_flops(spec)
    return f"{power(planned)} ({planned / cost.claim.number:.0%})"


def _own(run: table2.OwnCost) -> tuple[str, ...]:
    bleu = "-" if run.bleu is None else f"{run.bleu:.2f}"
    share = f" ({run.flops / run.priced:.0%})" if run.priced else ""
    sustained = f"{run.peak / 1e9:,.0f} GFLOPS" if run.peak else "-"
    priced = power(run.priced) if run.priced else "-"
    time, flops = duration(run.seconds), f"{power(run.flops)}{share}"
    return run.folder, bleu, time, f"{run.devices}", sustained, priced, flops, run.scale


def _table3(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = (
        *("", "row…", "M parameters>", "ours>", "as printed with tokens>"),
        *("perplexity>", "ours>", "BLEU>", "ours>", "measured…"),
    )
    common, measured = _measured(entries, evidence)
    rows = []
    for row in table3.ROWS:
        cells = [_pair(entries, f"table3.{row.key}.{what}") for what in ("parameters", "perplexity", "bleu")]
        fit = table3.pieces_printing(row) if row.parameters else range(0)
        tokens = f"{fit[0]:,} to {fit[-1]:,}" if fit else "-"
        ours = cells[0][1] if row.parameters else f"{table3.parameters(row.spec) / 1e6:.2f}"
        counted = (cells[0][0], ours, tokens)
        rows.append((row.part, row.says, *counted, *cells[1], *cells[2], measured.get(row.key, "-")))
    own = specs.load("table3/base").vocabulary.size
    notes = (
        *([f"Measured at {', '.join(common)}; beside a row is what else it has otherwise."] if common else []),
        f"Our count is the compiler's with {own:,} tokens; beside it is with which vocabularies it is as printed.",
        f"All ten small counts at once: {entries['table3.counts'].finding.because}.",
    )
    yield Table("Table 3: variations of the base model, newstest2013", columns, tuple(rows), notes)


def _measured(entries: Entries, evidence: Evidence) -> tuple[list[str], dict[str, str]]:
    """What the scales of several rows have in common, and by row what was measured there, with what its scale has more.

    The runs of a row are of one scale.
    """
    folders = {run.folder: run for run in evidence.runs}
    found = {row.key: entries[f"table3.{row.key}.bleu"].finding for row in table3.ROWS}
    first = {key: folders[finding.runs[0]] for key, finding in found.items() if finding.runs}
    scales = [run.scales for run in first.values()]
    common = [part for part in scales[0] if all(part in scale for scale in scales)] if len(scales) > 1 else []
    told = {}
    for key, run in first.items():
        what, more = found[key].because.removesuffix(f": {run.scale}"), [p for p in run.scales if p not in common]
        told[key] = f"{what}: {', '.join(more)}" if more else what
    return common, told


def _table4(entries: Entries, evidence: Evidence) -> Iterator[Table]:
    columns = ("parser", "training", "F1>", "ours>", "because…")
    rows = []
    for row in table4.ROWS:
        entry = entries[f"table4.{row.key}"]
        rows.append((row.name, row.how, *_pair(entries, entry.claim.key), entry.finding.because if row.spec else "-"))
    yield Table("Table 4: F1 on section 23 of the Wall Street Journal", columns, tuple(rows))
    metric = get_metric("f1")
    own = [run for run in evidence.runs if run.spec.task.kind == metric.task]
    if own:
        scores = [[metric.format_score(run.score(split, metric)) for split in ("dev", "test")] for run in own]
        cells = tuple((run.folder, *each, run.scale) for run, each in zip(own, scores, strict=True))
        yield Table(f"Our own parsers in `{evidence.root}`", ("run", "dev F1>", "test F1>", "scale…"), cells)


def _pair(entries: Entries, key: str) -> tuple[str, str]:
    """What the paper prints, and ours; dashes for what is not there."""
    if key not in entries:
        return "-", "-"
    claim, finding = entries[key].claim, entries[key].finding
    return " or ".join(each.text for each in claim.printed), finding.ours or "-"


TABLES: Mapping[str, Callable[[Entries, Evidence], Iterator[Table]]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "claims": _claims,
}
"""What `zoo paper` shows one of."""

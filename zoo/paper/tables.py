"""The paper's tables next to our own numbers, for the terminal and for the HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import specs
from zoo.evaluation.metrics import get_metric
from zoo.models.catalogue import packaged
from zoo.models.folder import RUNS
from zoo.paper import derived, table1
from zoo.paper.claims import PARTS, ROWS, CheckedClaim, Status, power_of_ten, printed_number, summary
from zoo.paper.runs import Measurements
from zoo.planning.memory_estimate import estimate_memory
from zoo.report import Table, duration

Checked = Mapping[str, CheckedClaim]
"""Checked claims by their keys."""


def of_part(name: str, checked: Checked) -> tuple[CheckedClaim, ...]:
    """Return the checked claims of one part of the paper, such as "table1". For "claims", return all checked claims."""
    return tuple(each for key, each in checked.items() if name == "claims" or key.startswith(f"{name}."))


def summary_table(checked: Checked) -> Table:
    """Return a table with the number of claims for each part of the paper and each status."""
    rows = []
    for key, name in [*((key, part["title"]) for key, part in PARTS.items()), ("claims", "all")]:
        part = of_part(key, checked)
        rows.append((name, *(f"{count:,}" for count in summary(part).values()), f"{len(part):,}"))
    return Table(("part", *(f"{status}>" for status in Status), "all>"), rows, "The paper's claims")


def contradiction_table(checked: Checked) -> Table:
    """Return a table of the claims for which zoo's number or result differs from the paper's."""
    columns = ("section", "claim…", "paper>", "ours>", "because…")
    different = (claim_row(each) for each in checked.values() if each.status is Status.DIFFERENT)
    rows = [(section, says, paper, ours, because) for section, says, _, paper, ours, _, because in different]
    return Table(columns, rows, "Claims that come out differently")


def _claims(checked: Checked, measurements: Measurements) -> Iterator[Table]:
    columns = ("section", "claim…", "spec", "paper>", "ours>", "status", "because…")
    yield Table(columns, list(map(claim_row, checked.values())), "Claims")


def claim_row(checked: CheckedClaim) -> tuple[str, ...]:
    """Return a table row for a claim: section, claim, spec, the paper's number, zoo's number, status and reason."""
    claim = checked.claim
    unit = f", {claim.unit}" if claim.unit and claim.unit.casefold() not in claim.says.casefold() else ""
    words = claim.section, f"{claim.says}{unit}", claim.spec or "-"
    return *words, *_numbers(checked), checked.status.value, checked.because


def _table1(checked: Checked, measurements: Measurements) -> Iterator[Table]:
    columns = "layer", "complexity>", "in the graph>", "sequential>", "in the graph>", "maximum path>", "in the graph>"
    rows = []
    for key, row in ROWS["table1"].items():
        layer = table1.LAYERS[key]
        growth = "·".join(_power(size, graph) for size, (graph, _) in table1.exponents(layer).items() if graph > 0.005)
        steps, path = layer.counted(table1.SIZES)
        rows.append((row["name"], row["operations"], growth, row["steps"], f"{steps}", row["path"], f"{path}"))
    sizes = ", ".join(f"{name} = {value}" for name, value in table1.SIZES.items() if name != "d")
    notes = (
        f"Counted in graphs of a decoder layer, with {sizes} for sequential operations and paths. As in the paper, "
        "the projections of attention are not counted.",
    )
    title = "Table 1: layers with n positions, d features, kernel width k, neighbourhood size r"
    yield Table(columns, rows, title, notes)


def _power(name: str, exponent: float) -> str:
    digits = f"{exponent:.2f}".rstrip("0").rstrip(".")
    return name if digits == "1" else f"{name}^{digits}"


def _table2(checked: Checked, measurements: Measurements) -> Iterator[Table]:
    columns = (
        *("system", "EN-DE BLEU>", "ours>", "EN-FR BLEU>", "ours>"),
        *("EN-DE FLOPs>", "EN-FR FLOPs>", "derived>", "planned>"),
    )
    rows = []
    for key, row in ROWS["table2"].items():
        german, german_flops, french, french_flops = (
            _numbers(checked.get(f"table2.{key}.{languages}.{column}"))
            for languages in ("en-de", "en-fr")
            for column in ("bleu", "flops")
        )
        plan = _planned_flops(row["spec"], f"table2.{key}.en-de.flops") if "spec" in row else "-"
        rows.append((row["name"], *german, *french, german_flops[0], french_flops[0], german_flops[1], plan))
    notes = (
        "The paper's FLOPs are training time x GPUs x sustained FLOPs of a GPU. The last column counts the FLOPs of "
        "all matrix products in training, forward and backward, with full batches of 27-token sentences. In "
        "parentheses, it gives the ratio to the paper's FLOPs.",
    )
    yield Table(columns, rows, "Table 2: BLEU on newstest2014, and training cost", notes)
    if costs := tuple(_own_costs(measurements)):
        titles = (
            *("run", "the paper's BLEU>", "time>", "devices>", "FLOPs of a device>"),
            *("cost as in 6.1>", "products only>", "scale…"),
        )
        notes = ("FLOPs of a device: speed of a large matrix product, measured at the start of training.",)
        yield Table(titles, costs, f"The cost of our own runs in `{measurements.root}`", notes)
    yield _public_models()


def _public_models() -> Table:
    """Return a table with the published scores of public models that have the architecture of the paper's big model."""
    rows = tuple(
        (card.name, score.test, score.metric, f"{score.value:g}", card.trained_by or "-")
        for card in packaged()
        if card.differences
        for score in card.scores
    )
    notes = (
        "These models are in zoo's catalogue. Other authors trained them, with other settings: the page of a model in "
        "the documentation lists the differences. Their scores do not confirm a claim of the paper.",
    )
    columns = ("model", "test set…", "metric…", "score>", "trained by…")
    return Table(columns, rows, "Published scores of models by other authors with the architecture of big", notes)


def _planned_flops(spec: str, cost: str) -> str:
    """Return the FLOPs that the compiler counts for a spec's training run, and their ratio to the cost in the paper."""
    loaded = specs.load(spec)
    planned = float(loaded.training.steps * estimate_memory(loaded).step_flops)
    return f"{power_of_ten(planned)} ({planned / printed_number(cost):.0%})"


def _own_costs(measurements: Measurements) -> Iterator[tuple[str, ...]]:
    """Yield a table row with the training cost for each run of a translation model, if the run has a log.

    The cost is computed in two ways: as in section 6.1 (time x devices x FLOPs per second), and by counting the FLOPs
    of the matrix products. The first value is omitted if the log does not contain the speed of a device.
    """
    for run in measurements.runs:
        if run.spec.task.kind != "translation" or (record := run.record) is None:
            continue
        known = [get_metric(name).read_score(run.scores.get("test")) for name in ("paper_bleu", "bleu")]
        bleu = next((score for score in known if score is not None), None)
        estimated = record.estimated_flops if record.peak else 0.0
        yield (
            run.folder,
            get_metric("bleu").format_score(bleu),
            duration(record.seconds),
            f"{record.devices}",
            f"{record.peak / 1e9:,.0f} GFLOPS" if record.peak else "-",
            power_of_ten(estimated) if estimated else "-",
            power_of_ten(record.flops) + (f" ({record.flops / estimated:.0%})" if estimated else ""),
            run.scale,
        )


def _table3(checked: Checked, measurements: Measurements) -> Iterator[Table]:
    columns = (
        *("", "row…", "M parameters>", "ours>", "fitting vocabulary>"),
        *("perplexity>", "ours>", "BLEU>", "ours>", "measured, or command that measures…"),
    )
    rows = []
    for key, row in ROWS["table3"].items():
        columns_of_row = ("parameters", "perplexity", "bleu")
        parameters, perplexity, bleu = (_numbers(checked.get(f"table3.{key}.{column}")) for column in columns_of_row)
        fit = derived.vocabulary_sizes(key) if "parameters" in row else range(0)
        tokens = f"{fit[0]:,} to {fit[-1]:,}" if fit else "-"
        ours = parameters[1] if fit else f"{derived.parameters(f'table3/{key}') / 1e6:.2f}"
        part = row["section"].removeprefix("Table 3").strip(" ()")
        rows.append(
            (part, row["says"], parameters[0], ours, tokens, *perplexity, *bleu, _measured(key, checked, measurements))
        )
    vocabulary = specs.load("table3/base").vocabulary.size
    notes = (
        f"Our number of parameters is for a vocabulary of {vocabulary:,} tokens. The next column gives the vocabulary "
        "sizes for which it equals the paper's number.",
        f"All ten small models together: {checked['table3.counts'].because}.",
    )
    yield Table(columns, rows, "Table 3: variations of the base model, newstest2013", notes)


def _measured(row: str, checked: Checked, measurements: Measurements) -> str:
    """Describe our runs for a Table 3 row. If there are no runs, return the command that trains the row's model."""
    if measurements.of(f"table3/{row}"):
        return checked[f"table3.{row}.bleu"].because
    return f"zoo train table3/{row}" + ("" if measurements.root == RUNS else f" --run {measurements.root / row}")


def _table4(checked: Checked, measurements: Measurements) -> Iterator[Table]:
    columns = ("parser", "training", "F1>", "ours>", "because…")
    rows = []
    for key, row in ROWS["table4"].items():
        score = checked[f"table4.{key}"]
        rows.append((row["name"], row["training"], *_numbers(score), score.because if "spec" in row else "-"))
    yield Table(columns, rows, "Table 4: F1 on section 23 of the Wall Street Journal")
    metric = get_metric("f1")
    own = [run for run in measurements.runs if metric.name in run.spec.scores]
    if own:
        scores = [[metric.format_score(run.score(split, metric)) for split in ("dev", "test")] for run in own]
        cells = [(run.folder, *values, run.scale) for run, values in zip(own, scores, strict=True)]
        yield Table(("run", "dev F1>", "test F1>", "scale…"), cells, f"Our own parsers in `{measurements.root}`")


def _numbers(checked: CheckedClaim | None) -> tuple[str, str]:
    """Return the paper's number and zoo's number for a claim as text. A missing number becomes a dash."""
    if checked is None:
        return "-", "-"
    return " or ".join(printed.text for printed in checked.claim.printed) or "-", checked.ours or "-"


TABLES: Mapping[str, Callable[[Checked, Measurements], Iterator[Table]]] = {
    "table1": _table1,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "claims": _claims,
}
"""Functions that yield the tables that `zoo paper NAME` prints, by name.

Each function takes all checked claims, and the measurements that were used to check them. The tables include our own
training runs, if there are any.
"""

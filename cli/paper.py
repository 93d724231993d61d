"""`zoo paper`: the paper's claims, and how each was checked."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument
from specs import ZooError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zoo.paper.runs import LayerTiming
    from zoo.paper.tables import Table


def paper(
    what: Annotated[str | None, argument()] = None,
    runs: Path | None = None,
    html: Path | None = None,
    measure: bool = False,
    json: options.Json = False,
) -> None:
    """Print which of the paper's claims hold, and how each was checked.

    A claim can be derived (by the compiler, or from other numbers in the paper), set in our spec (such as Adam's
    beta1), measured (by our training runs, which may be smaller than the paper's), or not tested (the output gives the
    reason). Contradicted claims, and numbers that the paper cites from other systems, are counted separately.

    Options:
        what TABLE: Table to print: table1, table2, table3, table4, or claims. [default: a summary of all claims]
        runs DIR: Folder with the runs (or the sweep) to compare with the paper. [default: runs]
        html FILE.html: Write all tables and plots to this file, as one HTML page.
        measure: Also time the layers of Table 1 on this machine, which takes half a minute.

    Examples:
        zoo paper
        zoo paper table3 --runs runs/table3
        zoo paper claims --json > claims.json
        zoo paper --html paper.html
    """
    from cli.console import report, show_json
    from zoo.files.output import open_output, require_html
    from zoo.paper.claims import as_json, check_claims, summary
    from zoo.paper.page import paper_page
    from zoo.paper.runs import read_measurements
    from zoo.paper.tables import TABLES, contradiction_table, of_part, summary_table, tables

    if what is not None and what not in TABLES:
        near = nearest(what, list(TABLES))
        guess = f"did you mean `{near}`? " if near else ""
        raise ZooError(f"`{what}` is not a table of the paper", hint=f"{guess}the tables are {', '.join(TABLES)}")
    if html is not None and (what is not None or json):
        raise ZooError("`--html` always writes all tables", hint="leave TABLE and `--json` out, or leave `--html` out")
    if measure and what not in (None, "table1", "claims"):
        raise ZooError("`--measure` applies to Table 1 only", hint="leave `--measure` out, or write `table1`")
    if html is not None:
        require_html(html)
    with ExitStack() as files:
        page = files.enter_context(open_output(html)) if html else None  # fails before the measurements
        measurements = read_measurements(runs, report())
        if measure:
            measurements = replace(measurements, timings=tuple(_measure_layers()))
        checked = check_claims(measurements)
        if page:
            page.write(paper_page(checked, measurements))
    if html is not None:
        return print(html)
    if json:
        selected = of_part(what or "claims", checked)
        return show_json({"summary": summary(selected), "claims": [as_json(each) for each in selected]})
    if what is None:
        _show_tables([summary_table(checked), contradiction_table(checked)])
        return report().info("`zoo paper claims` prints every claim, `zoo paper table3` compares Table 3 with our runs")
    return _show_tables(tables(what, checked, measurements))


def _measure_layers() -> Iterator[LayerTiming]:
    from cli.console import report
    from compiler.host import tune_process
    from zoo.paper.table1 import LAYERS, time_layers

    tune_process()
    with report().progress("timing", len(LAYERS), "layers") as progress:
        for timing in time_layers():
            progress.advance()
            yield timing


def _show_tables(tables: Iterable[Table]) -> None:
    from cli.console import report, show_table

    for number, table in enumerate(tables):
        print("\n" * bool(number), end="")
        show_table(table.columns, table.rows, title=table.title)
        for note in table.notes:
            report().info(note)

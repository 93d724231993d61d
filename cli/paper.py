"""`zoo paper`: which of the paper's numbers hold here, and how that is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zoo.paper.evidence import Timing
    from zoo.paper.tables import Table

EXAMPLES = (
    "zoo paper\n\nzoo paper table3 --runs runs/table3\n\nzoo paper claims --json > claims.json"
    "\n\nzoo paper --html paper.html"
)


def command(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE", show_default="all claims, summed up", help="table1, table2, table3, table4, or claims."
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="runs", help="A folder of runs, or of a sweep: what was measured."),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", show_default=False, help="Write all of it as one page, with plots."),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the layers of Table 1 here, too: half a minute.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Which of the paper's numbers hold here, and how that is known.

    Each claim is derived and checked (by the compiler, or from the paper's own numbers), measured here (by runs of its
    spec, at the scale that is told), or not reproduced, because of what is told.
    """
    from contextlib import ExitStack

    from cli.console import report, show_json
    from specs import ZooError, nearest
    from zoo.files.output import open_output, require_html
    from zoo.paper import ledger
    from zoo.paper.evidence import evidence
    from zoo.paper.page import paper_page
    from zoo.paper.tables import TABLES, of_table, summed, tables

    if what is not None and what not in TABLES:
        near = nearest(what, list(TABLES))
        guess = f"did you mean `{near}`? " if near else ""
        raise ZooError(f"`{what}` is no table of the paper's", hint=f"{guess}there are {', '.join(TABLES)}")
    if html is not None and (what is not None or json):
        raise ZooError("`--html` is a page of all there is", hint="leave TABLE and `--json` out, or `--html`")
    if measure and what not in (None, "table1", "claims"):
        raise ZooError("`--measure` is for Table 1 only", hint="leave `--measure` out, or ask for `table1`")
    if html is not None:
        require_html(html)
    with ExitStack() as files:
        page = files.enter_context(open_output(html)) if html else None  # before anything is measured
        found = evidence(runs, report())
        if measure:
            found = replace(found, timings=tuple(_timed()))
        entries = ledger.ledger(found)
        if page:
            page.write(paper_page(entries, found))
    if html is not None:
        return print(html)
    if json:
        shown = of_table(what or "claims", entries)
        return show_json({"summary": ledger.summary(shown), "claims": [ledger.flat(entry) for entry in shown]})
    if what is None:
        return _show([summed(entries, found), *tables("claims", entries, found)])
    return _show(tables(what, entries, found))


def _timed() -> Iterator[Timing]:
    from cli.console import report
    from zoo.paper.table1 import ALL
    from zoo.paper.timings import timings
    from zoo.system.ram import keep_freed

    keep_freed()
    with report().progress("timing", len(ALL), "layers") as progress:
        for timing in timings():
            progress.advance()
            yield timing


def _show(tables: Iterable[Table]) -> None:
    from cli.console import report, show_table

    for number, table in enumerate(tables):
        print("\n" * bool(number), end="")
        show_table(table.columns, table.rows, title=table.title)
        for note in table.notes:
            report().say(note)

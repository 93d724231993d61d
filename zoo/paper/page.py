"""HTML page with every claim of the paper, tables and plots. It is one file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zoo.paper.claims import Status
from zoo.paper.plots import MAX_SERIES, all_plots
from zoo.paper.runs import Measurements
from zoo.paper.tables import Checked, Table, claim_row, summary_table, tables
from zoo.visualization.page import asset, escape_text, page, table_cells, table_head
from zoo.visualization.plot import STYLE as PLOT_STYLE
from zoo.visualization.plot import Plot, plot_svg

_KINDS = {status: status.name.lower() for status in Status}
_SIGNS = {
    Status.DERIVED: "✓",
    Status.SET: "=",
    Status.MEASURED: "●",
    Status.DIFFERENT: "✗",
    Status.OPEN: "?",
    Status.CITED: "·",
}
_HIDDEN = "\n".join(
    f"body:has(#only-{kind}:checked) tr.claim:not(.{kind}) {{ display: none }}" for kind in _KINDS.values()
)
"""Style rules that hide the claims whose status is not selected, so that the page needs no script."""
_TITLES = {"table1": "Table 1", "table2": "Table 2", "table3": "Table 3", "table4": "Table 4"}


def paper_page(checked: Checked, measurements: Measurements) -> str:
    """Return an HTML page with all tables, plots and claims. It needs no other files."""
    links = "".join(f'<li><a href="#{key}">{title}</a></li>' for key, title in {**_TITLES, **_MORE}.items())
    intro = (
        "This page lists every number of the paper, and the result of checking it. A number can be derived by the "
        "compiler or from other numbers of the paper, set in our spec, measured by the training runs in "
        f"`{measurements.root}`, different, or not tested. The table gives the reason. Every status is computed, not "
        "written by hand."
    )
    body = [
        f"<h1>Attention Is All You Need, checked</h1>\n<p>{_html(intro)}</p>",
        f'<nav aria-label="Parts of this page" class="screen"><ul>{links}</ul></nav>',
        _table(summary_table(checked)),
        '<h2 id="plots">Plots</h2>\n<div class="plots">',
        *(_figure(plot) for plot in all_plots(checked, measurements)),
        "</div>",
    ]
    for key, title in _TITLES.items():
        body += [f'<h2 id="{key}">{title}</h2>', *(_table(table) for table in tables(key, checked, measurements))]
    body += ['<h2 id="claims">Every claim</h2>', *_claims(checked, measurements)]
    style = f"{PLOT_STYLE}{asset('paper_page.css')}@media screen {{ {_HIDDEN} }}\n"
    return page("Attention Is All You Need, checked", *body, style=style, series_count=MAX_SERIES)


_MORE = {"plots": "Plots", "claims": "Every claim"}


def _table(table: Table) -> str:
    rows = "\n".join(f"<tr>{table_cells(table.columns, map(_html, row))}</tr>" for row in table.rows)
    notes = "".join(f'<p class="quiet">{_html(note)}</p>' for note in table.notes)
    caption = f"<caption>{_html(table.title)}</caption>"
    return f'<div class="wide"><table>{caption}{table_head(table.columns)}\n{rows}</table></div>{notes}'


def _html(words: str) -> str:
    """Convert plain text to HTML. Text in backticks becomes a `code` element."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape_text(words))


def _figure(plot: Plot) -> str:
    return f"<figure>{plot_svg(plot)}<figcaption>{escape_text(plot.title)}</figcaption></figure>"


def _claims(checked: Checked, measurements: Measurements) -> Iterator[str]:
    choices = {"all": "all", **{kind: status.value for status, kind in _KINDS.items()}}
    yield '<fieldset class="choice screen"><legend>Show claims that are</legend>'
    for kind, label in choices.items():
        selected = " checked" if kind == "all" else ""
        yield f'<label><input type="radio" name="only" id="only-{kind}"{selected}> {escape_text(label)}</label>'
    yield "</fieldset>"
    (table,) = tables("claims", checked, measurements)
    yield f'<div class="wide"><table class="claims"><caption>{len(checked):,} claims</caption>'
    yield table_head(table.columns)
    for each in checked.values():
        row = [*claim_row(each)]
        row[-2] = f"{_SIGNS[each.status]} {row[-2]}"
        yield f'<tr class="claim {_KINDS[each.status]}">{table_cells(table.columns, map(_html, row))}</tr>'
    yield "</table></div>"

"""HTML page of a registry, in one file: a table of its models, which readers can search and sort."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from zoo.models.registries.revision import IndexEntry
from zoo.visualization.page import asset, cell_class, escape_text, page

_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T|$)")
_COLUMNS = ("Model", "Description", "Languages", "Task", "Parameters>", "Score>", "Published")
_INTRODUCTION = (
    "Load a model by its name, with <code>zoo.load(NAME)</code> or <code>zoo decode --model NAME</code>, after you "
    "have added this registry to <code>ZOO_REGISTRIES</code>. <code>NAME@2</code> is the second revision. "
    "Scores are the publisher’s, on the test set if there is one."
)


def registry_page(models: Sequence[IndexEntry], title: str = "Models") -> str:
    """Return a complete HTML page with a table of the models, in the given order. All of their text is escaped."""
    if not models:
        return page(title, f"<h1>{escape_text(title)}</h1>\n<p>This registry contains no models yet.</p>")
    headings = "".join(
        f'<th scope="col" role="columnheader"{cell_class(name)}>{name.rstrip(">")}</th>' for name in _COLUMNS
    )
    return page(
        title,
        f"<h1>{escape_text(title)}</h1>",
        f'<p class="quiet">{_INTRODUCTION}</p>',
        *_filters(models),
        f'<p id="count" role="status">{len(models):,} model{"" if len(models) == 1 else "s"}</p>',
        f'<table role="table" aria-labelledby="count">\n<thead role="rowgroup"><tr role="row">{headings}</tr></thead>',
        '<tbody role="rowgroup">',
        *map(_row, models),
        "</tbody>\n</table>",
        style=asset("registry_page.css"),
        script=asset("registry_page.js"),
    )


def _filters(models: Sequence[IndexEntry]) -> Iterator[str]:
    """Yield the HTML of the form that searches and filters models. The form is hidden until the page's script runs."""
    yield '<form class="screen" role="search" aria-label="Filter" hidden>'
    yield '<label class="search"><span>Search</span> <input type="search" id="search" autocomplete="off"></label>'
    filters = {
        "source": ("From", [code for model in models for code in _directions(model)[0]]),
        "target": ("To", [code for model in models for code in _directions(model)[1]]),
        "task": ("Task", [model.summary.task for model in models]),
    }
    for key, (label, values) in filters.items():
        if len(distinct := sorted(set(values))) > 1:
            options = "".join(f'<option value="{escape_text(v)}">{escape_text(v)}</option>' for v in distinct)
            choice = f'<select name="{key}"><option value="">all</option>{options}</select>'
            yield f"<label><span>{label}</span> {choice}</label>"
    yield "</form>"


def _directions(model: IndexEntry) -> tuple[Sequence[str], Sequence[str]]:
    """Return the codes of the source and target languages. Tasks other than translation have no target."""
    summary = model.summary
    if summary.languages:
        return summary.languages, summary.languages
    return [summary.source], [summary.target] if summary.task == "translation" else []


def _row(model: IndexEntry) -> str:
    summary, (sources, targets) = model.summary, _directions(model)
    codes, between = (sources, ", ") if summary.languages else ([*sources, *targets], " → ")
    score, split = (summary.test, "test") if summary.test is not None else (summary.dev, "dev")
    metric = escape_text(summary.metric)
    quality = "not scored" if score is None else f"{metric} {score:.2f} <span class='quiet'>{split}</span>"
    day = _DAY.match(summary.published)
    cells = (  # with the keys by which they are sorted
        (_description(model), ""),
        (between.join(f'<span class="language">{escape_text(code)}</span>' for code in codes), " ".join(codes)),
        (escape_text(summary.task), summary.task),
        (f"{summary.parameters:,}", str(summary.parameters)),
        (quality, "" if score is None else f"{score!r}"),
        (f"<time>{day[0]}</time>" if day else escape_text(summary.published), summary.published),
    )
    name = escape_text(model.name)
    parts = [
        f'<tr role="row" id="{name}" data-source="{escape_text(" ".join(sources))}" ',
        f'data-target="{escape_text(" ".join(targets))}" data-task="{escape_text(summary.task)}">',
        f'<th scope="row" role="rowheader" data-key="{name}"><a href="#{name}"><bdi>{name}</bdi></a> ',
        f'<span class="quiet">revision&nbsp;{model.revision}</span></th>',
    ]
    for column, (cell, key) in zip(_COLUMNS[1:], cells, strict=True):
        cell_attributes = f'data-column="{column.rstrip(">")}" data-key="{escape_text(key)}"{cell_class(column)}'
        parts.append(f'<td role="cell" {cell_attributes}>{cell}</td>')
    return "".join([*parts, "</tr>"])


def _description(model: IndexEntry) -> str:
    name, summary = escape_text(model.name), model.summary
    licence = f"<p class='quiet'>Licence: <bdi>{escape_text(summary.licence)}</bdi></p>" if summary.licence else ""
    by = f"<p class='quiet'>Published by zoo {escape_text(summary.zoo)}.</p>" if summary.zoo else ""
    return (
        f"<p><bdi>{escape_text(summary.description)}</bdi></p>{licence}"
        f"<details><summary>Load it<span class='hidden'>: {name}</span></summary>"
        f"<pre><code>zoo.load(&quot;{name}@{model.revision}&quot;)</code></pre>"
        f"{by}</details>"
    )

"""HTML page of a registry, in one file: a table of its models, which readers can search and sort."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zoo.visualization.page import asset, cell_class, escape_text, page

_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T|$)")
_COLUMNS = ("Model", "Description", "Languages", "Task", "Parameters>", "Score>", "Published")
_INTRODUCTION = (
    "Load a model by its name, with <code>zoo.load(NAME)</code> or <code>zoo decode --model NAME</code>, after you "
    "have added this registry to <code>ZOO_REGISTRIES</code>. <code>NAME@2</code> is the second revision, "
    "<code>NAME@sha256:...</code> exactly these bytes. Scores are the publisher’s, of the test set if there is one."
)


@dataclass(frozen=True)
class ModelEntry:
    """The newest revision of a model, as a row of the page. All text is untrusted and is escaped on the page.

    Attributes:
        name: The model's name.
        revision: The number of the newest revision.
        digest: SHA-256 of its manifest in hexadecimal, as in `NAME@sha256:...`.
        task: `translation` or `parsing`.
        languages: Language codes of source and target. One code for a parser.
        parameters: The number of parameters. Tied parameters are counted once.
        metric: The name of the metric of `dev` and `test`.
        dev: The score on the dev set. None if it was not scored.
        test: The score on the test set. None if it was not scored.
        description: One sentence that describes the model.
        licence: The licence of the weights. Empty if none is given.
        when: The time of publication in ISO 8601. May be empty.
        by: The version of zoo that published the revision. May be empty.
    """

    name: str
    revision: int
    digest: str
    task: str
    languages: tuple[str, ...]
    parameters: int
    metric: str
    dev: float | None
    test: float | None
    description: str
    licence: str
    when: str
    by: str


def registry_page(models: Sequence[ModelEntry], title: str = "Models") -> str:
    """Return a complete HTML page with a table of the models, in the given order."""
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


def _filters(models: Sequence[ModelEntry]) -> Iterator[str]:
    """Yield the HTML of the form that searches and filters models. The form is hidden until the page's script runs."""
    yield '<form class="screen" role="search" aria-label="Filter" hidden>'
    yield '<label class="search"><span>Search</span> <input type="search" id="search" autocomplete="off"></label>'
    filters = {
        "source": ("From", [model.languages[0] for model in models if model.languages]),
        "target": ("To", [model.languages[-1] for model in models if len(model.languages) > 1]),
        "task": ("Task", [model.task for model in models]),
    }
    for key, (label, values) in filters.items():
        if len(distinct := sorted(set(values))) > 1:
            options = "".join(f'<option value="{escape_text(v)}">{escape_text(v)}</option>' for v in distinct)
            choice = f'<select name="{key}"><option value="">all</option>{options}</select>'
            yield f"<label><span>{label}</span> {choice}</label>"
    yield "</form>"


def _row(model: ModelEntry) -> str:
    source, target = (model.languages[0], model.languages[-1]) if model.languages else ("", "")
    score, split = (model.test, "test") if model.test is not None else (model.dev, "dev")
    quality = (
        "not scored" if score is None else f"{escape_text(model.metric)} {score:.2f} <span class='quiet'>{split}</span>"
    )
    day = _DAY.match(model.when)
    languages = " → ".join(f'<span class="language">{escape_text(code)}</span>' for code in model.languages)
    published = f"<time>{day[0]}</time>" if day else escape_text(model.when)
    cells = (  # with the keys by which they are sorted
        (_description(model), ""),
        (languages, " ".join(model.languages)),
        (escape_text(model.task), model.task),
        (f"{model.parameters:,}", str(model.parameters)),
        (quality, "" if score is None else f"{score!r}"),
        (published, model.when),
    )
    name = escape_text(model.name)
    parts = [
        f'<tr role="row" id="{name}" data-source="{escape_text(source)}" data-target="{escape_text(target)}" ',
        f'data-task="{escape_text(model.task)}">',
        f'<th scope="row" role="rowheader" data-key="{name}"><a href="#{name}"><bdi>{name}</bdi></a> ',
        f'<span class="quiet">revision&nbsp;{model.revision}</span></th>',
    ]
    for column, (cell, key) in zip(_COLUMNS[1:], cells, strict=True):
        title = column.rstrip(">")
        parts.append(
            f'<td role="cell" data-column="{title}" data-key="{escape_text(key)}"{cell_class(column)}>{cell}</td>'
        )
    return "".join([*parts, "</tr>"])


def _description(model: ModelEntry) -> str:
    name = escape_text(model.name)
    licence = f"<p class='quiet'>Licence: <bdi>{escape_text(model.licence)}</bdi></p>" if model.licence else ""
    by = f"<p class='quiet'>Published by zoo {escape_text(model.by)}.</p>" if model.by else ""
    return (
        f"<p><bdi>{escape_text(model.description)}</bdi></p>{licence}"
        f"<details><summary>Load it<span class='hidden'>: {name}</span></summary>"
        f"<pre><code>zoo.load(&quot;{name}@{model.revision}&quot;)</code></pre>"
        "<p class='quiet'>or, byte for byte,</p>"
        f"<pre><code>zoo.load(&quot;{escape_text(f'{model.name}@sha256:{model.digest}')}&quot;)</code></pre>{by}</details>"
    )

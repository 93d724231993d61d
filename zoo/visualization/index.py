"""The page of a registry: its models in one table, to be searched, sorted and loaded; a file that asks for no other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.visualization.page import page, text

_SCRIPT, _STYLE = ((Path(__file__).parent / f"index.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?=T|$)")


@dataclass(frozen=True)
class Listed:
    """A model of a registry, in what is told of its newest revision. All words may be a stranger's."""

    name: str
    revision: int
    digest: str
    """SHA-256 of its manifest in hexadecimal: what `NAME@sha256:...` pins."""
    task: str
    languages: tuple[str, ...]
    """From which into which, as codes; of a parser one."""
    parameters: int
    """Tied ones once."""
    metric: str
    """What its scores are called."""
    dev: float | None
    test: float | None
    description: str
    licence: str
    """None is said where it is empty."""
    when: str
    """Of publishing: ISO 8601, or empty."""
    by: str
    """The version of zoo that published it, or empty."""


def index_page(models: Sequence[Listed], title: str = "Models") -> str:
    """A page of its own, as HTML, in the order of the models: whatever is in their words, they are words."""
    several = f"{len(models):,} model{'' if len(models) == 1 else 's'}"
    if not models:
        return page(title, f"<h1>{text(title)}</h1>\n<p>Nothing has been published here yet.</p>")
    heads = "".join(f'<th scope="col" role="columnheader"{_class(name)}>{name}</th>' for name in _COLUMNS)
    return page(
        title,
        f"<h1>{text(title)}</h1>",
        f'<p class="quiet">{_INTRODUCTION}</p>',
        *_choices(models),
        f'<p id="told" role="status">{several}</p>',
        f'<table role="table" aria-labelledby="told">\n<thead role="rowgroup"><tr role="row">{heads}</tr></thead>',
        '<tbody role="rowgroup">',
        *map(_row, models),
        "</tbody>\n</table>",
        style=_STYLE,
        script=_SCRIPT,
    )


_COLUMNS = ("Model", "What it is", "Languages", "Task", "Parameters", "Score", "Published")
_NUMBERS = ("Parameters", "Score")
_INTRODUCTION = (
    "Each is loaded by its name, with <code>zoo.load(NAME)</code> or <code>zoo decode --model NAME</code>, where this "
    "registry is among <code>ZOO_REGISTRIES</code>. <code>NAME@2</code> is the second revision and no later one, "
    "<code>NAME@sha256:...</code> exactly these bytes. Scores are the publisher’s own, of the test set where there is "
    "one."
)


def _choices(models: Sequence[Listed]) -> Iterator[str]:
    """What the page's script needs; without it all models are shown in their order."""
    yield '<form class="screen" role="search" aria-label="Which models are shown" hidden>'
    yield '<label class="sought"><span>Search</span> <input type="search" id="sought" autocomplete="off"></label>'
    kinds = {
        "source": ("From", [model.languages[0] for model in models if model.languages]),
        "target": ("To", [model.languages[-1] for model in models if len(model.languages) > 1]),
        "task": ("Task", [model.task for model in models]),
    }
    for key, (called, values) in kinds.items():
        if len(several := sorted(set(values))) > 1:
            options = "".join(f'<option value="{text(value)}">{text(value)}</option>' for value in several)
            choice = f'<select name="{key}"><option value="">all</option>{options}</select>'
            yield f"<label><span>{called}</span> {choice}</label>"
    yield "</form>"


def _row(model: Listed) -> str:
    source, target = (model.languages[0], model.languages[-1]) if model.languages else ("", "")
    score, of = (model.test, "test") if model.test is not None else (model.dev, "dev")
    told = "not scored" if score is None else f"{text(model.metric)} {score:.2f} <span class='quiet'>{of}</span>"
    day = _DAY.match(model.when)
    cells = [
        _about(model),
        " → ".join(f'<span class="language">{text(code)}</span>' for code in model.languages),
        text(model.task),
        f"{model.parameters:,}",
        told,
        f"<time>{day[0]}</time>" if day else text(model.when),
    ]
    keys = ("", " ".join(model.languages), model.task, str(model.parameters), "" if score is None else f"{score!r}")
    name = f'<a href="#{text(model.name)}"><bdi>{text(model.name)}</bdi></a>'
    return "".join(
        [
            f'<tr role="row" id="{text(model.name)}" data-source="{text(source)}" data-target="{text(target)}" ',
            f'data-task="{text(model.task)}">',
            f'<th scope="row" role="rowheader" data-key="{text(model.name)}">{name} ',
            f'<span class="quiet">revision&nbsp;{model.revision}</span></th>',
            *_cells(cells, (*keys, model.when)),
            "</tr>",
        ]
    )


def _cells(cells: Iterable[str], keys: Iterable[str]) -> Iterator[str]:
    """`keys` are what is sorted by."""
    for column, cell, key in zip(_COLUMNS[1:], cells, keys, strict=True):
        yield f'<td role="cell" data-called="{column}" data-key="{text(key)}"{_class(column)}>{cell}</td>'


def _about(model: Listed) -> str:
    """What it is, and how it is had."""
    pinned = f"{model.name}@sha256:{model.digest}"
    licence = f"<p class='quiet'>Licence: <bdi>{text(model.licence)}</bdi></p>" if model.licence else ""
    by = f"<p class='quiet'>Published by zoo {text(model.by)}.</p>" if model.by else ""
    return (
        f"<p><bdi>{text(model.description)}</bdi></p>{licence}"
        f"<details><summary>Load it<span class='hidden'>: {text(model.name)}</span></summary>"
        f"<pre><code>zoo.load(&quot;{text(model.name)}@{model.revision}&quot;)</code></pre>"
        "<p class='quiet'>or, byte for byte,</p>"
        f"<pre><code>zoo.load(&quot;{text(pinned)}&quot;)</code></pre>{by}</details>"
    )


def _class(column: str) -> str:
    return ' class="number"' if column in _NUMBERS else ""

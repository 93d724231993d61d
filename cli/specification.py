"""`zoo list`, `zoo show` and `zoo schema`: list specs and models, and print the fields of a spec."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, flag

if TYPE_CHECKING:
    from zoo.publishing.inventory import Inventory, PublishedModel, RunSummary

_PATTERN = argument(
    "PATTERN",
    "List only names that contain this text, or match it as a pattern such as `*-ende`. With --available, also a "
    "language pair such as de-fr.",
    shown="everything",
)
_PUBLISHED = flag("List published models only: those in the local model store and in the registries.", "--published")

_AVAILABLE = flag("List the catalogue of public models, by language pair: `zoo pull` downloads them.", "--available")


def list_models(
    pattern: Annotated[str | None, _PATTERN] = None,
    published: Annotated[bool, _PUBLISHED] = False,
    available: Annotated[bool, _AVAILABLE] = False,
    json: options.Json = False,
) -> None:
    """List runs, published models and shipped specs, with their scores.

    With --available, list the public models that a name is enough for: commands and `zoo.load` download, import and
    store them. If you give a language pair, the most recommended model is first: models of this pair before
    multilingual ones, and then smaller ones before larger ones.

    Examples:
        zoo list
        zoo list big
        zoo list 'table3/*' --json
        zoo list --published
        zoo list --available de-fr
    """
    from cli.console import report, show_json, show_table
    from zoo.publishing.inventory import inventory, public_models

    if available:
        options.refuse_beside("--available", published=published)
        return _list_available(pattern, json)
    if published:
        return _list_published(pattern, json)
    found = inventory(pattern, report())
    if json:
        return show_json(asdict(found))
    tables = list(_tables(found))
    for number, (title, headings, rows) in enumerate(tables):
        print("\n" * bool(number), end="")
        show_table(headings, rows, title=title)
    if not tables:
        report().info(f"nothing matches `{pattern}`")
    if public := len(public_models(pattern)):
        command = f"zoo list --available{'' if pattern is None else f' {quote(pattern)}'}"
        report().info(f"public models: `{command}` lists {public:,}")
    return None


def _tables(found: Inventory) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yield the title, the column headings and the rows of each table that is not empty."""
    if found.runs:
        columns, cells = _score_cells(found.runs)
        run_rows = [
            (
                run.folder,
                f"{run.parameters:,}",
                "-" if run.step is None else f"{run.step:,}",
                f"{run.steps:,}",
                *scores,
                "trained" if run.trained else "-",
                run.name,
            )
            for run, scores in zip(found.runs, cells, strict=True)
        ]
        yield ("Runs", ("run", "parameters>", "step>", "of>", *columns, "weights", "name…"), run_rows)
    if found.models:
        columns, cells = _score_cells(found.models)
        model_rows = [
            (model.name, f"{model.parameters:,}", *scores, model.origin, model.licence or "-", model.description)
            for model, scores in zip(found.models, cells, strict=True)
        ]
        yield ("Published", ("model", "parameters>", *columns, "from", "licence", "description…"), model_rows)
    if found.specs:
        spec_rows = [(spec.short_name, f"{spec.parameters:,}", spec.description) for spec in found.specs]
        yield ("Specs", ("spec", "parameters>", "description…"), spec_rows)


def _list_published(pattern: str | None, json: bool) -> None:
    from cli.console import report, show_json, show_table
    from zoo.publishing.inventory import published_models

    models = published_models(pattern, report())
    if json:
        return show_json([asdict(model) for model in models])
    if not models:
        return report().info("no model is published" if pattern is None else f"nothing matches `{pattern}`")
    columns, cells = _score_cells(models)
    rows = [
        (
            model.name,
            "-" if model.revision is None else str(model.revision),
            f"{model.parameters:,}",
            *scores,
            model.location,
            model.licence or "-",
            model.description,
        )
        for model, scores in zip(models, cells, strict=True)
    ]
    return show_table(("model", "revision>", "parameters>", *columns, "location", "licence", "description…"), rows)


def _list_available(pattern: str | None, json: bool) -> None:
    from cli.console import report, show_json, show_table
    from zoo.publishing.inventory import public_models
    from zoo.report import size

    models = public_models(pattern)
    if json:
        return show_json([asdict(model) for model in models])
    if not models:
        return report().info(f"nothing in the catalogue matches `{pattern}`")
    rows = [
        (
            model.languages,
            model.name,
            "-" if model.bytes is None else size(model.bytes),
            "-" if model.parameters is None else f"{model.parameters:,}",
            model.licence or "-",
            model.stored or "-",
            model.texts or "-",
            model.description,
        )
        for model in models
    ]
    show_table(
        ("languages", "model", "download>", "parameters>", "licence", "stored from", "texts", "description…"), rows
    )
    return report().info("`zoo pull MODEL` downloads one; in a name, write languages for {source} and {target}")


def _score_cells(models: Sequence[RunSummary | PublishedModel]) -> tuple[list[str], list[list[str]]]:
    """Return the columns for dev and test scores in a list of models: the headings, and the row of cells per model."""
    from zoo.evaluation.metrics import METRICS

    used = {model.metric for model in models}
    metrics = [metric for metric in METRICS if metric.name in used]
    columns = [f"{split} {metric.title}>" for metric in metrics for split in ("dev", "test")]
    cells = [
        [
            metric.format_score(score if metric.name == model.metric else None)
            for metric in metrics
            for score in (model.dev, model.test)
        ]
        for model in models
    ]
    return columns, cells


_DIFFERENCE = flag("Print only the fields that differ from the parent spec (`extends`).", "--difference")


def show(
    spec: options.Reference,
    overrides: options.Overrides = None,
    difference: Annotated[bool, _DIFFERENCE] = False,
    json: options.Json = False,
) -> None:
    """Print a spec with all its fields, or only the fields that differ from the spec that it extends.

    With --difference, the output also has the comments on these fields in the spec's file, and those at its beginning.

    Examples:
        zoo show big --difference
        zoo show table3/a-h1
        zoo show base architecture.h=4 > mine.yaml
    """
    import specs
    from cli.console import report, show_json
    from zoo.report import escape_control_characters

    chosen = specs.load(spec, overrides or ())
    if warning := specs.describe_head_sizes(chosen, spec):
        report().warn(warning)
    if not difference:
        if json:
            return show_json(chosen.model_dump(mode="json"))
        return print(escape_control_characters(chosen.yaml()), end="")
    parent, without_overrides = specs.parent(spec), specs.load(spec)
    changes = specs.difference(chosen, parent or without_overrides)
    own_changes = specs.difference(without_overrides, parent) if parent else {}
    # A comment explains the value in the file, so it is left out if an override replaces that value.
    reasons = {
        key: text for key, text in specs.comments(spec).items() if parent and changes.get(key) == own_changes.get(key)
    }
    if json:
        return show_json(
            {
                key: {"parent": old, "spec": new} | ({"why": reasons[key]} if key in reasons else {})
                for key, (old, new) in changes.items()
            }
        )
    lines = [
        f"{key}: {_format_value(old)} -> {_format_value(new)}{f'  # {reasons[key]}' if key in reasons else ''}"
        for key, (old, new) in changes.items()
    ]
    for line in [*lines, *([f"# {reasons['']}"] if "" in reasons else [])]:
        print(escape_control_characters(line))
    return None if changes else report().info(f"`{spec}` changes nothing")


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json_module.dumps(value, ensure_ascii=False)


def schema() -> None:
    """Print the JSON Schema of spec files. Editors use it to complete and check fields.

    Examples:
        zoo schema > schema.json
    """
    import specs

    print(json_module.dumps(specs.schema(), indent=2, ensure_ascii=False))

"""`zoo list`: shipped specs, runs and published models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.publishing.inventory import PublishedModel, RunSummary

EXAMPLES = "zoo list\n\nzoo list big\n\nzoo list 'table3/*' --json\n\nzoo list --published"


def command(
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN", help="Part of a name, or a pattern such as `*-ende`.", show_default="everything"
        ),
    ] = None,
    published_models: Annotated[
        bool,
        typer.Option("--published", help="Published models alone: the shelf's, and those that registries have."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Shipped specs, runs and published models, with their scores."""
    from cli.console import report, show_json, show_table
    from zoo.publishing.inventory import inventory

    if published_models:
        return _show_published(pattern, json)
    found = inventory(pattern, report())
    if json:
        return show_json(asdict(found))
    told = False
    if found.specs:
        show_table(
            ("spec", "parameters>", "description…"),
            [(s.short, f"{s.parameters:,}", s.description) for s in found.specs],
            title="Specs",
        )
        told = True
    if found.runs:
        print("\n" * told, end="")
        columns, cells = _scores(found.runs)
        show_table(
            ("run", "parameters>", "step>", "of>", *columns, "weights", "name…"),
            [
                (
                    *(r.folder, f"{r.parameters:,}", f"{r.step or 0:,}", f"{r.steps:,}"),
                    *(*scores, "averaged" if r.trained else "-", r.name),
                )
                for r, scores in zip(found.runs, cells, strict=True)
            ],
            title="Runs",
        )
        told = True
    if found.models:
        print("\n" * told, end="")
        columns, cells = _scores(found.models)
        show_table(
            ("model", "parameters>", *columns, "description…"),
            [
                (m.name, f"{m.parameters:,}", *scores, m.description)
                for m, scores in zip(found.models, cells, strict=True)
            ],
            title="Published",
        )
        told = True
    if not told:
        report().say(f"nothing matches `{pattern}`")
    return None


def _show_published(pattern: str | None, json: bool) -> None:
    from cli.console import report, show_json, show_table
    from zoo.publishing.inventory import published_models

    found = published_models(pattern, report())
    if json:
        return show_json([asdict(each) for each in found])
    if not found:
        return report().say("no model is published" if pattern is None else f"nothing matches `{pattern}`")
    columns, cells = _scores(found)
    rows = [
        (m.name, "-" if m.revision is None else str(m.revision), f"{m.parameters:,}", *scores, m.location, m.description)
        for m, scores in zip(found, cells, strict=True)
    ]
    return show_table(("model", "revision>", "parameters>", *columns, "where", "description…"), rows)


def _scores(found: Sequence[RunSummary | PublishedModel]) -> tuple[list[str], list[list[str]]]:
    """Columns of dev and test for each metric that one of these has, and the cells of each."""
    from zoo.evaluation.metric import METRICS

    metrics = [metric for metric in METRICS if metric.name in {each.metric for each in found}]
    columns = [f"{split} {metric.called}>" for metric in metrics for split in ("dev", "test")]
    cells = [
        [m.written(score if m.name == each.metric else None) for m in metrics for score in (each.dev, each.test)]
        for each in found
    ]
    return columns, cells

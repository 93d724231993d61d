"""`zoo list`: shipped specs, runs and published models."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from cli import options

EXAMPLES = "zoo list\n\nzoo list big\n\nzoo list 'table3/*' --json"


def command(
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN", help="Part of a name, or a pattern such as `*-ende`.", show_default="everything"
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Shipped specs, runs and published models, with their scores."""
    from cli.console import report, show_json, show_table
    from zoo.shelf.inventory import inventory

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
        show_table(
            ("run", "parameters>", "step>", "of>", "dev BLEU>", "test BLEU>", "weights", "name…"),
            [
                (
                    *(r.folder, f"{r.parameters:,}", f"{r.step or 0:,}", f"{r.steps:,}"),
                    *(_points(r.dev), _points(r.test), "averaged" if r.trained else "-", r.name),
                )
                for r in found.runs
            ],
            title="Runs",
        )
        told = True
    if found.models:
        print("\n" * told, end="")
        show_table(
            ("model", "parameters>", "dev BLEU>", "test BLEU>", "description…"),
            [(m.name, f"{m.parameters:,}", _points(m.dev), _points(m.test), m.description) for m in found.models],
            title="Published",
        )
        told = True
    if not told:
        report().say(f"nothing matches `{pattern}`")
    return None


def _points(bleu: float | None) -> str:
    return "-" if bleu is None else f"{bleu:.2f}"

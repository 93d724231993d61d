"""`zoo show`: a spec, whole or only what it changes."""

from __future__ import annotations

from json import dumps
from typing import Annotated

import typer

from cli import options

EXAMPLES = "zoo show big --difference\n\nzoo show table3/a-h1\n\nzoo show base architecture.h=4 > mine.yaml"


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    difference: Annotated[
        bool, typer.Option("--difference", help="Only the fields that differ from the spec it extends.")
    ] = False,
    json: options.Json = False,
) -> None:
    """The resolved spec, or only what it changes against its parent.

    Beside a difference stands why, where the spec's file has a comment on it, and below them what no field says.
    """
    import specs
    from cli.console import report, show_json
    from zoo.report import escape_control_characters

    chosen = specs.load(spec, overrides or ())
    if not difference:
        return show_json(chosen.model_dump(mode="json")) if json else print(escape_control_characters(chosen.yaml()), end="")
    parent, plain = specs.parent(spec), specs.load(spec)
    changed = specs.difference(chosen, parent or plain)
    own = specs.difference(plain, parent) if parent else {}
    why = {key: told for key, told in specs.comments(spec).items() if parent and changed.get(key) == own.get(key)}
    if json:
        reasons = {key: {"why": why[key]} for key in changed if key in why}
        return show_json(
            {key: {"parent": old, "spec": new} | reasons.get(key, {}) for key, (old, new) in changed.items()}
        )
    for key, (old, new) in changed.items():
        print(escape_control_characters(f"{key}: {_word(old)} -> {_word(new)}{f'  # {why[key]}' if key in why else ''}"))
    if "" in why:
        print(escape_control_characters(f"# {why['']}"))
    return None if changed else report().info(f"`{spec}` changes nothing")


def _word(value: object) -> str:
    return value if isinstance(value, str) else dumps(value, ensure_ascii=False)

"""`zoo clean`: room on the disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from zoo.shelf.clearance import Clearance

EXAMPLES = "zoo clean\n\nzoo clean compiled prepared --yes\n\nzoo clean runs/second"


def command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="compiled|prepared|archives|runs|RUN",
            show_default="all but runs",
            help="What is to go; a RUN is its folder, or the name of its spec.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
) -> None:
    """Remove caches and runs: shows what would go, and asks.

    Without a word it is what is made or fetched again when it is wanted: compiled programs, prepared corpora, fetched
    archives. Runs go when they are named, all those under runs/ with `runs`. Never removed are published models, what a
    process is using or training, and what a link leads to.
    """
    from cli.console import report
    from zoo.report import size
    from zoo.shelf.clearance import clearance

    words, found = report(), clearance(what or ())
    for kept in found.kept:
        words.say(f"stays: {kept.path}: {kept.reason}")
    if not found.removable:
        return words.say("there is nothing to remove")
    _show(found)
    if not yes and not _confirmed():
        return words.say("nothing was removed")
    stayed = found.remove()
    for kept in stayed:
        words.say(f"stays: {kept.path}: {kept.reason}")
    return words.say(f"removed: {size(found.bytes)}" if not stayed else "removed: the rest")


def _show(found: Clearance) -> None:
    from cli.console import show_table
    from zoo.report import size

    rows = [(each.what, size(each.bytes), str(each.path)) for each in found.removable]
    show_table(("to remove", ">", "…"), [*rows, ("all", size(found.bytes), "is free then")])


def _confirmed() -> bool:
    """Asks who sits there. Raises ZooError where nobody does."""
    from specs import ZooError

    if not sys.stdin.isatty():
        raise ZooError("nothing was removed: nobody is there to be asked", hint="`--yes` removes it without asking")
    print("remove all of this? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")

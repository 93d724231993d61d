"""`zoo clean`: room on the disk."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = "zoo clean\n\nzoo clean compiled prepared --yes\n\nzoo clean runs/second"


def command(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="compiled|prepared|archives|pulls|runs|RUN",
            show_default="all but runs",
            help="What is to go; a RUN is its folder, or the name of its spec.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
) -> None:
    """Remove caches and runs: shows what would go, and asks.

    Without a word it is what is made or fetched again when it is wanted: compiled programs, prepared corpora, fetched
    archives, what has arrived of models whose pull did not end. Runs go when they are named, all those under runs/ with
    `runs`. Never removed are published models (`zoo remove` does that), runs in training, prepared corpora in use, what
    is being fetched, taken out of an archive or pulled, and what a link leads to.
    """
    from cli.removing import remove
    from zoo.publishing.removal import plan_cleanup

    remove(plan_cleanup(what or ()), yes=yes)

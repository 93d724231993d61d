"""`zoo remove`: a published model goes from the shelf."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import options

EXAMPLES = "zoo remove transformer-tiny-ende\n\nzoo remove transformer-tiny-ende@1 --yes"


def command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            show_default=False,
            autocompletion=options.published,
            help="A model on the shelf, with all its revisions there; or one of them alone, as NAME@2.",
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Remove it without asking.")] = False,
) -> None:
    """Remove published models from the shelf: shows them, and asks.

    What registries have stays there, and `zoo pull` brings it back.
    """
    from cli.removing import remove
    from zoo.publishing.removal import plan_model_removal

    remove(plan_model_removal(names), yes=yes)

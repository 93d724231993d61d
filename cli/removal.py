"""`zoo clean` and `zoo remove`: free disk space, after confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from cli.options import argument

if TYPE_CHECKING:
    from zoo.publishing.removal import RemovalPlan

CLEAN_EXAMPLES = "zoo clean\n\nzoo clean compiled prepared --yes\n\nzoo clean runs/second"
REMOVE_EXAMPLES = "zoo remove transformer-tiny-ende\n\nzoo remove transformer-tiny-ende@1 --yes"

_Yes = Annotated[bool, typer.Option("--yes", help="Remove without asking for confirmation.")]


def clean(
    what: Annotated[
        list[str] | None,
        argument(
            "compiled|prepared|archives|pulls|runs|RUN",
            "What to remove. RUN is the folder of a run, or the name of its spec.",
            shown="all except runs",
            complete=options.complete_run,
        ),
    ] = None,
    yes: _Yes = False,
) -> None:
    """Remove caches and runs: show what would be removed, and ask for confirmation.

    `compiled` means compiled programs, `prepared` prepared corpora, `archives` downloaded archives, and `pulls`
    incomplete downloads of models. All of these are created again when they are needed. `runs` means all runs under
    runs/, whose results are lost.

    The command never removes published models (use `zoo remove`), runs in training, prepared corpora in use, downloads
    in progress, or the targets of links.
    """
    from zoo.publishing.removal import plan_cleanup

    _remove(plan_cleanup(what or ()), yes=yes)


def remove(
    names: Annotated[
        list[str],
        argument(
            "NAME",
            "Model in the local model store: all its revisions, or one of them (NAME@2).",
            complete=options.complete_model,
        ),
    ],
    yes: _Yes = False,
) -> None:
    """Remove published models from the local model store: show them, and ask for confirmation.

    Models in registries are not affected, and `zoo pull` downloads them again.
    """
    from zoo.publishing.removal import plan_model_removal

    _remove(plan_model_removal(names), yes=yes)


def _remove(plan: RemovalPlan, *, yes: bool) -> None:
    """Remove files after confirmation. Raise ZooError if stdin is not a terminal and `yes` is false."""
    from cli.console import confirm, report, show_table
    from zoo.report import size

    messages = report()
    for kept in plan.kept:
        messages.info(f"kept: {kept.path}: {kept.reason}")
    if not plan.removable:
        return messages.info("there is nothing to remove")
    rows = [(item.kind, size(item.bytes), str(item.path)) for item in plan.removable]
    show_table(("to remove", ">", "…"), [*rows, ("total", size(plan.bytes), "")])
    if not yes and not confirm("remove all of this?", "nothing was removed"):
        return messages.info("nothing was removed")
    failed = plan.remove()
    for kept in failed:
        messages.info(f"kept: {kept.path}: {kept.reason}")
    return messages.info("removed the rest" if failed else f"removed {size(plan.bytes)}")

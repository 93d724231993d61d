"""`zoo average`: from checkpoints to weights."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import options

EXAMPLES = "zoo average tiny\n\nzoo average runs/big --last 5"


def command(
    run: options.Run,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1_000, show_default="training.average of its spec", help="How many checkpoints."
        ),
    ] = None,
) -> None:
    """Write the mean of a run's last checkpoints as its weights."""
    from zoo.model import find
    from zoo.training.average import average
    from zoo.training.run import Run

    print(average(Run(find.run(run)), last))

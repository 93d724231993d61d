"""`zoo publish`: from a run to a bundle on the shelf."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import options

EXAMPLES = (
    "zoo publish tiny\n\nzoo publish runs/second --name my-model"
    "\n\nzoo publish table3/a-h1 && zoo verify transformer-table3-a-h1-ende"
)


def command(
    run: options.Run,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default="the name in its spec",
            help="Letters, digits and - _ . , only; it gives way to the new one.",
        ),
    ] = None,
) -> None:
    """Write a run's bundle to the shelf.

    The shelf is a folder of your data folder; ZOO_HOME moves it. The bundle holds the spec, the weights, the
    vocabulary, the scores, a card, the hash of each file, and a proof: a few sentences with the log-probabilities that
    they must get. It is checked before it takes its place.
    """
    from cli.console import report
    from zoo.shelf.publish import publish

    words = report()
    folder = publish(run, name=name, report=words)
    print(folder)
    words.say(f"next: zoo decode --model {folder.name}")

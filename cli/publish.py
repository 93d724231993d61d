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
            help="Letters, digits and - _ . , only.",
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of another run's that has this name.")
    ] = False,
    text: Annotated[
        bool | None,
        typer.Option(
            "--text/--no-text",
            show_default="--text where all of it is of the built-in grammar",
            help="Whether sentences of the dev and test sets go along: look at their licence.",
        ),
    ] = None,
) -> None:
    """Write a run's bundle to the shelf.

    The shelf is a folder of your data folder; ZOO_HOME moves it. The bundle holds the spec, the weights, the
    vocabulary, the scores, the facts of its training, a card, the hash of each file, and a proof: a few sentences with
    the log-probabilities that they must get. With --text the proof is of the dev set, and a sample of the test set goes
    along, whose score `zoo verify` reproduces. It is checked before it takes its place. An earlier state of the same
    training gives way to it, and any other model of its name with --replace.
    """
    from cli.console import report
    from specs.task import COMMANDS
    from zoo.model.folder import ModelFolder
    from zoo.shelf.publish import publish

    words = report()
    folder = publish(run, name=name, replace=replace, with_text=text, report=words)
    print(folder)
    words.say(f"next: zoo {COMMANDS[ModelFolder(folder).spec.task.kind]} --model {folder.name}")

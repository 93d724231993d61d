"""`zoo publish`: from a run to a bundle on the shelf."""

from __future__ import annotations

from typing import Annotated

import typer

from cli import options

EXAMPLES = (
    "zoo publish tiny\n\nzoo publish runs/second --name my-model"
    "\n\nzoo publish table3/a-h1 && zoo verify transformer-table3-a-h1-ende"
    "\n\nzoo publish tiny --to s3://our-models/zoo"
)


def command(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|NAME",
            show_default=False,
            autocompletion=options.published,
            help="A run: its folder, or the name of its spec (`tiny` is runs/tiny); with --to also a published model.",
        ),
    ],
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
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE", help="Publish it to this registry, too: a folder, s3://BUCKET/..., or hf://ORG/NAME."
        ),
    ] = None,
    formerly: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --to: an old name that leads to this one from now on, with a warning."),
    ] = None,
    text: Annotated[
        bool | None,
        typer.Option(
            "--text/--no-text",
            show_default="--text where all of it is of the built-in grammar",
            help="Whether sentences of the dev and test sets go along: look at their licence.",
        ),
    ] = None,
) -> None:
    """Write a run's bundle to the shelf, and to a registry.

    The shelf is a folder of your data folder; ZOO_HOME moves it. The bundle holds the spec, the weights, the
    vocabulary, the scores, the facts of its training, a card, the hash of each file, and a proof: a few sentences with
    the log-probabilities that they must get. With --text the proof is of the dev set, and a sample of the test set goes
    along, whose score `zoo verify` reproduces. It is checked before it takes its place. An earlier state of the same
    training gives way to it, and any other model of its name with --replace.

    With --to it becomes the next revision of its name in that registry, once it is verified: all of it at once, and
    whoever else publishes there loses nothing. A revision never changes; others pull the newest, or pin one.
    """
    from cli.console import report
    from specs import ZooError
    from specs.task import COMMANDS
    from zoo.models.find import published_model
    from zoo.models.folder import ModelFolder
    from zoo.publishing.publish import publish
    from zoo.publishing.upload import is_published_model, require_registry, upload

    words = report()
    if formerly is not None and to is None:
        raise ZooError("`--formerly` needs `--to`", hint="old names lead to new ones in a registry: say which")
    if to is not None:
        require_registry(to, formerly)
    if to is not None and name is None and is_published_model(run):
        if replace or text is not None:
            option = "--replace" if replace else "--text" if text else "--no-text"
            problem = f"`{option}` is for a run, and `{run}` is published already"
            raise ZooError(problem, hint=f"leave it out, or publish the run of `{run}` with it")
        folder = published_model(run, words)
    else:
        folder = publish(run, name=name, replace=replace, with_text=text, report=words)
    print(folder)
    if to is not None:
        made = upload(folder, to, alias=formerly, report=words)
        return print(f"{made.pin} sha256:{made.digest}")
    return words.say(f"next: zoo {COMMANDS[ModelFolder(folder).spec.task.kind]} --model {folder.name}")

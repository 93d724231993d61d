"""`zoo pull`: from a registry to the shelf."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = (
    "zoo pull transformer-big-ende\n\nzoo pull transformer-big-ende@2 && zoo decode --model transformer-big-ende@2"
    "\n\nZOO_REGISTRIES=https://models.example.org zoo pull transformer-big-ende"
)


def command(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help="A published model; NAME@2 or NAME@sha256:... is one revision of it, else it is the newest.",
        ),
    ],
) -> None:
    """Bring published models from the registries to the shelf.

    The registries are those of ZOO_REGISTRIES (folders, https://, s3://, hf://, with spaces between), then those in
    registries.txt of your data folder, one a line. What arrives is held to the hashes that it was published with, and
    appears when all of it is there; a pull that broke off goes on where it was. What is here already is held to them,
    too, and made whole where it is damaged. Commands and zoo.load that name a model which is not here pull it
    themselves, unless ZOO_OFFLINE=1; what is here stays as it is until it is pulled.
    """
    from cli.console import report
    from zoo.models.find import pull_model

    words = report()
    for name in names:
        try:
            print(pull_model(name, words))
        except KeyboardInterrupt:
            words.say("\nwhat has arrived is kept: the same command goes on with it")
            raise

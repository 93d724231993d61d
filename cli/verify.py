"""`zoo verify`: is a published model what was published, and does it compute here what it did there?"""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLES = "zoo verify transformer-tiny-ende\n\nzoo verify ./bundle"


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|DIR", show_default=False, help="A published model by name (`zoo list`), or by folder."
        ),
    ],
) -> None:
    """Check a published model's files and its proof.

    Files must have their hashes, and a few sentences the log-probabilities they had when published, to 1e-4.
    """
    from cli.console import report
    from zoo.shelf.publish import verify

    found = verify(name, report=report())
    print(f"{name}: {found.files} files are as published")
    print(f"{found.sentences} sentences get the log-probabilities of the proof, to {found.difference:.1g}")

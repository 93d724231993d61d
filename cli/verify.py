"""`zoo verify`: is a published model what was published, and does it compute here what it did there?"""

from __future__ import annotations

from typing import Annotated

import typer

from cli import options

EXAMPLES = "zoo verify transformer-tiny-ende\n\nzoo verify ./bundle --backend auto"


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|DIR", show_default=False, help="A published model by name (`zoo list`), or by folder."
        ),
    ],
    backend: Annotated[
        str | None,
        typer.Option(
            callback=options.known_backend,
            metavar="NAME",
            show_default="eager, on the processor",
            help="What computes, on the device there is: `auto`, or one that `zoo doctor` lists.",
        ),
    ] = None,
) -> None:
    """Check a published model's files, its proof and its score.

    Files must have their hashes, a few sentences the log-probabilities they had when published, to 1e-4, and a sample
    of its test set the score it had, to a point. A model whose test set has an owner has no sample, but by --text.
    """
    from cli.console import report
    from zoo.publishing.verify import verify

    found = verify(name, backend=backend, report=report())
    print(f"{name}: {found.files} files are as published")
    by = f" by {found.backend}" if backend else ""
    print(f"{found.sentences} sentences get the log-probabilities of the proof{by}, to {found.max_difference:.1g}")
    if sample := found.reference_outputs:
        told = f"{sample.metric} {sample.score:.2f}, and {sample.published_score:.2f} when it was published"
        print(f"{sample.sentences} sentences of {sample.set} score {told}; {sample.identical} outputs are the same")
    else:
        print("it has no sample of its test set, so that no score is reproduced")

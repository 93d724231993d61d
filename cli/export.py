"""`zoo export`: from a bundle to a folder that another engine reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options

EXAMPLES = (
    "zoo export transformer-tiny-ende --to ctranslate2 -o tiny.ct2"
    "\n\nzoo export my-model --to hf-marian -o my-model.hf\n\nzoo export my-model --to onnx -o my-model.onnx"
)


def command(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            autocompletion=options.published,
            help="A published model, or its folder.",
        ),
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="hf-marian|ctranslate2|onnx", show_default=False, help="The format.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", show_default=False, help="A new folder to write into.")
    ],
) -> None:
    """Write a published model for another engine.

    What was written is read back and compared tensor by tensor, and the engine, where it is installed, has to give the
    sentences of the model's proof the same log-probabilities (ONNX models: random tokens those of the compiler's
    interpreter): else nothing is written. What a format cannot say is refused by name.
    """
    from cli.console import report
    from zoo.interop.exporter import export_model

    words = report()
    done = export_model(name, to, output, words)
    if done.check is None:
        words.say("not run: the engine is not installed here; the tensors came back as they were")
    else:
        words.say(
            f"checked: {done.check.engine} differs from {done.check.reference} by {done.check.difference:.1g} at most"
        )
    print(done.folder)

"""`zoo import`: from another toolkit's model to a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specs import ZooError

if TYPE_CHECKING:
    from zoo.interop.formats import PositionConvention

EXAMPLES = (
    "zoo import model.npz --name my-model\n\nzoo import ./opus-mt-en-de --check sentences.en"
    "\n\nzoo import hf:Helsinki-NLP/opus-mt-en-de"
)

_Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", show_default=False, help="A model's file or folder, or hf:ORG/NAME on the Hugging Face Hub."
    ),
]
_Name = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="that of its file or folder", help="Letters, digits and - _ . , only."),
]
_Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="hf-marian|marian|ctranslate2|fairseq",
        show_default="as its files say",
        help="Read it as this format, whatever its files look like.",
    ),
]
_Languages = Annotated[
    tuple[str, str] | None,
    typer.Option(
        metavar="SOURCE TARGET", show_default="as its files say", help="Its languages, by codes such as en de."
    ),
]
_Positions = Annotated[
    str | None,
    typer.Option(
        metavar="marian|transformers",
        show_default="marian",
        help="Of a Hugging Face Marian model: whose sinusoids it was trained with. Those of transformers are a little "
        "different, and OPUS-MT's models were trained by Marian.",
    ),
]
_Check = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Translate these sentences, a line each, with the engine that the model comes from, too, and compare.",
    ),
]


def command(
    source: _Source,
    name: _Name = None,
    format: _Format = None,
    languages: _Languages = None,
    positions: _Positions = None,
    check: _Check = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put it in the place of a model of this name.")] = False,
) -> None:
    """Write another toolkit's model to the shelf.

    The bundle is like one that was trained here: it is translated with by its name, published on, and trained on with
    `training.start_from`. Its spec says what it is, and how translations are looked for is taken from its own settings.
    What a spec cannot say is refused by name. With --check the engine it comes from (pymarian, transformers or
    ctranslate2, which has to be installed) translates as well: how many translations are the same, by how much
    log-probabilities differ, and how fast both are.
    """
    from cli.console import report
    from zoo.interop.importer import ImportOptions, import_model

    words = report()
    choice = ImportOptions(name, format, languages, _known(positions), check, replace)
    done = import_model(source, choice, words)
    if done.comparison:
        words.say(done.comparison.summary)
    print(done.folder)
    words.say(f"next: zoo decode --model {done.folder.name}")


def _known(positions: str | None) -> PositionConvention | None:
    known: dict[str | None, PositionConvention | None] = {
        None: None,
        "marian": "marian",
        "transformers": "transformers",
    }
    if positions in known:
        return known[positions]
    raise ZooError(f"`--positions {positions}` are nobody's", hint="write `marian` or `transformers`")

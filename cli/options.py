"""The arguments and options that several commands share, each said once."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import specs
import zoo
from specs import ZooError
from specs.decoding import MAX_ALPHA, MAX_BEAM, MAX_TOKENS

OF_SPEC = "the spec's"
_HOW = "How it runs"


def _shipped(incomplete: str) -> list[str]:
    """For shells that complete it; where nothing fits they complete a path."""
    return [name for name in specs.names() if name.startswith(incomplete)]


def published(incomplete: str) -> list[str]:
    with suppress(ZooError, OSError):  # a shell that completes has no place for an error
        return [name for name in zoo.names() if name.startswith(incomplete)]
    return []


Reference = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        show_default=False,
        autocompletion=_shipped,
        help="A spec: a shipped name (`big`, or `a-h1` for `table3/a-h1`; see `zoo list`), or a path ending in .yaml.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", show_default=False, help="Fields to set, such as `training.steps=500`."),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN", show_default=False, help="A run: its folder, or the name of its spec (`tiny` is runs/tiny)."
    ),
]
OfSpec = Annotated[
    str | None,
    typer.Option(
        "--spec",
        metavar="SPEC",
        autocompletion=_shipped,
        help="The newest trained run of this spec under runs/, else the published model of its name.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|RUN",
        autocompletion=published,
        help="A published model by name (NAME@2 is a revision of it), or a run by folder or spec.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME|RUN",
        help="A published model by name (NAME@2 is a revision of it), or a run by folder or spec; several, each with "
        "--model, are an ensemble.",
    ),
]
Input = Annotated[
    Path | None, typer.Option(metavar="FILE", show_default="stdin", help="UTF-8 text, one sentence a line.")
]
Beam = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MAX_BEAM, show_default=OF_SPEC, help="Hypotheses kept at each step; 1 is greedy."
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0, max=MAX_ALPHA, show_default=OF_SPEC, help="Exponent of the length penalty."),
]
Device = Annotated[
    str,
    typer.Option(metavar="auto|cpu|cuda|cuda:N", rich_help_panel=_HOW, help="auto is the GPU where there is one."),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bfloat16|int8",
        show_default=OF_SPEC,
        rich_help_panel=_HOW,
        help="Numbers of weights and products; all but float32 are approximate.",
    ),
]


def known_backend(backend: str | None) -> str | None:
    """A backend that is none is told before a model that is not there."""
    if backend is not None:
        from compiler.backends import check_backend_name

        check_backend_name(backend)
    return backend


Backend = Annotated[
    str | None,
    typer.Option(
        callback=known_backend,
        metavar="NAME",
        show_default=OF_SPEC,
        rich_help_panel=_HOW,
        help="What runs it: auto, or one of those that `zoo doctor` lists.",
    ),
]
Tokens = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_TOKENS,
        show_default="4096",
        rich_help_panel=_HOW,
        help="Source tokens of one batch, padding counted; less takes less memory.",
    ),
]


def refuse(belongs: str, **given: object) -> None:
    """Raises ZooError for the first of these options that was given: it has a use for `belongs` only."""
    for name, value in given.items():
        if value not in (None, False) and (name, value) != ("device", "auto"):
            raise ZooError(f"`--{name}` is for {belongs} only", hint=f"leave `--{name}` out")


Language = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        show_default="the last ending of the references' name",
        rich_help_panel="Files alone",
        help="The language of files of translations, such as de: the paper's BLEU has its tokens.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of words, for programs.")]
Output = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        show_default="stdout",
        help="Where to write: a file appears when all is done, a pipe or a device gets each line at once.",
    ),
]

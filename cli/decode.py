"""`zoo decode`: translate, line by line."""

from __future__ import annotations

from functools import partial
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from specs.decoding import MAX_N_BEST, MAX_SEED, MAX_TOP_K

if TYPE_CHECKING:
    from zoo.generation.opening import How
    from zoo.generation.request import Choice
    from zoo.generation.translation import Translation

EXAMPLES = (
    'echo "the old dog sees a small house" | zoo decode --spec tiny'
    "\n\nzoo decode --model transformer-big-ende --input news.en --output news.de --device cuda --precision bfloat16"
    "\n\nzoo decode --spec tiny --n-best 4 --json < lines.en"
    "\n\nzoo decode --spec tiny --search sample --top-p 0.9 --seed 7 < lines.en"
    "\n\nzoo decode --model runs/one --model runs/two < lines.en"
)

_SAMPLES = "How samples are drawn"

_Prefix = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What the translation of each line must start with, a line to a line, normalised as all text is.",
    ),
]
_Search = Annotated[
    str | None,
    typer.Option(metavar="beam|sample", show_default=options.OF_SPEC, help="Look for the best, or draw translations."),
]
_NBest = Annotated[
    int | None,
    typer.Option(
        "--n-best",
        metavar="N",
        min=1,
        max=MAX_N_BEST,
        help="The N best of each line, best first, as line number, score and text with tabs between them. They differ "
        "in their word tokens: two may be the same text. Samples come as they were drawn.",
    ),
]
_Temperature = Annotated[
    float | None,
    typer.Option(
        metavar="X", show_default=options.OF_SPEC, rich_help_panel=_SAMPLES, help="Logits are divided by this."
    ),
]
_TopK = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MAX_TOP_K,
        show_default=options.OF_SPEC,
        rich_help_panel=_SAMPLES,
        help="Only the N top_k tokens; 0: any.",
    ),
]
_TopP = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        show_default=options.OF_SPEC,
        rich_help_panel=_SAMPLES,
        help="Only the fewest top_k tokens that together reach this probability; 1.0: any.",
    ),
]
_Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MAX_SEED,
        show_default="its training.seed",
        rich_help_panel=_SAMPLES,
        help="Another seed draws others. What is drawn for a line does not depend on the other lines.",
    ),
]


def command(
    spec: options.OfSpec = None,
    model: options.Models = None,
    input: options.Input = None,
    prefix: _Prefix = None,
    output: options.Output = None,
    search: _Search = None,
    beam: options.Beam = None,
    alpha: options.Alpha = None,
    n_best: _NBest = None,
    temperature: _Temperature = None,
    top_k: _TopK = None,
    top_p: _TopP = None,
    seed: _Seed = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    tokens: options.Tokens = None,
) -> None:
    """Translate stdin to stdout, line by line.

    As many lines come out as went in, in their order and early: up to 1,024 are read ahead, and where the input pauses
    all that have come are answered; empty ones stay empty. A line longer than the spec's decoding.max_source_length is
    translated in parts, which end where sentences do. Either --spec or --model says what with. With --json each line
    becomes an object with `source` and `translations`, each of these with `text`, `score` (length-penalised) and
    `log_probability` (natural, of the whole translation).
    """
    from cli.answering import Files, answer, opened
    from cli.console import report
    from zoo.models.find import all_from_options

    how: How = {"device": device, "precision": precision, "backend": backend}
    choice: Choice = {"search": search, "beam": beam, "alpha": alpha, "tokens": tokens}
    choice |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    lines = partial(_lines, json=json, n_best=n_best)
    translator = opened(all_from_options(spec, model, report()), "translation", how, input)
    answer(translator, Files(input, output, prefix), choice, n_best, lines)


def _lines(number: int, source: str, found: list[Translation], json: bool, n_best: int | None) -> list[str]:
    if json:
        fields = ("text", "score", "log_probability")
        translations = [{field: getattr(each, field) for field in fields} for each in found]
        return [dumps({"source": source, "translations": translations}, ensure_ascii=False)]
    if n_best is None:
        return [found[0].text]
    return [f"{number}\t{each.score:.6f}\t{each.text}" for each in found]

"""`zoo decode`: translate, line by line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import tee
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from specs.decoding import MOST_ALPHA, MOST_BEAM, MOST_N_BEST, MOST_SEED, MOST_TOP_K

if TYPE_CHECKING:
    from zoo.search.request import Choice
    from zoo.translation.opening import How
    from zoo.translation.translation import Translation

EXAMPLES = (
    'echo "the old dog sees a small house" | zoo decode --spec tiny'
    "\n\nzoo decode --model transformer-big-ende --input news.en --output news.de --device cuda --precision bfloat16"
    "\n\nzoo decode --spec tiny --n-best 4 --json < lines.en"
    "\n\nzoo decode --spec tiny --search sample --top-p 0.9 --seed 7 < lines.en"
    "\n\nzoo decode --model runs/one --model runs/two < lines.en"
)

_OF_SPEC = "the spec's"
_SAMPLES = "How samples are drawn"

_Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME|RUN",
        help="A published model by name, or a run by folder or spec; several, each with --model, are an ensemble.",
    ),
]
_Input = Annotated[
    Path | None, typer.Option(metavar="FILE", show_default="stdin", help="UTF-8 text, one sentence a line.")
]
_Prefix = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What the translation of each line must start with, a line to a line, normalised as all text is.",
    ),
]
_Search = Annotated[
    str | None,
    typer.Option(metavar="beam|sample", show_default=_OF_SPEC, help="Look for the best, or draw translations."),
]
_Beam = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MOST_BEAM, show_default=_OF_SPEC, help="Hypotheses kept at each step; 1 is greedy."
    ),
]
_Alpha = Annotated[
    float | None,
    typer.Option(metavar="X", min=0.0, max=MOST_ALPHA, show_default=_OF_SPEC, help="Exponent of the length penalty."),
]
_NBest = Annotated[
    int | None,
    typer.Option(
        "--n-best",
        metavar="N",
        min=1,
        max=MOST_N_BEST,
        help="The N best of each line, best first, as line number, score and text with tabs between them. They differ "
        "in their word pieces: two may be the same text. Samples come as they were drawn.",
    ),
]
_Temperature = Annotated[
    float | None,
    typer.Option(metavar="X", show_default=_OF_SPEC, rich_help_panel=_SAMPLES, help="Logits are divided by this."),
]
_TopK = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MOST_TOP_K,
        show_default=_OF_SPEC,
        rich_help_panel=_SAMPLES,
        help="Only the N likeliest pieces; 0: any.",
    ),
]
_TopP = Annotated[
    float | None,
    typer.Option(
        metavar="X",
        show_default=_OF_SPEC,
        rich_help_panel=_SAMPLES,
        help="Only the fewest likeliest pieces that together reach this probability; 1.0: any.",
    ),
]
_Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=MOST_SEED,
        show_default="its training.seed",
        rich_help_panel=_SAMPLES,
        help="Another seed draws others. What is drawn for a line does not depend on the other lines.",
    ),
]


def command(
    spec: options.OfSpec = None,
    model: _Models = None,
    input: _Input = None,
    prefix: _Prefix = None,
    output: options.Output = None,
    search: _Search = None,
    beam: _Beam = None,
    alpha: _Alpha = None,
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
    how: How = {"device": device, "precision": precision, "backend": backend}
    choice: Choice = {"search": search, "beam": beam, "alpha": alpha, "tokens": tokens}
    choice |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    _decode(spec, model or [], (input, prefix, output), how, choice, n_best, json)


def _decode(
    spec: str | None,
    models: list[str],
    files: tuple[Path | None, Path | None, Path | None],
    how: How,
    choice: Choice,
    n_best: int | None,
    json: bool,
) -> None:
    from cli.console import report
    from cli.lines import reading, typed, writing
    from zoo.model.find import chosen
    from zoo.report import Report
    from zoo.translation.opening import open_model
    from zoo.translation.stream import translate_lines
    from zoo.translation.translator import Translator

    input, prefix, output = files
    words, person = report(), typed(input)
    folders = [chosen(spec, model) for model in models] or [chosen(spec, None)]
    opened = [open_model(folder, **how, report=words) for folder in folders]
    translator = Translator.ensemble(opened) if len(opened) > 1 else opened[0]
    if person:
        words.say(f"{', '.join(map(str, folders))} translates what you type, line by line; Ctrl-D ends it")
    shown = words if output or not (person or sys.stdout.isatty()) else Report()
    read = [input, *([prefix] if prefix else [])]
    with reading(input) as lines, _prefixes(prefix) as begun, writing(output, read, at_once=True) as write:
        texts, sources = tee(lines)
        found = translate_lines(
            translator, texts, prefixes=begun, n_best=n_best, paused=lines.paused, report=shown, **choice
        )
        for number, (translations, source) in enumerate(zip(found, sources, strict=False), start=1):
            for line in _lines(number, source, translations, json, n_best):
                write(line)


def _prefixes(path: Path | None) -> AbstractContextManager[Iterator[str] | None]:
    from cli.lines import reading

    return reading(path) if path else nullcontext()


def _lines(number: int, source: str, found: list[Translation], json: bool, n_best: int | None) -> list[str]:
    if json:
        fields = ("text", "score", "log_probability")
        translations = [{field: getattr(each, field) for field in fields} for each in found]
        return [dumps({"source": source, "translations": translations}, ensure_ascii=False)]
    if n_best is None:
        return [found[0].text]
    return [f"{number}\t{each.score:.6f}\t{each.text}" for each in found]

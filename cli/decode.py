"""`zoo decode`: translate, line by line."""

from __future__ import annotations

import sys
from itertools import tee
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.decoding.translation import Translation

EXAMPLES = (
    'echo "the old dog sees a small house" | zoo decode --spec tiny'
    "\n\nzoo decode --model transformer-big-ende --input news.en --output news.de --device cuda --precision bfloat16"
    "\n\nzoo decode --spec tiny --n-best 4 --json < lines.en"
)


def command(
    spec: options.OfSpec = None,
    model: options.Model = None,
    input: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="stdin", help="UTF-8 text, one sentence a line.")
    ] = None,
    output: options.Output = None,
    beam: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="the spec's", help="Hypotheses kept at each step; 1 is greedy."),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, show_default="the spec's", help="Exponent of the length penalty."),
    ] = None,
    n_best: Annotated[
        int | None,
        typer.Option(
            "--n-best",
            metavar="N",
            min=1,
            help="The N best of each line, best first, as line number, score and text with tabs between them.",
        ),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = "float32",
    tokens: options.Tokens = None,
) -> None:
    """Translate stdin to stdout, line by line.

    As many lines come out as went in; empty ones stay empty. Either --spec or --model says what with. With --json each
    line becomes an object with `source` and `translations`, each of these with `text`, `score` (length-penalised) and
    `log_probability` (natural, of the whole translation).
    """
    from cli.console import report
    from cli.lines import reading, typed, writing
    from zoo.decoding.stream import WINDOW, translate_lines
    from zoo.report import Report
    from zoo.shelf.bundle import open_model
    from zoo.shelf.find import chosen

    words, person = report(), typed(input)
    folder = chosen(spec, model)
    translator = open_model(folder, device=device, precision=precision, tokens=tokens, report=words)
    if person:
        words.say(f"{folder} translates what you type, line by line; Ctrl-D ends it")
    shown = words if output or not (person or sys.stdout.isatty()) else Report()
    window = 1 if person else WINDOW
    with reading(input) as lines, writing(output, at_once=person) as write:
        texts, sources = tee(lines)
        found = translate_lines(translator, texts, n_best=n_best, window=window, report=shown, beam=beam, alpha=alpha)
        for number, (source, translations) in enumerate(zip(sources, found, strict=False), start=1):
            for line in _lines(number, source, translations, json, n_best):
                write(line)


def _lines(number: int, source: str, found: list[Translation], json: bool, n_best: int | None) -> list[str]:
    if json:
        fields = ("text", "score", "log_probability")
        translations = [{field: getattr(each, field) for field in fields} for each in found]
        return [dumps({"source": source, "translations": translations}, ensure_ascii=False)]
    if n_best is None:
        return [found[0].text]
    return [f"{number}\t{each.score:.6f}\t{each.text}" for each in found]

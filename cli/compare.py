"""`zoo compare`: is one of two translators better, or is it chance?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.evaluation.comparison import Comparison

EXAMPLES = "zoo compare runs/tiny runs/tiny-2\n\nzoo compare ours.de theirs.de --references newstest2014.de --json"


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A model (NAME or RUN), or a file of translations.")],
    b: Annotated[str, typer.Argument(metavar="B", help="What it is compared with.")],
    set: Annotated[
        str | None, typer.Option(metavar="dev|test", show_default="test", help="Which pairs of the models' corpus.")
    ] = None,
    references: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel="Files alone", help="A and B are files, compared with this one."),
    ] = None,
    language: options.Language = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    tokens: options.Tokens = None,
) -> None:
    """Say which of two models, or of two files, is better.

    Two models translate one set, or two files hold what was translated; scores are BLEU, the paper's BLEU, chrF and
    TER. Of the sentences 1,000 sets are drawn with replacement, the same for both (paired bootstrap; Koehn 2004).
    Behind a score stands half its interval of 95 %; p is how probable so large a difference, either way, would be if
    there was none.
    From 0.05 on neither is called better.
    """
    from cli.console import report, show_json
    from zoo.evaluation.comparison import compare_files, compare_models
    from zoo.generation.compilation import BackendOptions
    from zoo.models.find import model

    words = report()
    if references is not None:
        options.refuse("models", set=set, device=device, precision=precision, backend=backend, tokens=tokens)
        found = compare_files(Path(a), Path(b), references, language=language, report=words)
    else:
        options.refuse("files", language=language)
        how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
        found = compare_models(model(a, words), model(b, words), set or "test", **how, max_batch_tokens=tokens, report=words)
    if json:
        show_json([{**asdict(each), "difference": each.difference, "better": each.better} for each in found])
    else:
        _show(found)


def _show(found: tuple[Comparison, ...]) -> None:
    from cli.console import report, show_table
    from zoo.evaluation.metrics import get_metric

    rows = []
    for each in found:
        scores = [f"{score:.2f} ± {half:.2f}" for score, half in zip(each.scores, each.confidence, strict=True)]
        called = get_metric(each.metric).title
        rows.append((called, *scores, f"{each.difference:+.2f}", f"{each.p:.3f}", each.better or "neither"))
    show_table(("", "A>", "B>", "difference>", "p>", "better"), rows)
    for each in found:
        report().say(f"{get_metric(each.metric).title}: {each.signature}")

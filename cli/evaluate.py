"""`zoo evaluate`: how good are translations?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.evaluation.evalb.brackets import BracketScores
    from zoo.evaluation.scores import Scores
    from zoo.report import Report

EXAMPLES = (
    "zoo evaluate --spec tiny\n\nzoo evaluate --model transformer-big-ende --set dev --json"
    "\n\nzoo evaluate --hypotheses out.de --references test.de --tokenize intl"
    "\n\nzoo evaluate --brackets test.trees out.trees --parameters COLLINS.prm"
)

_FILES = "Files alone"


def command(
    spec: options.OfSpec = None,
    model: options.Models = None,
    set: Annotated[
        str | None, typer.Option(metavar="dev|test", show_default="test", help="Which pairs of the spec's corpus.")
    ] = None,
    hypotheses: Annotated[
        Path | None,
        typer.Option(metavar="FILE", rich_help_panel=_FILES, help="Translations that are there already, one a line."),
    ] = None,
    references: Annotated[
        Path | None, typer.Option(metavar="FILE", rich_help_panel=_FILES, help="What they are compared with.")
    ] = None,
    language: options.Language = None,
    tokenize: Annotated[
        str | None,
        typer.Option(
            metavar="13a|intl|char|zh|none",
            show_default="13a",
            rich_help_panel=_FILES,
            help="The tokenisation of sacreBLEU's BLEU.",
        ),
    ] = None,
    lowercase: Annotated[
        bool, typer.Option("--lowercase", rich_help_panel=_FILES, help="Compare without regard to case.")
    ] = False,
    brackets: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="GOLD TEST",
            rich_help_panel=_FILES,
            help="The right trees, one a line, and trees that are there already: the order of EVALB.",
        ),
    ] = None,
    parameters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=_FILES, help="EVALB's parameter file for them, else those of Collins."
        ),
    ] = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    tokens: options.Tokens = None,
) -> None:
    """BLEU and perplexity on dev or test, or scores of two files.

    BLEU is in points, by sacreBLEU, with its signature; the paper's BLEU is of Moses's tokens, with German compounds
    split; chrF and TER stand beside them. Perplexity is per word token. A parser has F1 of its brackets in their place.
    Translates dev or test of the model's own corpus with the beam and the length penalty of its spec.
    The float32 scores of a run are kept in its scores.json, and published with it; those of an ensemble beside its
    first run, for `zoo paper table2`. With --hypotheses and --references
    two files are compared, without a model, and with --brackets two files of trees, as EVALB compares them and in its
    own layout.
    """
    from cli.console import report, show_json
    from zoo.evaluation.ensembles import evaluate_ensemble
    from zoo.evaluation.evalb.brackets import BracketScores, evaluate_brackets
    from zoo.evaluation.files import evaluate_files
    from zoo.evaluation.own_sets import evaluate_model
    from zoo.generation.opening import How
    from zoo.models.find import all_from_options

    words = report()
    found: Scores | BracketScores
    if brackets is None:
        options.refuse("`--brackets`", parameters=parameters)
    if brackets is not None:
        _alone(spec, model)
        options.refuse("translations", hypotheses=hypotheses, references=references, set=set, tokenize=tokenize)
        options.refuse("translations", language=language, lowercase=lowercase)
        options.refuse("a model", device=device, precision=precision, backend=backend, tokens=tokens)
        gold, test = brackets
        found = evaluate_brackets(test, gold, parameters)
    elif hypotheses is not None or references is not None:
        left, right = _both(hypotheses, references, spec, model)
        options.refuse("a model", set=set, device=device, precision=precision, backend=backend, tokens=tokens)
        found = evaluate_files(
            left, right, language=language, tokenize=tokenize or "13a", lowercase=lowercase, report=words
        )
    else:
        options.refuse("two files", language=language, tokenize=tokenize, lowercase=lowercase)
        how: How = {"device": device, "precision": precision, "backend": backend}
        folders, split = all_from_options(spec, model, words), set or "test"
        if len(folders) > 1:
            found = evaluate_ensemble(folders, split, **how, tokens=tokens, report=words)
        else:
            found = evaluate_model(folders[0], split, **how, tokens=tokens, report=words)
    if json:
        show_json(found if isinstance(found, dict) else asdict(found))
    elif isinstance(found, BracketScores):
        _show_brackets(found, words)
    else:
        _show(found)


def _show(found: Scores) -> None:
    from zoo.evaluation.scores import rows

    told = list(rows(found))
    width = max(10, *(len(called) for called, _ in told))
    for called, value in told:
        print(f"{called:<{width}}  {value}")


def _show_brackets(found: BracketScores, words: Report) -> None:
    """EVALB's table, and beside it what that has no place for."""
    from zoo.evaluation.evalb.table import table

    print(table(found))
    if failed := found.failed:
        number, row = failed[0]
        left_out = f"{len(failed):,} of {found.sentences:,} sentences are left out as errors"
        words.warn(
            f"{left_out}; the first is {number:,}: {row.problem} (those of deleted tags, such as marks, are not "
            "counted, and each tree's own tags say which they are)"
        )
    words.say(f"F1 {found.f1:.2f} ({found.signature})")


def _both(
    hypotheses: Path | None, references: Path | None, spec: str | None, model: list[str] | None
) -> tuple[Path, Path]:
    from specs import ZooError

    if hypotheses is None or references is None:
        raise ZooError(
            "`--hypotheses` and `--references` go together", hint="give both files, or `--spec` or `--model` instead"
        )
    _alone(spec, model)
    return hypotheses, references


def _alone(spec: str | None, model: list[str] | None) -> None:
    from specs import ZooError

    if spec is not None or model is not None:
        raise ZooError("files are compared without a model", hint="leave `--spec` and `--model` out")

"""`zoo score`: how likely are given translations, or trees?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.generation.translation import ForcedScore
    from zoo.generation.translator import Translator
    from zoo.report import Report

EXAMPLES = (
    "printf 'the dog sleeps\\\\tder Hund schläft\\\\n' | zoo score --spec tiny"
    "\n\nzoo score --model transformer-tiny-ende --source test.en --target test.de"
)

_WINDOW = 4096  # lines, at most, that are read, sorted by length and scored together


def command(
    spec: options.OfSpec = None,
    model: options.Model = None,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sources, one a line; --target has a line for each.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The translation of each source, or its tree.")
    ] = None,
    output: options.Output = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    tokens: options.Tokens = None,
) -> None:
    """Log-probability of given translations, or of given trees.

    One natural logarithm a line. Pairs come from stdin, source and target with a tab between them, or from --source and
    --target. With --json each line becomes an object with `log_probability`, `tokens` (word tokens and the end of the
    sentence) and `token_log_probabilities`.
    """
    from cli.console import report
    from cli.lines import typed, writing
    from zoo.generation.opening import How, open_model
    from zoo.models.find import from_options
    from zoo.report import Report
    from zoo.text.arriving import windows

    _check(source, target)
    words, person = report(), source is None and typed(None)
    how: How = {"device": device, "precision": precision, "backend": backend}
    translator = open_model(from_options(spec, model, words), **how, tokens=tokens, report=words)
    shown = words if output or not (person or sys.stdout.isatty()) else Report()
    read = [source, target] if source else [None]
    files = [str(each or "<stdin>") for each in read]
    with _pairs(source, target) as (waiting, paused), writing(output, read, at_once=True) as write:
        first = 1
        for window in windows(waiting, _WINDOW, paused):
            for forced in _scored(translator, window, first, files, shown):
                write(_line(forced, json))
            first += len(window)


def _check(source: Path | None, target: Path | None) -> None:
    from specs import ZooError

    if (source is None) != (target is None):
        given, missing = ("--source", "--target") if target is None else ("--target", "--source")
        raise ZooError(f"`{given}` is given and `{missing}` is not", hint="give both, or neither and pairs on stdin")


@contextmanager
def _pairs(source: Path | None, target: Path | None) -> Iterator[tuple[Iterator[tuple[str, str]], Callable[[], bool]]]:
    """Sources with their targets, and whether they pause."""
    from cli.lines import reading

    if source is None or target is None:
        with reading(None) as lines:
            yield _split(lines), lines.paused
        return
    with reading(source) as left, reading(target) as right:
        yield _both(left, right, source, target), left.paused


def _split(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    from specs import ZooError

    for number, line in enumerate(lines, start=1):
        first, tab, second = line.partition("\t")
        if not tab or "\t" in second:
            problem = f"a line has {line.count(chr(9))} tabs, not one"
            raise ZooError(problem, where=f"<stdin>:{number}", hint="write the source, a tab, and its target")
        yield first, second


def _both(left: Iterator[str], right: Iterator[str], source: Path, target: Path) -> Iterator[tuple[str, str]]:
    from itertools import zip_longest

    from specs import ZooError

    for number, (first, second) in enumerate(zip_longest(left, right), start=1):
        if first is None or second is None:
            shorter, longer = (source, target) if first is None else (target, source)
            problem = f"`{shorter}` has {number - 1:,} lines, and `{longer}` has more"
            raise ZooError(problem, hint="line n of the one belongs to line n of the other: both need as many lines")
        yield first, second


def _scored(
    translator: Translator, window: Sequence[tuple[str, str]], first: int, files: Sequence[str], report: Report
) -> Iterator[ForcedScore]:
    """The scores of pairs, of which the first is on that line; the error of a pair comes behind those before it."""
    from specs import ZooError

    sources, targets = zip(*window, strict=True)
    try:
        scored = translator.forced(sources, targets, report=report, first=first)
    except ZooError as error:
        if len(window) == 1:
            where = error.where or ", ".join(f"{file}:{first}" for file in files)
            raise ZooError(error.problem, where=where, hint=error.hint, exit_code=error.exit_code) from error
        half = len(window) // 2
        for begin, end in ((0, half), (half, len(window))):
            yield from _scored(translator, window[begin:end], first + begin, files, report)
        return
    yield from scored


def _line(forced: ForcedScore, json: bool) -> str:
    if not json:
        return f"{forced.log_probability:.6f}"
    fields = ("log_probability", "tokens", "token_log_probabilities")
    return dumps({field: getattr(forced, field) for field in fields})

"""`zoo score`: compute the log-probabilities of given translations or trees."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from json import dumps
from typing import TYPE_CHECKING

from cli import options, pairs
from specs import ZooError

if TYPE_CHECKING:
    from zoo.generation.scoring import TokenScores

SCORE_EXAMPLES = (
    "printf 'the dog sleeps\\\\tder Hund schläft\\\\n' | zoo score --spec tiny"
    "\n\nzoo score --model transformer-tiny-ende --source test.en --target test.de"
)

_CHUNK_LINES = 4096  # maximum number of pairs that are sorted by length and scored together


def score(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    source: pairs.SourceFile = None,
    target: pairs.TargetFile = None,
    output: options.Output = None,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    max_batch_tokens: options.MaxBatchTokens = None,
) -> None:
    """Print the log-probability of given translations or trees.

    Select a model by MODEL, --model or --spec. Pairs come from stdin, as source and target separated by a tab, or
    from --source and --target. Each pair gives one line with the natural logarithm of its probability. A language model
    scores each line of stdin as a text.

    With --json, each line becomes an object with `log_probability`, `tokens` (the target's tokens and the end of
    sentence) and `token_log_probabilities`.
    """
    from cli.console import report
    from cli.streams import is_typed, open_output
    from zoo.generation.compilation import BackendOptions
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.report import Report
    from zoo.text.lines import available_chunks

    pairs.check_options(source, target, name, model)
    messages = report()
    interactive = (source is None and is_typed(None)) or sys.stdout.isatty()
    how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    translator = open_model(
        from_options(spec, name or model, messages), **how, max_batch_tokens=max_batch_tokens, report=messages
    )
    progress = messages if output or not interactive else Report()
    score_tokens = partial(translator.score_tokens, source=from_, target=to, report=progress)
    inputs = [source, target] if source else [None]
    names = [str(path or "<stdin>") for path in inputs]
    reads = translator.spec.task.reads
    with (
        pairs.open_pairs(source, target, reads=reads) as (read, paused),
        open_output(output, inputs, flush=True) as write,
    ):
        first = 1
        for chunk, _ in available_chunks(read, _CHUNK_LINES, paused):
            for forced in _score_pairs(score_tokens, chunk, first, names):
                write(_format_score(forced, json))
            first += len(chunk)


def _score_pairs(
    score_tokens: Callable[..., list[TokenScores]], pairs: Sequence[tuple[str, ...]], first: int, files: Sequence[str]
) -> Iterator[TokenScores]:
    """Yield the scores of all pairs. If a pair is invalid, raise ZooError after the scores of the pairs before it.

    Args:
        score_tokens: `Translator.score_tokens` with its options.
        pairs: Sources and targets or, for a language model, texts.
        first: Line number of the first pair.
        files: Names of the input files, for error messages.
    """
    try:
        scores = score_tokens(*zip(*pairs, strict=True), first=first)
    except ZooError as error:
        if len(pairs) == 1:
            where = error.where or ", ".join(f"{file}:{first}" for file in files)
            raise ZooError(error.problem, where=where, hint=error.hint, exit_code=error.exit_code) from error
        middle = len(pairs) // 2
        for start, end in ((0, middle), (middle, len(pairs))):
            yield from _score_pairs(score_tokens, pairs[start:end], first + start, files)
        return
    yield from scores


def _format_score(forced: TokenScores, json: bool) -> str:
    if not json:
        return f"{forced.log_probability:.6f}"
    fields = ("log_probability", "tokens", "token_log_probabilities")
    return dumps({field: getattr(forced, field) for field in fields})

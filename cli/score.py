"""`zoo score` and `zoo align`: log-probabilities and word alignments of given translations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import zip_longest
from json import dumps
from pathlib import Path
from typing import TypeVar, Unpack

from cli import options
from specs import Task, ZooError

_MAX_SCORED_LINES, _MAX_ALIGNED_LINES = 4096, 1024
"""Maximum number of pairs that are sorted by length and scored together."""
_JSON_FIELDS = ("log_probability", "tokens", "token_log_probabilities")

Pair = tuple[str, ...]
Result = TypeVar("Result")


def score(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    source: options.Source = None,
    target: options.Target = None,
    output: options.Output = None,
    json: options.Json = False,
    **how: Unpack[options.Batching],
) -> None:
    r"""Print the log-probability of given translations or trees.

    Select a model with MODEL, --model or --spec. Pairs come from stdin, as source and target separated by a tab, or
    from --source and --target. For each pair, one line is printed: the natural logarithm of the target's probability.
    For a language model, each line of stdin is a text to score.

    With --json, each line becomes an object with `log_probability`, `tokens` (the target's tokens and the
    end-of-sentence token) and `token_log_probabilities`.

    Examples:
        printf 'the dog sleeps\tder Hund schläft\n' | zoo score --spec tiny
        zoo score --model transformer-tiny-ende --source test.en --target test.de
    """
    from cli.console import is_typed, open_output, report
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.report import SILENT
    from zoo.text.languages import choose_direction
    from zoo.text.lines import available_chunks

    _check_options(source, target, name, model)
    messages = report()
    interactive = is_typed(source) or sys.stdout.isatty()
    translator = open_model(from_options(spec, name or model, messages), **how, report=messages)
    progress = messages if output or not interactive else SILENT
    choose_direction(translator.spec, from_, to, SILENT)  # an error that does not depend on the texts has no line
    score_tokens = partial(translator.score_tokens, source=from_, target=to, report=progress)
    inputs = [source, target] if source else [None]
    with _open_pairs(source, target, translator.spec.task) as (read, paused), open_output(output, inputs) as write:
        for _, each in _compute_pairs(score_tokens, available_chunks(read, _MAX_SCORED_LINES, paused), inputs):
            write(dumps({key: getattr(each, key) for key in _JSON_FIELDS}) if json else f"{each.log_probability:.6f}")


def align(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    source: options.Source = None,
    target: options.Target = None,
    output: options.Output = None,
    json: options.Json = False,
    max_batch_tokens: options.MaxBatchTokens = None,
    device: options.Device = "auto",
) -> None:
    r"""Print the word alignments of given translations.

    Select a model with MODEL, --model or --spec. Pairs come from stdin, as source and target separated by a tab, or
    from --source and --target. For each pair, one line is printed, in Pharaoh's format: `0-1` means that the first
    word in the source is aligned to the second word in the translation. Words are separated by spaces.

    With --json, each pair becomes a JSON list with an entry for each target token: the start and end of the token in
    the translation (`target`), the start and end of the source token that it attends to most (`source`), and the
    attention weight from 0 to 1 (`weight`). Starts and ends are counted in characters.

    Examples:
        printf 'He sleeps.\tEr schläft.\n' | zoo align everyday --to de
        zoo align --spec tiny --source test.en --target test.de --output test.align
    """
    from cli.console import open_output, report
    from zoo.generation.alignment import word_links
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.text.lines import available_chunks

    _check_options(source, target, name, model)
    messages = report()
    folder = from_options(spec, name or model, messages)
    translator = open_model(folder, device=device, max_batch_tokens=max_batch_tokens, report=messages)
    align_pairs = partial(translator.align, source=from_, target=to)
    align_pairs([], [])  # an error that does not depend on the texts has no line number
    inputs = [source, target] if source else [None]
    with _open_pairs(source, target, translator.spec.task) as (read, paused), open_output(output, inputs) as write:
        chunks = available_chunks(read, _MAX_ALIGNED_LINES, paused)
        for (text, translation), tokens in _compute_pairs(align_pairs, chunks, inputs):
            fields = [token._asdict() for token in tokens]
            links = () if json else word_links(text, translation, tokens)
            write(dumps(fields) if json else " ".join(f"{one}-{other}" for one, other in links))


def _compute_pairs(
    compute: Callable[..., list[Result]], chunks: Iterable[tuple[list[Pair], bool]], files: Sequence[Path | None]
) -> Iterator[tuple[Pair, Result]]:
    """Yield each pair with its result. If a pair is invalid, yield the earlier pairs, and raise ZooError.

    Args:
        compute: `Translator.score_tokens` or `Translator.align` with its options.
        chunks: Result of `available_chunks`. A pair is a source and a target or, for a language model, only a text.
        files: Input files, for error messages. None means stdin.
    """
    first = 1
    for chunk, _ in chunks:
        parts = [chunk]
        while parts:
            pairs = parts.pop()
            try:
                results = compute(*zip(*pairs, strict=True), first=first)
            except ZooError as error:
                if len(pairs) == 1:
                    error.locate(", ".join(f"{file or '<stdin>'}:{first}" for file in files))
                    raise
                parts += pairs[len(pairs) // 2 :], pairs[: len(pairs) // 2]
                continue
            yield from zip(pairs, results, strict=True)
            first += len(pairs)


def _check_options(source: Path | None, target: Path | None, name: str | None, model: str | None) -> None:
    """Raise ZooError if only one of `source` and `target` is given, or if both `name` and `model` are given."""
    if (source is None) != (target is None):
        given, missing = ("--source", "--target") if target is None else ("--target", "--source")
        raise ZooError(f"`{given}` needs `{missing}`", hint="pass both files, or write tab-separated pairs to stdin")
    if name is not None and model is not None:
        raise ZooError("MODEL and `--model` cannot be used together", hint="omit one of them")


@contextmanager
def _open_pairs(
    source: Path | None, target: Path | None, task: Task
) -> Iterator[tuple[Iterator[Pair], Callable[[], bool]]]:
    """Yield an iterator over (source, target) pairs, and a function that returns whether the input has paused.

    The input has paused if no further line is available at the moment. If the task reads no source, each line is a text
    to score. If the task reads audio or images, each line in the source file is the name of such a file.
    """
    from cli.console import open_lines
    from zoo.features.modality import modality_of

    if source is None or target is None:
        with open_lines(None) as lines:
            yield (_split_pairs(lines) if task.reads else ((line,) for line in lines)), lines.paused
        return
    if not task.reads:
        problem = "a language model scores texts without a source"
        raise ZooError(problem, hint="omit `--source` and `--target`, and write the texts to stdin, one per line")
    modality = modality_of(task)
    with open_lines(source) as sources, open_lines(target) as targets:
        yield _zip_pairs(modality.read(source) if modality else sources, targets, source, target), sources.paused


def _split_pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            problem = f"the line must have one tab, not {line.count(chr(9))}"
            raise ZooError(problem, where=f"<stdin>:{number}", hint="write each line as source text, tab, target text")
        yield source, target


def _zip_pairs(
    sources: Iterator[str], targets: Iterator[str], source_file: Path, target_file: Path
) -> Iterator[tuple[str, str]]:
    for count, (source, target) in enumerate(zip_longest(sources, targets)):
        if source is None or target is None:
            shorter, longer = (source_file, target_file) if source is None else (target_file, source_file)
            problem = f"`{shorter}` ends before line {count + 1:,}, but `{longer}` does not"
            hint = "the files must have the same number of lines: line n of one file belongs to line n of the other"
            raise ZooError(problem, hint=hint)
        yield source, target

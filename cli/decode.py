"""`zoo decode` and `zoo parse`: translate or parse text line by line."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice, tee
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Unpack

from cli import options
from cli.options import field_option, option

if TYPE_CHECKING:
    from zoo.generation.config import TranslationOptions
    from zoo.generation.translation import Translation
    from zoo.generation.translator import Translator

_SAMPLING_PANEL = "Sampling"
_EXAMPLE_SPECS = {"decode": "tiny", "parse": "parsing/tiny"}


def decode(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Models = None,
    from_: options.From = None,
    to: options.To = None,
    input: options.Input = None,
    prefix: Path | None = None,
    output: options.Output = None,
    part: str | None = None,
    search: Annotated[Literal["beam", "sample"] | None, field_option("decoding.search")] = None,
    beam: options.Beam = None,
    alpha: options.Alpha = None,
    shortlist: options.Shortlist = None,
    n_best: options.NBest = None,
    no_split: bool = False,
    no_protect: options.NoProtect = False,
    temperature: Annotated[float | None, field_option("decoding.temperature", panel=_SAMPLING_PANEL)] = None,
    top_k: Annotated[int | None, field_option("decoding.top_k", panel=_SAMPLING_PANEL)] = None,
    top_p: Annotated[float | None, field_option("decoding.top_p", panel=_SAMPLING_PANEL)] = None,
    seed: Annotated[int | None, option(min=0, max=2**63 - 1, panel=_SAMPLING_PANEL)] = None,
    json: options.Json = False,
    max_batch_tokens: options.MaxBatchTokens = None,
    **how: Unpack[options.Execution],
) -> None:
    """Translate stdin to stdout, line by line.

    Select a model with MODEL, --model or --spec. Each input line produces one output line, in the same order; empty
    lines remain empty. Up to 1,024 lines are read ahead for efficient batches. When the input pauses, all lines read so
    far are translated.

    Lines are split into sentences, and the spaces between sentences are kept. A line is not split if the model was
    trained on texts of more than 512 tokens, if the line has a prefix, or with --no-split. But a line of more than
    decoding.max_source_length tokens is always split.

    A language model instead continues each line, even an empty line, and never splits it. If a model reads audio or
    images, each line is the name of a file. --input is then one such file, a folder, or a text file that lists files.
    The files in a folder are read in the order of their names. Names in a list are relative to the folder of the list.

    With --json, each line becomes an object with `source` and `translations`. Each translation has `text`,
    `log_probability` (of the whole translation, as a natural logarithm), `score` (the log-probability after length
    normalisation) and `confidence` (the probability that the translation is good). For several sentences, `confidence`
    is the lowest probability. It is null if the model was published without dev scores. Two fields are present only if
    they are not empty: `unkept` lists numbers, links and the like that are missing from the translation, and numbers
    that the translation has added; `uncertain` lists the sentences whose translations have a low confidence.

    Options:
        prefix FILE: File with a prefix for each translation, one per line. The translation of input line n begins
            with line n of this file. Prefixes are normalised like other text.
        part K/N: Translate only the K-th of N parts of the input file, so that N processes can share the work. The
            concatenated outputs of all parts equal the output of one process. [default: all lines]
        no_split: Translate each line as a whole. By default, a model that was trained on single sentences translates
            the sentences in a line one by one.
        seed N: Random seed. The samples for a line do not depend on other lines. [default: the spec's training.seed]

    Examples:
        echo "the old dog sees a small house" | zoo decode --spec tiny
        zoo decode transformer-big-ende -i news.en -o news.de --device cuda --precision bfloat16
        zoo decode transformer-big-ende -i news.en -o news.de.3 --part 3/8
        zoo decode --model multilingual --from en --to de < lines.en
        zoo decode --spec tiny --n-best 4 --json < lines.en
        zoo decode --spec tiny --search sample --top-p 0.9 --seed 7 < lines.en
        zoo decode --model runs/one --model runs/two < lines.en
    """
    from zoo.generation.loading import open_model

    fraction = None if part is None else _fraction_of_part(part, input)
    choice: TranslationOptions = {"search": search, "beam": beam, "alpha": alpha, "max_batch_tokens": max_batch_tokens}
    choice |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed, "shortlist": shortlist}
    translator = _open_model(spec, options.model_names(name, model), "decode", partial(open_model, **how), input)
    _require_text_name(translator, output)

    def format_lines(number: int, source: str, translations: list[Translation]) -> list[str]:
        if json:
            objects = [_translation_fields(each) for each in translations]
            return [dumps({"source": source, "translations": objects}, ensure_ascii=False)]
        return _format_texts(number, translations, n_best)

    choice |= {"source": from_, "target": to, "split": not no_split, "protect": not no_protect}
    _answer_lines(translator, _Files(input, output, prefix, fraction), choice, n_best, format_lines)


def parse(
    name: options.Name = None,
    spec: options.OfSpec = None,
    model: options.Models = None,
    input: options.Input = None,
    output: options.Output = None,
    pretty: bool = False,
    beam: options.Beam = None,
    alpha: options.Alpha = None,
    n_best: options.NBest = None,
    tokenized: bool = False,
    unconstrained: bool = False,
    json: options.Json = False,
    max_batch_tokens: options.MaxBatchTokens = None,
    **how: Unpack[options.Execution],
) -> None:
    """Print a constituency tree for each line of stdin.

    Select a model with MODEL, --model or --spec. English sentences are first tokenised as in the Penn Treebank:
    `The cat can't sleep.` has the words `The cat ca n't sleep .` With --tokenized, and in other languages, words are
    separated by spaces only. Each input line produces one bracketed tree over exactly its words, in the same order; `(`
    and `)` are written `-LRB-` and `-RRB-`. Empty lines remain empty. A model that was trained without part-of-speech
    tags outputs `XX` as the tag for each word.

    With --json, each line becomes an object with `source` and `trees`. Each tree has `tree`, `score`
    (length-penalised) and `log_probability` (of the whole tree, as a natural logarithm).

    Options:
        pretty: Break long trees into indented lines, with an empty line between trees.
        tokenized: Split lines into words at spaces only, as in treebanks.
        unconstrained: Do not restrict decoding to valid trees. Invalid outputs are converted to valid trees
            afterwards. Use this option to measure the effect of the restriction.

    Examples:
        echo "The old dog sees a house, and it can not sleep." | zoo parse --spec parsing/tiny --pretty
        zoo parse --spec parsing/tiny --tokenized --input words.txt --output words.trees
        zoo parse --model parser-tiny --n-best 3 --json < words.txt
    """
    from zoo.generation.loading import open_model
    from zoo.generation.parser import Parser
    from zoo.text.trees.tree import format_tree, read_tree

    if pretty:
        options.refuse_beside("--pretty", json=json, n_best=n_best)
    choice: TranslationOptions = {"beam": beam, "alpha": alpha, "max_batch_tokens": max_batch_tokens}
    open_one = partial(open_model, constrained=not unconstrained, **how)
    parser = _open_model(spec, options.model_names(name, model), "parse", open_one, input)
    assert isinstance(parser, Parser)

    def format_lines(number: int, source: str, parses: list[Translation]) -> list[str]:
        if pretty:
            text = parses[0].text
            return [("\n" if number > 1 else "") + (format_tree(read_tree(text)) if text else "")]
        if json:
            trees = [_scores(each, "tree") for each in parses if each.text]
            return [dumps({"source": source, "trees": trees}, ensure_ascii=False)]
        return _format_texts(number, parses, n_best)

    prepare = None if tokenized else parser.tokenize
    _answer_lines(parser, _Files(input, output), choice, n_best, format_lines, prepare=prepare)


class _Files(NamedTuple):
    """Files that a command reads and writes. None means stdin (`input`), stdout (`output`) or no file (`prefix`).

    If only the K-th of N parts of the input is read, `fraction` is (K, N). If all lines are read, it is None.
    """

    input: Path | None
    output: Path | None
    prefix: Path | None = None
    fraction: tuple[int, int] | None = None


def _fraction_of_part(part: str, input: Path | None) -> tuple[int, int]:
    """Parse the value K/N of `--part`, and return K and N: (3, 8) for "3/8".

    Raises:
        ZooError: The part is not valid, or there is no input file.
    """
    from specs import ZooError

    match = re.fullmatch(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})", part)
    number, count = map(int, match.groups()) if match else (1, 0)
    if number > count:
        hint = "write K/N with 1 <= K <= N, such as `--part 3/8` for the third of eight parts"
        raise ZooError(f"`--part {part}` is not a valid part", hint=hint)
    if input is None:
        problem = "`--part` needs an input file, because stdin cannot be divided into parts"
        raise ZooError(problem, hint="add `--input FILE`")
    return number, count


def _require_text_name(translator: Translator, output: Path | None) -> None:
    """Raise ZooError if the model reads audio or images, and `output` has an audio or image suffix, such as `.wav`."""
    from specs import ZooError
    from zoo.generation.recognizer import Recognizer

    if output and isinstance(translator, Recognizer) and output.suffix.lower() in translator.modality.suffixes:
        problem = f"the output is text, but files that end in `{output.suffix}` are inputs of the model"
        raise ZooError(f"`{output}` cannot be written: {problem}", hint="choose another name, such as `text.txt`")


def _open_model(
    spec: str | None, names: list[str] | None, command: str, open_one: Callable[..., Translator], input: Path | None
) -> Translator:
    """Load the model for a spec or a name with `open_one`. If there are several names, load an ensemble.

    Raises:
        ZooError: The task of a model belongs to a different command, such as `parse` instead of `decode`.
    """
    from cli.console import is_typed, report
    from specs import ZooError
    from zoo.generation.translator import Translator
    from zoo.models.find import all_from_options
    from zoo.models.folder import ModelFolder

    messages = report()
    folders = all_from_options(spec, names, messages)
    for folder in folders:
        task = ModelFolder(folder).spec.task
        if task.command != command:
            alternative = f"train another model with `zoo train {_EXAMPLE_SPECS[command]}`"
            problem = f"the model `{folder}` has the task `{task.kind}`, so `zoo {command}` cannot use it"
            raise ZooError(problem, hint=f"run `zoo {task.command} --model {folder}`, or {alternative}")
    models = [open_one(folder, report=messages) for folder in folders]
    if is_typed(input):
        action = models[0].spec.task.action
        messages.info(f"{', '.join(map(str, folders))} {action} each line that you type; Ctrl-D ends the input")
    return Translator.ensemble(models)


def _answer_lines(
    translator: Translator,
    files: _Files,
    choice: TranslationOptions,
    n_best: int | None,
    format_lines: Callable[[int, str, list[Translation]], Iterable[str]],
    *,
    prepare: Callable[[str], str] | None = None,
) -> None:
    """Translate or parse all input lines. Write the results of a line as soon as all earlier lines are done.

    Args:
        translator: The model.
        files: The input and output files.
        choice: Options for the search, such as the beam size.
        n_best: Number of results per line, or None for one result.
        format_lines: Function that converts the number, text and results of an input line to output lines.
        prepare: Function that is applied to each line before the model reads it.
    """
    from cli.console import is_typed, open_lines, open_output, report
    from zoo.generation.text_search import translate_lines
    from zoo.report import SILENT
    from zoo.text.lines import count_lines

    shows_progress = files.output or not (is_typed(files.input) or sys.stdout.isatty())
    inputs = [files.input, *([files.prefix] if files.prefix else [])]
    with (
        _open_input(translator, files.input) as (lines, paused),
        open_lines(files.prefix) if files.prefix else nullcontext() as prefixes,
        open_output(files.output, inputs) as write,
    ):
        first, end = 0, None
        if files.input and files.fraction:
            total = len(lines) if isinstance(lines, list) else count_lines(files.input)
            number, count = files.fraction
            first, end = total * (number - 1) // count, total * number // count
        texts, sources = tee(islice(lines, first, end))
        results = translate_lines(
            translator,
            map(prepare, texts) if prepare else texts,
            prefixes=None if prefixes is None else islice(prefixes, first, end),
            n_best=n_best,
            paused=paused,
            first=first,
            report=report() if shows_progress else SILENT,
            **choice,
        )
        for number, (answers, source) in enumerate(zip(results, sources, strict=False), start=first + 1):
            for line in format_lines(number, source, answers):
                write(line)


@contextmanager
def _open_input(translator: Translator, path: Path | None) -> Iterator[tuple[Iterable[str], Callable[[], bool]]]:
    """Yield the input lines, and a function that returns whether the input has paused (see `LineStream.paused`).

    If the model reads audio or images, each line is a file name.
    """
    from cli.console import open_lines
    from zoo.features.modality import input_files
    from zoo.generation.recognizer import Recognizer
    from zoo.text.lines import never_paused

    if path is not None and isinstance(translator, Recognizer):
        found = input_files(path, translator.modality.suffixes)
        yield translator.modality.read(path) if found is None else found, never_paused
        return
    with open_lines(path) as lines:
        yield lines, lines.paused


def _format_texts(number: int, results: list[Translation], n_best: int | None) -> list[str]:
    """Return the output lines for the input line with this number.

    By default, this is the text of the best result. With `--n-best`, there is one line for each result: the number of
    the input line, the score and the text, separated by tabs.
    """
    if n_best is None:
        return [results[0].text]
    return [f"{number}\t{result.score:.6f}\t{result.text}" for result in results]


def _translation_fields(result: Translation) -> dict[str, object]:
    from zoo.generation.translation import MARKS

    marks = {mark: getattr(result, mark) for mark in MARKS if getattr(result, mark)}
    return {**_scores(result, "text"), "confidence": result.confidence, **marks}


def _scores(result: Translation, key: str) -> dict[str, object]:
    """Return a dictionary for JSON that contains the text of a result, under `key`, and its scores."""
    return {key: result.text, "score": result.score, "log_probability": result.log_probability}

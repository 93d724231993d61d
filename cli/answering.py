"""Lines in, what models make of them out: what `decode` and `parse` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoo.generation.compilation import BackendOptions
    from zoo.generation.config import GenerationOptions
    from zoo.generation.translator import Translation, Translator

Lines = Callable[[int, str, list["Translation"]], Iterable[str]]
"""What is written for a line, from its number, itself and what was found for it."""


class Files(NamedTuple):
    """Where lines come from, where answers go, and what each answer starts with; None is stdin, stdout and nothing."""

    input: Path | None
    output: Path | None
    prefix: Path | None = None


_DOES = {"translation": ("translates", "translate"), "parsing": ("parses", "parse")}
_OTHER = {"translation": "`zoo train tiny` trains a translator", "parsing": "`zoo train parsing/tiny` trains a parser"}


def opened(folders: list[Path], kind: str, how: BackendOptions, input: Path | None) -> Translator:
    """The model in a folder, or the ensemble of several, of this kind of task; who types is told when it is there."""
    from cli.console import report
    from cli.lines import typed
    from zoo.generation.loading import open_model

    for folder in folders:
        _require_task(folder, kind)
    words = report()
    models = [open_model(folder, **how, report=words) for folder in folders]
    if typed(input):
        words.say(f"{', '.join(map(str, folders))} answers what you type, line by line; Ctrl-D ends it")
    return type(models[0]).ensemble(models) if len(models) > 1 else models[0]


def _require_task(folder: Path, kind: str) -> None:
    from specs import ZooError
    from specs.task import COMMANDS
    from zoo.models.folder import ModelFolder

    own = ModelFolder(folder).spec.task.kind
    if own != kind:
        hint = f"`zoo {COMMANDS[own]} --model {folder}` {_DOES[own][0]} with it; {_OTHER[kind]}"
        raise ZooError(f"`{folder}` {_DOES[own][0]}, and does not {_DOES[kind][1]}", hint=hint)


def answer(translator: Translator, files: Files, choice: GenerationOptions, n_best: int | None, lines: Lines) -> None:
    """Answers each line, as soon as it and all before it are done."""
    from cli.console import report
    from cli.lines import reading, typed, writing
    from zoo.generation.streaming import translate_lines
    from zoo.report import Report

    shown = report() if files.output or not (typed(files.input) or sys.stdout.isatty()) else Report()
    read = [files.input, *([files.prefix] if files.prefix else [])]
    with (
        reading(files.input) as arriving,
        _prefixes(files.prefix) as begun,
        writing(files.output, read, at_once=True) as write,
    ):
        texts, sources = tee(arriving)
        found = translate_lines(
            translator, texts, prefixes=begun, n_best=n_best, paused=arriving.paused, report=shown, **choice
        )
        for number, (answers, source) in enumerate(zip(found, sources, strict=False), start=1):
            for line in lines(number, source, answers):
                write(line)


def _prefixes(path: Path | None) -> AbstractContextManager[Iterator[str] | None]:
    from cli.lines import reading

    return reading(path) if path else nullcontext()

"""Pairs of a source and its translation, from stdin or from two files, for the commands that take both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

from cli.options import option
from specs import ZooError

SourceFile = Annotated[
    Path | None,
    option("FILE", "Read sources from this file, one per line. Requires --target.", shown="pairs from stdin"),
]
TargetFile = Annotated[
    Path | None,
    option("FILE", "Read the translation or tree of each source from this file.", shown="pairs from stdin"),
]


def check_options(source: Path | None, target: Path | None, name: str | None, model: str | None) -> None:
    """Raise ZooError if only one of the two files is given, or if the model is named twice."""
    if (source is None) != (target is None):
        given, missing = ("--source", "--target") if target is None else ("--target", "--source")
        raise ZooError(
            f"`{given}` needs `{missing}`", hint="give both files, or write pairs to stdin, separated by tabs"
        )
    if name is not None and model is not None:
        raise ZooError("MODEL and `--model` both name a model", hint="leave one of them out")


@contextmanager
def open_pairs(
    source: Path | None, target: Path | None, *, reads: bool = True
) -> Iterator[tuple[Iterator[tuple[str, ...]], Callable[[], bool]]]:
    """Yield an iterator over (source, target) pairs, and a function that returns whether the input has paused.

    If `reads` is false, the model reads no source, and each line is a text to score.
    """
    from cli.streams import open_lines

    if source is None or target is None:
        with open_lines(None) as lines:
            yield (_split_pairs(lines) if reads else ((line,) for line in lines)), lines.paused
        return
    if not reads:
        problem = "a language model scores texts without a source"
        raise ZooError(problem, hint="leave `--source` and `--target` out, and write the texts to stdin, one per line")
    with open_lines(source) as sources, open_lines(target) as targets:
        yield _zip_pairs(sources, targets, source, target), sources.paused


def _split_pairs(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, start=1):
        source, tab, target = line.partition("\t")
        if not tab or "\t" in target:
            problem = f"the line must have one tab, not {line.count(chr(9))}"
            raise ZooError(problem, where=f"<stdin>:{number}", hint="write each line as source, tab, target")
        yield source, target


def _zip_pairs(
    sources: Iterator[str], targets: Iterator[str], source_file: Path, target_file: Path
) -> Iterator[tuple[str, str]]:
    for number, (source, target) in enumerate(zip_longest(sources, targets), start=1):
        if source is None or target is None:
            shorter, longer = (source_file, target_file) if source is None else (target_file, source_file)
            problem = f"`{shorter}` has {number - 1:,} lines, but `{longer}` has more"
            raise ZooError(problem, hint="both files need the same number of lines: line n of both is a pair")
        yield source, target

"""Translations of lines as they come, without waiting for the last one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Unpack

from zoo.report import Report
from zoo.search.request import Choice
from zoo.text.sentences import with_prefixes
from zoo.translation.intake import Pair
from zoo.translation.translation import Translation
from zoo.translation.translator import Translator

WINDOW = 1024
"""Lines that are read ahead and sorted by length."""
FIRST = 64
"""Lines of the first window, so that something is seen soon; each later one is twice as long as the one before."""


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    *,
    prefixes: Iterable[str] | None = None,
    n_best: int | None = None,
    window: int = WINDOW,
    report: Report | None = None,
    **choice: Unpack[Choice],
) -> Iterator[list[Translation]]:
    """The translations of every line, in the order of the lines, each as soon as it and all before it are done.

    Lines, and `prefixes` that belong to them, are read `window` ahead at most. A window of 1 answers each line before
    it reads the next: for a person who types. An error in a line comes when what was read before it is translated; the
    progress goes to `report`.
    """
    request = translator.request(n_best, choice)
    windows = _windows(with_prefixes(lines, prefixes), window)
    runs: Iterable[Iterable[Sequence[Pair]]] = [windows] if window > 1 else ([each] for each in windows)
    done: dict[int, list[Translation]] = {}
    answered = 0
    with (report or Report()).progress("translate", None, "sentences") as progress:
        for run in runs:
            for index, translations in translator.found(run, request, first=answered, most=None if window > 1 else 1):
                done[index] = translations
                progress.advance()
                while answered in done:
                    yield done.pop(answered)
                    answered += 1


def _windows(pairs: Iterator[Pair], window: int) -> Iterator[list[Pair]]:
    size = max(1, min(window, FIRST))
    while True:
        several: list[Pair] = []
        try:
            for pair in islice(pairs, size):
                several.append(pair)
        except Exception:
            if several:  # what came before the error
                yield several
            raise
        if not several:
            return
        yield several
        size = min(2 * size, window)

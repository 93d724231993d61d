"""Translations of lines as they come, without waiting for the last one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Unpack

from zoo.generation.intake import Pair
from zoo.generation.request import Choice
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.lines import never_paused
from zoo.text.sentences import zip_prefixes

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
    paused: Callable[[], bool] = never_paused,
    report: Report | None = None,
    **choice: Unpack[Choice],
) -> Iterator[list[Translation]]:
    """The translations of every line, in the order of the lines, each as soon as it and all before it are done.

    Lines, and `prefixes` that belong to them, are read `window` ahead at most, and not where the lines have `paused`:
    then all that were read are answered first, for somebody who waits for that before he goes on. An error in a line
    comes when what was read before it is translated; the progress goes to `report`.
    """
    request, intake = translator.request(n_best, choice), translator.intake()
    pairs = zip_prefixes(lines, prefixes)
    done: dict[int, list[Translation]] = {}
    answered = 0
    with intake.lengths, (report or Report()).progress(translator.verb, None, "sentences") as progress:
        for pair in pairs:  # the first since a pause, and however long it takes
            windows = _windows(chain([pair], pairs), window, paused)
            for index, translations in translator.found(windows, request, intake, first=answered):
                done[index] = translations
                progress.advance()
                while answered in done:
                    yield done.pop(answered)
                    answered += 1


def _windows(pairs: Iterator[Pair], window: int, paused: Callable[[], bool]) -> Iterator[list[Pair]]:
    """Windows of what comes until it pauses."""
    size = max(1, min(window, FIRST))
    pauses = False
    while not pauses:
        several: list[Pair] = []
        try:
            for pair in islice(pairs, size):
                several.append(pair)
                pauses = len(several) < size and paused()
                if pauses:
                    break
        except Exception:
            if several:  # what came before the error
                yield several
            raise
        if not several:
            return
        yield several
        pauses = pauses or paused()
        size = min(2 * size, window)

"""Translations of lines as they come, without waiting for the last one."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Unpack

from zoo.decoding.translation import Translation
from zoo.decoding.translator import Choice, Translator
from zoo.report import Report

WINDOW = 1024
"""Lines that are read, sorted by length and translated together."""


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    *,
    n_best: int | None = None,
    window: int = WINDOW,
    report: Report | None = None,
    **choice: Unpack[Choice],
) -> Iterator[list[Translation]]:
    """The translations of every line, in the order of the lines, `window` lines at a time.

    A window of 1 answers each line before it reads the next: for a person who types. Errors of the translator come
    when their window does; the progress of each goes to `report`.
    """
    waiting = iter(lines)
    while together := list(islice(waiting, max(1, window))):
        yield from translator.hypotheses(together, n_best=n_best, report=report, **choice)

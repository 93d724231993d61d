"""Translation of a stream of lines. Results are yielded while later lines are still being read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Unpack

from zoo.generation.config import TranslationOptions
from zoo.generation.preprocessing import TextWithPrefix
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.lines import available_chunks, never_paused
from zoo.text.sentences import zip_prefixes

MAX_CHUNK_LINES = 1024
"""Maximum number of lines in a chunk. The lines of a chunk are read in advance, and sorted by length."""
FIRST_CHUNK_LINES = 64
"""Number of lines in the first chunk. It is small, so that the first results appear soon. Each further chunk is
twice as large."""


def translate_lines(
    translator: Translator,
    lines: Iterable[str],
    *,
    prefixes: Iterable[str] | None = None,
    n_best: int | None = None,
    max_chunk_lines: int = MAX_CHUNK_LINES,
    paused: Callable[[], bool] = never_paused,
    first: int = 0,
    report: Report | None = None,
    **options: Unpack[TranslationOptions],
) -> Iterator[list[Translation]]:
    """Yield the translations of each line, in order, as soon as the line and all earlier lines are translated.

    An error in a line is raised after all earlier lines were translated.

    Args:
        translator: The model.
        lines: The texts, one per line.
        prefixes: The prefix of each line's translation.
        n_best: Number of translations per line, best first. None for 1.
        max_chunk_lines: Maximum number of lines that are read in advance.
        paused: Function that returns whether the next line is not available yet. During such a pause, all lines that
            were read are translated, so that an interactive user sees them.
        first: Index of the first line. Samples and error messages depend on the index of a line.
        report: Receives the progress.
        **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).
    """
    preprocessor = translator.preprocessor_of(options)
    config = translator.config(n_best, options)
    chunks = available_chunks(zip_prefixes(lines, prefixes), max_chunk_lines, paused, FIRST_CHUNK_LINES)
    done: dict[int, list[Translation]] = {}
    answered = first
    with preprocessor.warnings, (report or Report()).progress(translator.verb, None, "sentences") as progress:
        for chunk in chunks:  # after a pause, this blocks until there is a line
            available = _until_pause(chain([chunk], chunks))
            for index, translations in translator.translate_chunks(available, config, preprocessor, first=answered):
                done[index] = translations
                progress.advance()
                while answered in done:
                    yield done.pop(answered)
                    answered += 1


def _until_pause(chunks: Iterator[tuple[list[TextWithPrefix], bool]]) -> Iterator[list[TextWithPrefix]]:
    for chunk, is_paused in chunks:
        yield chunk
        if is_paused:
            return

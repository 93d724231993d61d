"""Adapter between the server and a translator: requests go in, futures come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TypeVar, Unpack

from zoo.generation.config import LanguageOptions, TranslationOptions
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.report import Progress, Report

_T = TypeVar("_T")


class Engine:
    """Engine that runs the requests for one translator in a few threads.

    A future that is cancelled before its request starts costs nothing. If the request is running, it stops after the
    text that is being translated.
    """

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self._threads = ThreadPoolExecutor(2 if translator.program.concurrent else 1, "zoo-serve")

    def submit(
        self,
        texts: Sequence[str],
        *,
        n_best: int | None = None,
        prefixes: Sequence[str] | None = None,
        **options: Unpack[TranslationOptions],
    ) -> Future[list[list[Translation]]]:
        """Start the translation of some texts and return its future. The arguments are those of `Translator`."""
        translate = self.translator.hypotheses
        return self._start(lambda report: translate(texts, n_best=n_best, prefixes=prefixes, report=report, **options))

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **languages: Unpack[LanguageOptions]
    ) -> Future[list[float]]:
        """Start the scoring of given translations. The result is the log-probability of each."""
        score = partial(self.translator.score_tokens, sources, targets, **languages)
        return self._start(lambda report: [each.log_probability for each in score(report=report)])

    def close(self) -> None:
        """Release the threads. Requests that were submitted before are completed."""
        self._threads.shutdown(wait=False)

    def _start(self, work: Callable[[Report], _T]) -> Future[_T]:
        future: Future[_T] = Future()
        self._threads.submit(_run, future, work)
        return future


def _run(future: Future[_T], work: Callable[[Report], _T]) -> None:
    """Run a request in this thread, unless its future was cancelled, and set the result of the future."""
    if future.cancelled():
        return
    try:
        result = work(_CancellingReport(future))
    except CancelledError:
        return
    except Exception as error:
        with suppress(InvalidStateError):
            future.set_exception(error)
    else:
        with suppress(InvalidStateError):
            future.set_result(result)


class _CancellingReport(Report, Progress):
    """Report whose progress raises CancelledError as soon as the future is cancelled. Messages are discarded."""

    def __init__(self, future: Future[_T]) -> None:
        self._future = future

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return self

    def advance(self, n: int = 1, *, total: int | None = None, **figures: float | str) -> None:
        if self._future.cancelled():
            raise CancelledError

"""Protection of amounts, dates, links, placeholders and the like: translations are checked and, if needed, repaired."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from zoo.generation.batching import Source
from zoo.generation.engine import Engine, SearchResult
from zoo.generation.hypotheses import Hypothesis, SearchStrategy
from zoo.generation.preprocessing import Preprocessor
from zoo.generation.span_constraint import SpanConstraint
from zoo.generation.translation import Translation, unchanged, uncertain_sentences
from zoo.text.lines import clean
from zoo.text.sentences import language_tokens
from zoo.text.spans import compare, find_spans, needs_translation

_T = TypeVar("_T")
Steps = Generator[tuple[Sequence[Source], SearchStrategy], list[list[Hypothesis]], _T]
"""Work that needs several searches: it yields the arguments of each search, and receives the hypotheses."""
Repair = tuple[SpanConstraint, SearchStrategy]
"""A constraint, and the search under this constraint."""
_SPARE_TOKENS = 5
"""Number of tokens by which a repaired translation may be longer than the first one and its spans."""


class Protection:
    """Checks whether translations have the amounts, links and the like of their sentences, and repairs the others.

    A sentence is first decoded again under a `SpanConstraint`. If its translation still lacks a span, the pieces
    between the spans are translated alone. If this fails, too, the first translation is kept with a mark.
    """

    def __init__(
        self,
        preprocessor: Preprocessor,
        convert: Callable[[Source, Sequence[Hypothesis]], list[Translation]],
        make_repair: Callable[[], Repair] | None,
    ) -> None:
        """Create a protection.

        Args:
            preprocessor: Preprocessor of the sentences.
            convert: Function that makes translations from the hypotheses of a sentence.
            make_repair: Function that returns the constraint and the search for repairs. None: only check.
        """
        self._preprocessor, self._convert, self._make_repair = preprocessor, convert, make_repair
        self._languages = preprocessor.languages.source, preprocessor.languages.target

    def check(self, source: Source, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        """Return the translations of a sentence, with their field `unkept`."""
        translations = self._convert(source, hypotheses)
        if not (self._preprocessor.protects and find_spans(_text(source), self._languages[0])):
            return translations
        return [replace(each, unkept=self._unkept(source, each.text)) for each in translations]

    def needs_repair(self, source: Source, translations: Sequence[Translation]) -> bool:
        """Return whether to translate a sentence again. Translations with a prefix are never repaired."""
        has_prefix = source.prefix != self._preprocessor.languages.target_tokens
        return self._make_repair is not None and bool(translations[0].unkept) and not has_prefix

    def repair(self, pairs: Sequence[tuple[Source, Translation]]) -> Steps[list[list[Translation]]]:
        """Translate sentences again, together.

        Args:
            pairs: The sentences, each with its first translation.

        Returns:
            The translation of each sentence. Those that could not be repaired are the first translations.
        """
        assert self._make_repair is not None
        constraint, strategy = self._make_repair()
        results = [translation for _, translation in pairs]
        for plan in (self._whole, self._pieces):
            plans = {number: plan(*pairs[number], constraint) for number, each in enumerate(results) if each.unkept}
            sources = [part for parts in plans.values() for part in parts if isinstance(part, Source)]
            numbered = [replace(source, index=index) for index, source in enumerate(sources)]
            found = iter((yield numbered, strategy) if numbered else ())
            for number, parts in plans.items():
                translations = [
                    _without_added_stop(part, self._convert(part, next(found))[0])
                    if isinstance(part, Source)
                    else unchanged(part)
                    for part in parts
                ]
                joined = _join(pairs[number][0], translations)
                if parts and not self._unkept(pairs[number][0], joined.text):
                    results[number] = joined
        return [[result] for result in results]

    def _unkept(self, source: Source, translation: str) -> tuple[str, ...]:
        differences = compare(_text(source), translation, *self._languages)
        return tuple(span.text for span in (*differences.missing, *differences.added))

    def _whole(self, source: Source, first: Translation, constraint: SpanConstraint) -> list[Source | str]:
        """Return the sentence with the spans that its translation must contain. If the model cannot, return nothing."""
        as_words = compare(_text(source), first.text, *self._languages).as_words
        spans = [span for span in find_spans(_text(source), *self._languages) if span not in as_words]
        spellings = [next(constraint.spell(span), (0, []))[1] for span in spans]
        if not all(spellings):
            return []
        length = len(first.tokens) + sum(map(len, spellings)) + _SPARE_TOKENS
        return [replace(source, required=tuple(spans), max_length=min(source.max_length, length), part=0)]

    def _pieces(self, source: Source, _: Translation, constraint: SpanConstraint) -> list[Source | str]:
        """Return the spans of a sentence, and the pieces between them.

        If the model cannot write some spans, the sentence is only cut at these spans.
        """
        text, tokens = _text(source), language_tokens(source.text)
        spans = find_spans(text, *self._languages)
        spans = [span for span in spans if not any(constraint.spell(span))] or spans
        places = [(0, 0), *((span.start, span.end) for span in spans), (len(text), len(text))]
        parts: list[Source | str] = []
        for (_, start), (end, _), span in zip(places, places[1:], [*spans, None], strict=False):
            piece = text[start:end]
            if needs_translation(piece):
                lead, trail = piece[: len(piece) - len(piece.lstrip())], piece[len(piece.rstrip()) :]
                encoded = self._preprocessor.encode_sentence(tokens + piece.strip(), source.index)
                required = tuple(find_spans(piece.strip(), *self._languages))
                parts += [lead, replace(encoded, required=required), trail]
            else:
                parts.append(piece)
            if span is not None:
                parts.append(span.spellings[0])
        return parts


def protected(
    results: Iterable[SearchResult], protection: Protection, engine: Engine
) -> Iterator[tuple[Source, list[Translation]]]:
    """Yield each sentence with its translations as soon as they are known. Repairs run while the search continues."""
    pending: deque[tuple[Source, Future[list[list[Translation]]]]] = deque()
    try:
        for source, hypotheses in results:
            translations = protection.check(source, hypotheses)
            if protection.needs_repair(source, translations):
                pending.append((source, run_steps(engine, protection.repair([(source, translations[0])]))))
            else:
                yield source, translations
            while pending and pending[0][1].done():
                source, future = pending.popleft()
                yield source, future.result()[0]
        while pending:
            source, future = pending.popleft()
            yield source, future.result()[0]
    finally:
        for _, future in pending:
            future.cancel()


def protect_all(
    protection: Protection, sources: Sequence[Source], strategy: SearchStrategy
) -> Steps[list[list[Translation]]]:
    """Translate sentences, and return the translations of each."""
    hypotheses = yield sources, strategy
    results = [protection.check(source, each) for source, each in zip(sources, hypotheses, strict=True)]
    numbers = [number for number, each in enumerate(results) if protection.needs_repair(sources[number], each)]
    if numbers:
        repaired = yield from protection.repair([(sources[number], results[number][0]) for number in numbers])
        for number, translations in zip(numbers, repaired, strict=True):
            results[number] = translations
    return results


def run_steps(engine: Engine, steps: Steps[_T], advance: Callable[[], object] = lambda: None) -> Future[_T]:
    """Run the searches of some work in an engine, one after the other, and return the future of its result.

    Args:
        engine: The engine. If the future is cancelled, its current search is withdrawn.
        steps: The work. After the first search, it runs in worker threads.
        advance: Function that is called after each sentence of the first search.
    """
    result: Future[_T] = Future()
    current: list[Future[list[list[Hypothesis]]]] = []

    def resume(done: Future[list[list[Hypothesis]]] | None) -> None:
        if result.cancelled():
            return
        try:
            sources, strategy = next(steps) if done is None else steps.send(done.result())
            search = engine.submit(sources, strategy, advance=advance if done is None else lambda: None)
        except StopIteration as end:
            with suppress(InvalidStateError):  # the future was cancelled
                result.set_result(end.value)
        except BaseException as error:
            if done is None:
                raise
            with suppress(InvalidStateError):
                result.set_exception(error)
        else:
            current[:] = [search]
            search.add_done_callback(resume)

    def withdraw(done: Future[_T]) -> None:
        if done.cancelled():
            for search in current:
                search.cancel()
            done.set_running_or_notify_cancel()  # for threads in `concurrent.futures.wait`

    result.add_done_callback(withdraw)
    resume(None)
    return result


def _text(source: Source) -> str:
    """Return a sentence without language tokens, as the model reads it."""
    return clean(source.text[len(language_tokens(source.text)) :])


def _without_added_stop(source: Source, translation: Translation) -> Translation:
    """Return the translation of a piece, without a full stop that the piece does not have."""
    has_stop = source.text.endswith((".", "!", "?"))
    return translation if has_stop else replace(translation, text=translation.text.rstrip(".!? "))


def _join(source: Source, parts: Sequence[Translation]) -> Translation:
    """Return the translation of a sentence, joined from the translations of its pieces."""
    tokens = tuple(token for part in parts for token in part.tokens)
    total = sum(part.log_probability for part in parts)
    text = "".join(part.text for part in parts)
    return Translation(
        text, sum(part.score for part in parts), total, tokens, uncertain=uncertain_sentences(source.text, total, tokens)
    )

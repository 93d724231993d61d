"""Protection of amounts, dates, links, placeholders and the like: check translations and, if needed, repair them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zoo.generation.config import GenerationConfig
from zoo.generation.engine import Engine, SearchResult, notify_if_cancelled
from zoo.generation.hypotheses import SearchStrategy
from zoo.generation.preprocessing import Preprocessor
from zoo.generation.span_constraint import SpanConstraint
from zoo.generation.translation import Hypothesis, SearchInput, Translation
from zoo.text.lines import clean
from zoo.text.sentences import language_tokens
from zoo.text.span_kinds import CalendarSpan, LiteralSpan, Span
from zoo.text.spans import compare, find_spans, needs_translation

if TYPE_CHECKING:
    from zoo.generation.text_search import TextSearch

_T = TypeVar("_T")
Steps = Generator[tuple[Sequence[SearchInput], SearchStrategy], list[list[Hypothesis]], _T]
"""Generator that needs several searches. It yields the arguments of each search, and receives the hypotheses."""
_PROXIES, _WHOLE, _FRAGMENTS = range(3)
_MAX_SPANS = 100
"""Maximum number of spans to decode together. The work of a decoding step grows with the square of this number."""
_SPARE_TOKENS = 20
"""Maximum number of tokens in a repaired translation, in addition to its spans and twice the length of its source."""
_NAME_COST = 0.15
"""Maximum decrease of the mean log-probability per token if a repair only restores months or weekdays."""
_ORDINAL = re.compile("[0-9](st|[nr]d|th)$")


class _Plan(NamedTuple):
    """Plan for the repair of a translation that lacks numbers, links or similar parts, or adds numbers.

    If `parts` is empty, the repair is impossible.
    """

    parts: Sequence[SearchInput | str]
    """Fragments to translate, and strings to copy between them, in order."""
    proxies: Mapping[str, str] = {}
    """Spellings of spans, keyed by the ordinary numbers that stand for the spans while the sentence is translated."""


class Protection:
    """Checks that translations keep the amounts, links and similar spans of the source, and repairs bad translations.

    To repair a translation, its sentence is decoded again under a `SpanConstraint`, in up to three ways:

    1. Ordinary numbers replace the lost spans in the sentence, because models translate numbers better than links or
       placeholders. This is not done if the model has copy symbols.
    2. The original sentence is decoded. If the model has copy symbols (placeholder tokens), they replace the spans.
    3. The fragments between the spans are translated separately.

    The first translation that has all spans is used. If only months or weekdays were lost, it must also be about as
    probable as the original translation. If all three ways fail, the original translation is kept, and its `unkept`
    field lists the lost and added spans.
    """

    def __init__(self, translator: TextSearch, preprocessor: Preprocessor, config: GenerationConfig) -> None:
        """Prepare to check and repair translations.

        Translations are only repaired if beam search returns a single translation per text.

        Args:
            translator: The model.
            preprocessor: Preprocessor of the sentences.
            config: Options of the search.
        """
        self._translator, self._preprocessor, self._config = translator, preprocessor, config
        self._convert = partial(translator.to_translations, preprocessor)
        self._target = preprocessor.languages.target
        self._can_repair = config.search == "beam" and config.n_best == 1 and translator.constraint is None

    def check(self, source: SearchInput, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        """Convert the hypotheses of a sentence to translations, and set their `unkept` field."""
        translations = self._convert(source, hypotheses)
        protects = self._preprocessor.protects
        if not (protects and (source.copied or find_spans(_text(source), source.language, self._target))):
            return translations
        return [replace(each, unkept=self._unkept(source, each.text)) for each in translations]

    def needs_repair(self, source: SearchInput, translations: Sequence[Translation]) -> bool:
        """Return whether a sentence must be translated again. Translations with a prefix are never repaired."""
        has_prefix = source.prefix != self._preprocessor.languages.target_tokens
        return self._can_repair and bool(translations[0].unkept) and not has_prefix

    def repair(self, pairs: Sequence[tuple[SearchInput, Translation]]) -> Steps[list[Translation]]:
        """Repair the translations of several sentences. Each search covers all sentences that still need a repair.

        Args:
            pairs: The sentences, each with its original translation.

        Returns:
            The repaired translation of each sentence, or the original translation if it could not be repaired.
        """
        constraint = self._translator.span_constraint(self._preprocessor.languages.target_tokens)
        strategy = self._config.strategy(constraint)
        results = [translation for _, translation in pairs]
        # Copy symbols take the place of ordinary numbers.
        stages = (_WHOLE, _FRAGMENTS) if self._preprocessor.symbols else (_PROXIES, _WHOLE, _FRAGMENTS)
        for stage in stages:
            plans = {
                number: self._plan(*pairs[number], constraint, stage)
                for number, result in enumerate(results)
                if result.unkept
            }
            sources = [part for plan in plans.values() for part in plan.parts if isinstance(part, SearchInput)]
            numbered = [replace(source, index=index) for index, source in enumerate(sources)]
            found = (yield numbered, strategy) if numbered else []
            translations = (self._convert(source, each)[0] for source, each in zip(sources, found, strict=True))
            for number, plan in plans.items():
                parts = [(part, next(translations)) if isinstance(part, SearchInput) else part for part in plan.parts]
                joined = self._join(pairs[number][0], parts, plan.proxies)
                is_kept = parts and not self._unkept(pairs[number][0], joined.text)
                if is_kept and _is_probable(joined, pairs[number][1]):
                    results[number] = joined
        return results

    def _join(
        self, source: SearchInput, parts: Sequence[tuple[SearchInput, Translation] | str], proxies: Mapping[str, str]
    ) -> Translation:
        """Join copied strings and translated fragments into the translation of a sentence.

        Args:
            source: The sentence.
            parts: Strings to copy, and fragments with their translations.
            proxies: The string that replaces each proxy number in the translation (see `_Plan.proxies`).
        """
        text, translations = "", []
        for part in parts:
            if isinstance(part, str):
                text += part
            else:
                fragment, translation = part
                has_stop = len(parts) == 1 or fragment.text.endswith((".", "!", "?"))
                text += translation.text if has_stop else translation.text.rstrip(".!? ")
                translations.append(translation)

        def spell(match: re.Match[str]) -> str:
            spelling, ending = proxies[match[1]], match[2] or ""
            return spelling if spelling.endswith(ending) else spelling + ending

        if proxies:
            text = re.sub(rf"(?<!\d)({'|'.join(proxies)})(?!\d)(?:st|[nr]d|th)?( Uhr|\.)?", spell, text)
        calibration = self._translator.calibration
        return Translation.joined(text, translations).with_confidence(source.text, calibration)

    def _unkept(self, source: SearchInput, translation: str) -> tuple[str, ...]:
        differences = compare(_text(source), translation, source.language, self._target)
        unkept = [span.text for span in (*differences.missing, *differences.added)]
        names = {span.text for span in source.copied.values() if isinstance(span, LiteralSpan)}.difference(unkept)
        return (*unkept, *sorted(name for name in names if name not in translation))

    def _plan(self, source: SearchInput, first: Translation, constraint: SpanConstraint, stage: int) -> _Plan:
        """Plan one stage of a repair: which spans to cut out and copy, and which to replace with numbers."""
        text, differences = _text(source), compare(_text(source), first.text, source.language, self._target)
        spans = [span for span in find_spans(text, source.language, self._target) if span not in differences.as_words]
        if _lacks_only_names(first) if stage == _FRAGMENTS else len(spans) > _MAX_SPANS:
            return _Plan([])
        cuts = spans if stage == _FRAGMENTS else [span for span in differences.missing if _is_apart(span, text)]
        replaced = [
            span for span in differences.missing or spans if not (span in cuts or isinstance(span, CalendarSpan))
        ]
        replaced = replaced if stage == _PROXIES else []
        numbers = (number for number in constraint.common_numbers if number not in text)
        proxies = dict(zip(replaced, numbers, strict=False))
        fragments, copied, start = [""], [""], 0
        for span in sorted([*cuts, *proxies], key=lambda span: span.start):
            ending = "th" if span in proxies and _ORDINAL.search(span.text) else ""
            fragments[-1] += text[start : span.start] + proxies.get(span, "") + ending
            start = span.end
            if span in cuts:
                fragments.append("")
                copied.insert(-1, span.spellings[0])
        fragments[-1] += text[start:]
        words = [span.text for span in differences.as_words]
        parts = list[SearchInput | str]()
        for fragment, copy in zip(fragments, copied, strict=True):
            encoded = self._encode(source, fragment, constraint, words)
            if not encoded:
                return _Plan([])
            parts += [*encoded, copy]
        return _Plan(parts, {number: span.spellings[0] for span, number in proxies.items()})

    def _encode(
        self, source: SearchInput, fragment: str, constraint: SpanConstraint, words: list[str]
    ) -> list[SearchInput | str]:
        """Encode a fragment of a sentence, with the spans that its translation must contain.

        Args:
            source: The sentence.
            fragment: The fragment.
            constraint: The constraint that makes the translation contain the spans.
            words: Numbers that the translation may spell out as words.

        Returns:
            The encoded fragment, and the strings to copy before and after it. Empty if the model has no tokens for a
            span.
        """
        start = next((position for position, character in enumerate(fragment) if character.isalnum()), len(fragment))
        text = fragment[start:].rstrip()
        if not needs_translation(text):
            return [fragment]
        encoded = self._preprocessor.encode_sentence(language_tokens(source.text) + text, source.index, source.language)
        copied = encoded.copied.values()
        found = find_spans(text, source.language, self._target)
        spans = [span for span in found if span.text not in words and span not in copied]
        spans += [LiteralSpan.at(0, symbol) for symbol in encoded.copied]
        lengths = [len(next(constraint.spell(span), (0, []))[1]) for span in spans]
        if not all(lengths):
            return []
        max_length = min(encoded.max_length, 2 * len(encoded) + sum(lengths) + _SPARE_TOKENS)
        encoded = replace(encoded, required=tuple(spans), max_length=max_length)
        return [fragment[:start], encoded, fragment[start + len(text) :]]


def protected(
    results: Iterable[SearchResult], protection: Protection, engine: Engine
) -> Iterator[tuple[SearchInput, list[Translation]]]:
    """Yield each sentence with its checked and repaired translations. Repairs run while the search continues."""
    pending: deque[tuple[SearchInput, Future[list[Translation]]]] = deque()
    try:
        for source, hypotheses in results:
            translations = protection.check(source, hypotheses)
            if protection.needs_repair(source, translations):
                pending.append((source, run_steps(engine, protection.repair([(source, translations[0])]))))
            else:
                yield source, translations
            while pending and pending[0][1].done():
                yield pending[0][0], pending.popleft()[1].result()
        while pending:
            yield pending[0][0], pending.popleft()[1].result()
    finally:
        for _, future in pending:
            future.cancel()


def protect_all(
    protection: Protection, sources: Sequence[SearchInput], strategy: SearchStrategy
) -> Steps[list[list[Translation]]]:
    """Translate sentences, and repair their translations. Return the translations of each sentence, best first."""
    hypotheses = yield sources, strategy
    results = [protection.check(source, each) for source, each in zip(sources, hypotheses, strict=True)]
    lost = [number for number, each in enumerate(results) if protection.needs_repair(sources[number], each)]
    if lost:
        repaired = yield from protection.repair([(sources[number], results[number][0]) for number in lost])
        for number, translation in zip(lost, repaired, strict=True):
            results[number] = [translation]
    return results


def run_steps(engine: Engine, steps: Steps[_T]) -> Future[_T]:
    """Run the searches that a Python generator yields, one after the other. Return a future for its return value.

    Args:
        engine: Engine that runs the searches. If the future is cancelled, the current search is also cancelled.
        steps: The Python generator. After the first search, it continues in worker threads.
    """
    result: Future[_T] = Future()

    def resume(done: Future[list[list[Hypothesis]]] | None) -> None:
        if result.cancelled():
            return
        try:
            sources, strategy = next(steps) if done is None else steps.send(done.result())
            search = engine.submit(sources, strategy)
        except StopIteration as end:
            with suppress(InvalidStateError):  # the future was cancelled
                result.set_result(end.value)
        except BaseException as error:
            if done is None:
                raise
            with suppress(InvalidStateError):
                result.set_exception(error)
        else:
            result.add_done_callback(lambda _: search.cancel())
            search.add_done_callback(resume)

    result.add_done_callback(notify_if_cancelled)
    resume(None)
    return result


def _text(source: SearchInput) -> str:
    """Return the text of a sentence, cleaned and without language tokens."""
    return clean(source.text[len(language_tokens(source.text)) :])


def _is_apart(span: Span, text: str) -> bool:
    """Return whether a span is an emoji or a similar symbol at the beginning or the end of a sentence."""
    is_edge = span.start == 0 or span.end == len(text) or text[: span.start].rstrip().endswith((".", "!", "?"))
    return is_edge and not any(map(str.isalnum, span.text))


def _is_probable(repaired: Translation, first: Translation) -> bool:
    """Return whether a repaired translation is probable enough.

    The result is always True if the original translation lost more than months and weekdays.
    """
    before, after = (each.log_probability / (len(each.tokens) + 1) for each in (first, repaired))
    return after > before - _NAME_COST or not _lacks_only_names(first)


def _lacks_only_names(translation: Translation) -> bool:
    """Return whether a translation has lost only months and weekdays."""
    return all(map(str.isalpha, translation.unkept))

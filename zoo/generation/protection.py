"""Protect amounts, dates, links, placeholders and the like: check translations and, if needed, repair them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
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
from zoo.text.spans import Differences, compare, find_spans, needs_translation

if TYPE_CHECKING:
    from zoo.generation.text_search import TextSearch

_T = TypeVar("_T")
Steps = Generator[tuple[Sequence[SearchInput], SearchStrategy], list[list[Hypothesis]], _T]
"""Generator that needs several searches. It yields the arguments of each search, and receives the hypotheses."""
_MAX_SPANS = 100
"""Maximum number of spans to decode together. The work of a decoding step grows with the square of this number."""
_SPARE_TOKENS = 20
"""Maximum number of tokens in a repaired translation, in addition to its spans and twice the length of its source."""
_NAME_COST = 0.15
"""Maximum decrease of the mean log-probability per token if a repair only restores months or weekdays."""
_ORDINAL = re.compile("[0-9](st|[nr]d|th)$")


class _Damage(NamedTuple):
    """Sentence whose translation lacks spans, such as numbers and links, or has additional numbers."""

    source: SearchInput
    text: str
    """The text of the sentence, without language tokens."""
    spans: Sequence[Span]
    """The spans in the text, except numbers that the translation may contain as words."""
    differences: Differences
    lacks_only_names: bool
    """Whether the translation has lost only months and weekdays."""


class _Plan(NamedTuple):
    """Plan to translate a sentence again so that its translation contains all spans, such as numbers and links."""

    parts: Sequence[SearchInput | str]
    """Fragments to translate, and strings to copy between them, in order."""
    proxies: Mapping[str, Span]
    """The span that each ordinary number stands for while the sentence is translated."""

    def join(self, translations: Iterator[Translation]) -> Translation:
        """Join the copied strings and the translated fragments, and put the original spans in place of their proxies.

        Proxies are ordinary numbers that stand for spans while the fragments are translated. The next items of
        `translations` are the translations of the fragments.
        """
        text, used = "", list[Translation]()
        for part in self.parts:
            if isinstance(part, str):
                text += part
            else:
                used.append(next(translations))
                text += used[-1].text.rstrip("" if part.text.endswith((".", "!", "?")) else ".!? ")

        def spell(match: re.Match[str]) -> str:
            return self.proxies[match[1]].written(text[: match.start()], match[2] or "", text[match.end() :])

        if self.proxies:
            text = re.sub(rf"(?<!\d)({'|'.join(self.proxies)})(?!\d)(?:st|[nr]d|th)?( Uhr|\.)?", spell, text)
        return Translation.joined(text, used)


class Protection:
    """Protection for amounts, links and similar spans: translations that do not keep them are found and repaired.

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
        """Create an object that checks and repairs the translations of a call.

        Translations are only repaired if beam search returns a single translation per text.

        Args:
            translator: The model.
            preprocessor: Preprocessor of the sentences.
            config: Search options.
        """
        self._translator, self._preprocessor, self._config = translator, preprocessor, config
        self._convert = partial(translator.to_translations, preprocessor)
        self._target = preprocessor.languages.target
        self._can_repair = config.search == "beam" and config.n_best == 1 and translator.constraint is None

    def translations(self, found: Sequence[tuple[SearchInput, Sequence[Hypothesis]]]) -> Steps[list[list[Translation]]]:
        """Convert the hypotheses for sentences to translations, and repair the translations of damaged sentences.

        Each search covers all sentences that still need a repair. Translations with a prefix are never repaired.

        Args:
            found: The sentences, each with its hypotheses, best first.

        Returns:
            The translations of each sentence. Their field `unkept` lists lost spans and added numbers.
        """
        results = [self._check(*each) for each in found]
        if not self._can_repair:
            return results
        unprefixed, calibration = self._preprocessor.languages.target_tokens, self._translator.calibration
        damaged = {
            number: self._damage(source, first)
            for number, ((source, _), (first, *_)) in enumerate(zip(found, results, strict=True))
            if first.unkept and source.prefix == unprefixed
        }
        untried = {number: filter(None, self._plans(damage)) for number, damage in damaged.items()}
        while plans := {number: plan for number, each in untried.items() if (plan := next(each, None))}:
            sources = [part for plan in plans.values() for part in plan.parts if isinstance(part, SearchInput)]
            numbered = [replace(source, index=index) for index, source in enumerate(sources)]
            repaired = (yield numbered, self._config.strategy(self._constraint)) if numbered else []
            fragments = (self._convert(source, each)[0] for source, each in zip(sources, repaired, strict=True))
            for number, plan in plans.items():
                source, first, damage = found[number][0], results[number][0], damaged[number]
                joined = plan.join(fragments).with_confidence(source.text, calibration)
                is_probable = _mean(joined) > _mean(first) - _NAME_COST or not damage.lacks_only_names
                if is_probable and not self._unkept(source, joined.text):
                    results[number] = [joined]
                    del untried[number]
        return results

    def _check(self, source: SearchInput, hypotheses: Sequence[Hypothesis]) -> list[Translation]:
        """Convert the hypotheses for a sentence to translations. List lost spans and added numbers in `unkept`."""
        translations = self._convert(source, hypotheses)
        protects = self._preprocessor.protects
        if not (protects and (source.replaced.spans or find_spans(_text(source), source.language, self._target))):
            return translations
        return [replace(each, unkept=self._unkept(source, each.text)) for each in translations]

    def _unkept(self, source: SearchInput, translation: str) -> tuple[str, ...]:
        differences = compare(_text(source), translation, source.language, self._target)
        unkept = [span.text for span in (*differences.missing, *differences.added)]
        names = {span.text for span in source.replaced.spans.values() if isinstance(span, LiteralSpan)}
        return (*unkept, *sorted(name for name in names.difference(unkept) if name not in translation))

    @cached_property
    def _constraint(self) -> SpanConstraint:
        return self._translator.span_constraint(self._preprocessor.languages.target_tokens)

    def _damage(self, source: SearchInput, first: Translation) -> _Damage:
        """Compare a sentence with its first translation, and return the lost and added spans."""
        text = _text(source)
        differences = compare(text, first.text, source.language, self._target)
        spans = [span for span in find_spans(text, source.language, self._target) if span not in differences.as_words]
        return _Damage(source, text, spans, differences, all(map(str.isalpha, first.unkept)))

    def _plans(self, damage: _Damage) -> Iterator[_Plan | None]:
        """Yield a plan for each way to repair a translation. A plan is None if the model has no tokens for a span."""
        lost = damage.differences.missing
        apart = [span for span in lost if _is_apart(span, damage.text)]
        if len(damage.spans) <= _MAX_SPANS:
            if not self._preprocessor.vocabulary.copy_symbols:
                replaced = [
                    each for each in lost or damage.spans if not (each in apart or isinstance(each, CalendarSpan))
                ]
                numbers = (number for number in self._constraint.common_numbers if number not in damage.text)
                yield self._plan(damage, apart, dict(zip(numbers, replaced, strict=False)))
            yield self._plan(damage, apart, {})
        if not damage.lacks_only_names:
            yield self._plan(damage, damage.spans, {})

    def _plan(self, damage: _Damage, cuts: Sequence[Span], proxies: Mapping[str, Span]) -> _Plan | None:
        """Return a plan to translate a sentence, except the spans in `cuts`, which are copied.

        `proxies` maps ordinary numbers to the spans that they replace during translation. Return None if the model has
        no tokens for a span.
        """
        numbers = {span: number for number, span in proxies.items()}
        fragments, copied, start = [""], list[str](), 0
        for span in sorted([*cuts, *numbers], key=lambda span: span.start):
            fragments[-1] += damage.text[start : span.start]
            start = span.end
            if span in numbers:
                fragments[-1] += numbers[span] + "th" * bool(_ORDINAL.search(span.text))
            else:
                fragments.append("")
                copied.append(span.spellings[0])
        fragments[-1] += damage.text[start:]
        parts = list[SearchInput | str]()
        for fragment, copy in zip(fragments, [*copied, ""], strict=True):
            if not (encoded := self._encode(damage, fragment)):
                return None
            parts += [*encoded, copy]
        return _Plan(parts, proxies)

    def _encode(self, damage: _Damage, fragment: str) -> list[SearchInput | str]:
        """Encode a fragment of a sentence, with the spans that its translation must contain.

        Return the encoded fragment, and the strings to copy before and after it. Return an empty list if the model has
        no tokens for a span.
        """
        start = next((position for position, character in enumerate(fragment) if character.isalnum()), len(fragment))
        text, source = fragment[start:].rstrip(), damage.source
        if not needs_translation(text):
            return [fragment]
        encoded = self._preprocessor.encode_sentence(language_tokens(source.text) + text, source.index, source.language)
        copied, words = encoded.replaced.spans, [span.text for span in damage.differences.as_words]
        found = find_spans(text, source.language, self._target)
        spans = [span for span in found if span.text not in words and span not in copied.values()]
        spans += [LiteralSpan.at(0, symbol) for symbol in copied]
        lengths = [len(next(self._constraint.spell(span), (0, []))[1]) for span in spans]
        if not all(lengths):
            return []
        max_length = min(encoded.max_length, 2 * len(encoded) + sum(lengths) + _SPARE_TOKENS)
        encoded = replace(encoded, required=tuple(spans), max_length=max_length)
        return [fragment[:start], encoded, fragment[start + len(text) :]]


def protected(
    results: Iterable[SearchResult], protection: Protection, engine: Engine
) -> Iterator[tuple[SearchInput, list[Translation]]]:
    """Yield each sentence with its checked and repaired translations. Repairs run while the search continues."""
    pending: deque[tuple[SearchInput, Future[list[list[Translation]]]]] = deque()
    try:
        for result in results:
            future = run_steps(engine, protection.translations([result]))
            if future.done():
                yield result[0], future.result()[0]
            else:
                pending.append((result[0], future))
            while pending and pending[0][1].done():
                yield pending[0][0], pending.popleft()[1].result()[0]
        while pending:
            yield pending[0][0], pending.popleft()[1].result()[0]
    finally:
        for _, future in pending:
            future.cancel()


def run_steps(engine: Engine, steps: Steps[_T]) -> Future[_T]:
    """Run the searches that a Python generator yields, one after the other. Return a future for the final result.

    Args:
        engine: Engine that runs the searches. If the future is cancelled, the current search is also cancelled.
        steps: The Python generator, whose return value is the result. After the first search, worker threads run it.
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


def _mean(translation: Translation) -> float:
    """Return the mean log-probability per token of a translation."""
    return translation.log_probability / (len(translation.tokens) + 1)

"""Server operations, such as translation and scoring, which all APIs share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from threading import Event
from typing import TypeVar, cast

from specs import ZooError
from specs.notation import quote
from zoo.features.modality import Frames
from zoo.generation import alignment
from zoo.generation.alignment import AlignedToken, AlignmentHead
from zoo.generation.attention import CROSS_ATTENTION, Attention
from zoo.generation.config import LanguageOptions, TranslationOptions
from zoo.generation.parser import Parser
from zoo.generation.recognizer import Recognizer
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.serving.admission import LINE_BREAKS, Admission, Metrics, Settings
from zoo.serving.answer import RELOAD_SECONDS, Answer, Call, ServingError, log_error
from zoo.serving.languages import (
    AUTO,
    base_code,
    detect_source,
    differ_in_region,
    no_model_error,
    standard_code,
)
from zoo.serving.pool import LoadedModel, ModelPool, Route

_T = TypeVar("_T")
_MAX_SCORED_TOKENS, _MAX_ATTENTION_TOKENS = 1_024, 512
"""Maximum number of tokens in a text or its translation, for scores and for attention. Memory grows quadratically."""
_CHUNK_CHARACTERS = 4_000
_CHUNK_INPUTS = 2
"""Number of inputs, such as windows of a recording, after which the work can be cancelled."""
_SHORT_CHARACTERS = 1_000
"""Texts up to this length are tokenised in the event loop's thread, because starting another thread takes longer."""


@dataclass(frozen=True)
class Plan:
    """Translation plan for one text: the model, and the model's codes for the languages (`route`).

    `source` is the code of the source language, and `confidence` is its probability if it was detected. `route` is None
    if the text is already in the target language.
    """

    route: Route | None
    source: str
    confidence: float | None = None


class Service:
    """Service that translates, scores and parses for the clients of all APIs, within the configured limits.

    Attributes:
        settings: Server settings.
        pool: Models that the server serves.
        metrics: Metrics for monitoring.
        admission: Checks requests against the limits.
    """

    def __init__(self, settings: Settings, pool: ModelPool) -> None:
        self.settings, self.pool, self.metrics = settings, pool, Metrics()
        self.admission = Admission(settings, self.metrics)
        self._scoring, self._tokenizing = ThreadPoolExecutor(1, "score"), ThreadPoolExecutor(2, "tokenize")
        self._attending, self._recognizing = ThreadPoolExecutor(1, "attend"), ThreadPoolExecutor(4, "recognize")
        self.metrics.gauge("zoo_loaded_models", "Models in memory.", lambda: len(pool.loaded_models()))

    async def translate(self, call: Call, texts: Sequence[str]) -> list[Answer]:
        """Translate texts. Their line breaks are kept.

        Raises:
            ServingError: A limit is exceeded, or there is no model for the languages.
        """
        plans = await self.plan(call, texts)
        with self.admission.admit(call.key, texts, routes_of(plans)):
            return await self.translate_groups(call, texts, plans)

    async def translate_each(
        self, call: Call, texts: Sequence[str]
    ) -> AsyncIterator[tuple[int, Answer | ServingError]]:
        """Check a request as `translate` does, and return an iterator that yields each result as soon as it is ready.

        A result consists of the index of a text and its answer. If the text cannot be translated, the answer is an
        error. If no model translates any of the texts, the first error is raised. The work is cancelled when the
        iterator is closed.
        """
        plans = await self._plan_each(call, texts)
        known = [plan for plan in plans if isinstance(plan, Plan)]
        if isinstance(plans[0], ServingError) and not known:
            raise plans[0]
        admitted = ExitStack()
        admitted.enter_context(self.admission.admit(call.key, texts, routes_of(known)))  # before the response begins

        async def one(index: int) -> tuple[int, Answer | ServingError]:
            if isinstance(plan := plans[index], ServingError):
                return index, plan
            try:
                (answer,) = await self.translate_groups(call, [texts[index]], [plan])
            except ServingError as error:
                return index, error
            return index, answer

        tasks = [asyncio.create_task(one(index)) for index in range(len(texts))]
        # The texts leave the queue when the tasks end, even if the client has left before the first result.
        finished = asyncio.gather(*tasks, return_exceptions=True)
        finished.add_done_callback(lambda _: admitted.close())

        async def results() -> AsyncIterator[tuple[int, Answer | ServingError]]:
            try:
                for done in asyncio.as_completed(tasks, timeout=self.settings.limits.request_seconds):
                    yield await done
            except TimeoutError:
                for index, task in enumerate(tasks):
                    if not task.done():
                        yield index, self.admission.timed_out()
            finally:
                for task in tasks:
                    task.cancel()

        return results()

    async def score(self, call: Call, sources: Sequence[str], targets: Sequence[str]) -> tuple[list[float], str, str]:
        """Return the log-probabilities of translations, and the name and the revision of the model.

        `sources` are texts and `targets` their translations, each a single line.
        """
        self.admission.check_texts(call, sources)
        self.admission.check_texts(call, targets)
        route = self._route(call)
        with self.admission.admit(call.key, [*sources, *targets]):
            async with self.pool.lease(route.model) as loaded:
                score = partial(_score, loaded.translator, route)
                scores = await _in_chunks(self._scoring, score, _chunks(sources, targets))
                return scores, route.model.name, loaded.revision

    async def align(self, route: Route, sources: Sequence[str], targets: Sequence[str]) -> list[list[AlignedToken]]:
        """Align each token of given translations with a source token (see `Translator.align`).

        Sentence pairs with 1,024 or more tokens on either side are not aligned.
        """
        async with self.pool.lease(route.model) as loaded:
            align = partial(alignment.align, loaded.translator, report=Report(), max_tokens=_MAX_SCORED_TOKENS)
            align = partial(align, source=route.source, target=route.target)
            return await _in_chunks(self._attending, align, _chunks(sources, targets))

    async def attention(
        self, call: Call, pair: tuple[str, str], layer: int | None, head: int | None
    ) -> tuple[Attention, int, int | None, str]:
        """Return the attention weights between the words in a text and its translation.

        Args:
            call: The client's request, with the source and target language.
            pair: The text and its translation, each a single line.
            layer: Decoder layer. None selects the layer of the head that aligns words best.
            head: Attention head. None selects the head that aligns words best or, with a layer, the mean of all
                heads.

        Returns:
            The attention weights, the layer, the head (None for the mean), and the model's name.
        """
        self.admission.check_texts(call, pair)
        route = self._route(call)
        codes: LanguageOptions = {"source": route.source, "target": route.target}

        def attend(translator: Translator, reads: bool) -> Attention:
            _require_short(translator, pair[:1], pair[1:], codes, _MAX_ATTENTION_TOKENS)
            return translator.attention(*pair, **codes).by_words(reads=reads)

        with self.admission.admit(call.key, pair):
            async with self.pool.lease(route.model) as loaded:
                layer, head, reads = _choose_head(loaded.translator, layer, head)
                found = await _in_thread(self._attending, attend, loaded.translator, reads)
        return found, layer, head, route.model.name

    async def parse(self, call: Call, texts: Sequence[str], tokenized: bool) -> list[Answer]:
        """Parse sentences. The answers contain trees in bracket notation instead of translations."""
        self.admission.check_texts(call, texts)
        if (model := next((each for each in self.pool.candidates(call.model) if each.parses), None)) is None:
            raise ServingError(400, "the server has no such parser; `GET /v1/models` lists the models")
        route = Route(model, *model.directions.pairs[0])
        with self.admission.admit(call.key, texts, [route]):
            async with self.pool.lease(model) as loaded:
                parser = cast(Parser, loaded.translator)
                if not tokenized:
                    texts = [await _in_thread(self._tokenizing, parser.tokenize, text) for text in texts]
                results = await self._submit(call, route, loaded, texts)
                return [Answer(each, route.source, None, model.name, loaded.revision) for each in results]

    async def recognize(self, route: Route, inputs: Sequence[Frames]) -> list[Translation]:
        """Recognise the text in images, or in the windows of an audio recording."""
        chunks = [(inputs[start : start + _CHUNK_INPUTS],) for start in range(0, len(inputs), _CHUNK_INPUTS)]
        async with self.pool.lease(route.model) as loaded:
            recognize = partial(cast(Recognizer, loaded.translator).recognize, target=route.target)
            results = await _in_chunks(self._recognizing, recognize, chunks)
        self.metrics.inputs.labels(route.model.name).inc(len(inputs))
        return [best for best, *_ in results]

    async def plan(self, call: Call, texts: Sequence[str]) -> list[Plan]:
        """Check a request (`call`), and return a `Plan` (the model and the languages) for each text."""
        plans = list[Plan]()
        for plan in await self._plan_each(call, texts):
            if isinstance(plan, ServingError):
                raise plan
            plans.append(plan)
        return plans

    async def _plan_each(self, call: Call, texts: Sequence[str]) -> list[Plan | ServingError]:
        """Check a request (`call`). For each text, return a `Plan`, or an error if no model translates the text."""
        self.admission.check_texts(call, texts)
        if call.source is not None and call.source.lower() != AUTO:
            return [self._plan_one(call, call.source)] * len(texts)
        choices, plans = {*self._sources(call), base_code(call.target)}, list[Plan | ServingError]()
        for text in texts:
            await asyncio.sleep(0)  # detection takes milliseconds: other requests continue between the texts
            try:
                code, probability = detect_source(text, choices, call.target)
                plans.append(replace(self._plan_one(call, code), confidence=probability))
            except ServingError as error:
                plans.append(error)
        return plans

    def _plan_one(self, call: Call, source: str) -> Plan:
        unchanged = standard_code(source) == standard_code(call.target)
        if differ_in_region(source, call.target):
            unchanged = self.pool.route(source, call.target, call.model) is None
        if unchanged:
            self._sources(call)
            return Plan(None, standard_code(source))
        return Plan(self._route(replace(call, source=source)), standard_code(source))

    def _route(self, call: Call) -> Route:
        """Return the route for the languages of a request. Raise ServingError if no model translates between them."""
        if (route := self.pool.route(call.source or "", call.target, call.model)) is None:
            raise no_model_error(call.source or "", call.target)
        return route

    def _sources(self, call: Call) -> list[str]:
        """Return the base codes of the languages that can be translated into the target language of a request.

        Raises:
            ServingError: No model translates into the target language.
        """
        if not (sources := self.pool.sources(call.target, call.model)):
            raise ServingError(400, f"no model translates into {quote(call.target)}; `GET /languages` lists the pairs")
        return sources

    async def translate_groups(self, call: Call, texts: Sequence[str], plans: Sequence[Plan]) -> list[Answer]:
        """Translate texts. Texts with the same model and languages are translated together."""
        answers = [
            Answer([Translation(text)], plan.source, plan.confidence) for text, plan in zip(texts, plans, strict=True)
        ]

        async def translate_group(route: Route) -> None:
            indices = [index for index, plan in enumerate(plans) if plan.route == route]
            split = [LINE_BREAKS.split(texts[index]) for index in indices]
            lines = [line for segments in split for line in segments[::2]]
            async with self.pool.lease(route.model) as loaded:
                results = iter(await self._submit(call, route, loaded, lines))
                self.metrics.texts.labels(route.model.name).inc(len(indices))
                for index, segments in zip(indices, split, strict=True):
                    translations = _join(segments[::2], [next(results) for _ in segments[::2]], segments[1::2])
                    source, confidence = plans[index].source, plans[index].confidence
                    answers[index] = Answer(translations, source, confidence, route.model.name, loaded.revision)

        await asyncio.gather(*map(translate_group, routes_of(plans)))
        return answers

    async def _submit(
        self, call: Call, route: Route, loaded: LoadedModel, lines: Sequence[str]
    ) -> list[list[Translation]]:
        options: TranslationOptions = {**call.options, "source": route.source, "target": route.target}
        if call.n_best is not None and options.get("beam") is None:
            options["beam"] = max(call.n_best, loaded.translator.spec.decoding.beam)
        prefixes = None if not call.prefix else [call.prefix] * len(lines)
        submit = partial(loaded.translator.submit, lines, n_best=call.n_best, prefixes=prefixes, **options)
        with readable_errors():
            if sum(map(len, lines)) <= _SHORT_CHARACTERS:
                results = await asyncio.wrap_future(submit())
            else:
                results = await self._submit_in_thread(submit)
        self.metrics.inputs.labels(route.model.name).inc(len(lines))
        self.metrics.tokens.labels(route.model.name).inc(sum(len(best.tokens) for best, *_ in results))
        return results

    async def _submit_in_thread(self, submit: Callable[..., Future[_T]]) -> _T:
        """Call `submit`, which splits and tokenises texts, in another thread. Return the result of its future."""
        abandoned = Event()
        submitting = self._tokenizing.submit(submit, abandoned=abandoned)
        try:
            submitted = await asyncio.wrap_future(submitting)
            return await asyncio.wrap_future(submitted)
        except asyncio.CancelledError:
            abandoned.set()  # the thread stops after the current text
            submitting.add_done_callback(lambda done: done.cancelled() or done.exception() or done.result().cancel())
            raise


async def _in_thread(threads: ThreadPoolExecutor, function: Callable[..., _T], *arguments: object) -> _T:
    with readable_errors():
        return await asyncio.wrap_future(threads.submit(function, *arguments))


async def _in_chunks(
    threads: ThreadPoolExecutor, function: Callable[..., list[_T]], chunks: Iterable[Sequence[object]]
) -> list[_T]:
    """Call a function with each chunk of arguments, and join the results. The work can be cancelled between chunks."""
    return [result for chunk in chunks for result in await _in_thread(threads, function, *chunk)]


def _score(translator: Translator, route: Route, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
    languages: LanguageOptions = {"source": route.source, "target": route.target}
    _require_short(translator, sources, targets, languages, _MAX_SCORED_TOKENS)
    return translator.score(sources, targets, **languages)


def _choose_head(translator: Translator, layer: int | None, head: int | None) -> tuple[int, int | None, bool]:
    """Choose the layer, the head, and the argument `reads` of `Attention.by_words`, for `Service.attention`.

    If the head that aligns words best is not known, the default is the first head of the second-to-last layer.
    """
    architecture = translator.spec.architecture
    cross = next((each for each in architecture.decoder if each.kind in CROSS_ATTENTION), None)
    if cross is None:
        raise ServingError(400, "the decoder of this model has no cross-attention")
    layers, heads = architecture.depths.decoder, architecture.option(cross, "h")
    best = translator.alignment_head or AlignmentHead(max(layers - 2, 0), 0, False)
    if layer is None:
        layer, head = best.layer, best.head if head is None else head
    if layer >= layers or (head or 0) >= heads:
        raise ServingError(400, f"`layer` should be less than {layers}, and `head` less than {heads}")
    return layer, head, best.reads and (layer, head) == (best.layer, best.head)


def _chunks(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Split sentence pairs into chunks of about a second of work, so that other requests can also use the thread."""
    start = characters = 0
    for index, (source, target) in enumerate(zip(sources, targets, strict=True)):
        characters += len(source) + len(target)
        if characters > _CHUNK_CHARACTERS and index > start:
            yield sources[start:index], targets[start:index]
            start, characters = index, len(source) + len(target)
    yield sources[start:], targets[start:]


def _require_short(
    translator: Translator, sources: Sequence[str], targets: Sequence[str], languages: LanguageOptions, limit: int
) -> None:
    """Raise ServingError if a text has more than `limit` tokens. Memory and time grow quadratically with the length."""
    preprocessor = translator.preprocessor(**languages)
    tokens = [*preprocessor.encode_pairs_side(sources, "source"), *preprocessor.encode_pairs_side(targets, "target")]
    if (longest := max(map(len, tokens), default=0)) > limit:
        message = f"a text has {longest:,} tokens; the limit is {limit:,}; split it into sentences"
        raise ServingError(413, message, "length")


def routes_of(plans: Iterable[Plan]) -> list[Route]:
    """Return the distinct routes in a list of plans."""
    return list(dict.fromkeys(plan.route for plan in plans if plan.route is not None))


@contextmanager
def readable_errors() -> Iterator[None]:
    """Convert a ZooError to a ServingError: status 400 for errors in texts and options, otherwise status 503."""
    try:
        yield
    except ZooError as error:
        if error.exit_code == 2:
            raise ServingError(400, error.summary) from None
        log_error("the model cannot be used because of", error)
        raise ServingError(503, "the model cannot be used now; try again later", "load", RELOAD_SECONDS) from None


def _join(sources: Sequence[str], lines: Sequence[Sequence[Translation]], gaps: Sequence[str]) -> list[Translation]:
    """Join the translations of a text's lines, with the original line breaks (`gaps`) between them.

    The `parts` of each translation contain its sentences. If a line has fewer translations than other lines, its last
    translation is repeated.
    """
    joined = []
    for rank in range(max(map(len, lines))):
        parts = [each[min(rank, len(each) - 1)] if each else Translation("") for each in lines]
        text = parts[0].text + "".join(gap + part.text for gap, part in zip(gaps, parts[1:], strict=True))
        pairs = (part.parts or ((source, part.text),) for source, part in zip(sources, parts, strict=True))
        joined.append(Translation.joined(text, parts, tuple(chain.from_iterable(pairs))))
    return joined

"""The work of the server, independent of the API through which a request came."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from fastapi import Request

from specs import ZooError
from specs.notation import quote
from zoo.documents.document import Document, Format, Markup
from zoo.documents.markup import Segment
from zoo.generation.alignment import AlignedToken, AlignmentHead
from zoo.generation.attention import Attention
from zoo.generation.config import LanguageOptions, TranslationOptions
from zoo.generation.parser import Parser
from zoo.generation.translation import EMPTY_TRANSLATION, Translation
from zoo.serving.errors import ClientGone, ServingError
from zoo.serving.files import TemporaryFiles
from zoo.serving.languages import AUTO, base_code, detect, differ_in_region, standard_code
from zoo.serving.metrics import Metrics
from zoo.serving.pool import LoadedModel, ModelPool, PooledModel, Route
from zoo.serving.settings import Settings, hash_key

DOCUMENT_SECONDS = 600.0
"""Maximum time to translate a document if the client does not wait for the response."""
_T = TypeVar("_T")
_LINE_BREAKS = re.compile(r"(\s*[\r\n]\s*)")
_RETRY_SECONDS = 2
_SHORT_CHARACTERS = 1_000
"""Texts up to this length are tokenised in the thread of the event loop: another thread would take longer to start."""
_DETECTED_CHARACTERS = 2_000
"""Length of the beginning of a document from which its language is detected."""
_DISCONNECTED = "http.disconnect"


@dataclass(frozen=True)
class Options:
    """Options of a translation. None for the defaults of the model's spec.

    Attributes:
        beam: Beam size.
        n_best: Number of translations of each text.
        alpha: Exponent of the length penalty.
        prefix: Text that each translation begins with.
    """

    beam: int | None = None
    n_best: int | None = None
    alpha: float | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Answer:
    """Translations of a text.

    Attributes:
        translations: The translations, best first.
        source: Code of the source language, as clients see it.
        confidence: Probability of the source language. None if the client specified the language.
        model: Name of the model. None if the text is in the target language and was returned unchanged.
        revision: Revision of the model.
    """

    translations: list[Translation]
    source: str
    confidence: float | None = None
    model: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class _Plan:
    """How a text is translated. `route` is None if the text is already in the target language."""

    route: Route | None
    source: str
    confidence: float | None = None


class Service:
    """Translates, scores and parses for the clients of all APIs, within the limits of the settings.

    Attributes:
        settings: The settings.
        pool: The models.
        metrics: The metrics.
        open_requests: Number of requests that are being answered.
        draining: Whether the server is about to end.
        files: Translated documents that clients can download.
        used_characters: Number of characters that each API key has translated, by the key's SHA-256.
    """

    def __init__(self, settings: Settings, pool: ModelPool) -> None:
        self.settings, self.pool, self.metrics = settings, pool, Metrics()
        self.open_requests, self.draining = 0, False
        self.used_characters: Counter[str] = Counter()
        self._queued_texts = self._queued_characters = 0
        self._scoring = ThreadPoolExecutor(1, "score")
        self.files = TemporaryFiles()
        self.metrics.gauge("zoo_queued_texts", "Texts that wait or are translated.", lambda: self._queued_texts)
        self.metrics.gauge("zoo_queued_characters", "Their characters.", lambda: self._queued_characters)
        self.metrics.gauge("zoo_open_requests", "Requests that are being answered.", lambda: self.open_requests)
        self.metrics.gauge("zoo_loaded_models", "Models in memory.", lambda: len(pool.loaded_models()))

    @property
    def ready(self) -> bool:
        """Whether the server accepts further requests."""
        return not self.draining and self._queued_texts < self.settings.limits.queued_texts

    def authorize(self, key: str | None) -> str:
        """Check an API key. Return its SHA-256, or an empty string if the server needs no keys.

        Raises:
            ServingError: The key is missing or wrong.
        """
        keys = self.settings.keys
        if not keys:
            return ""
        if key is None:
            raise ServingError(403, "an API key is needed", "key")
        if (hashed := hash_key(key)) not in keys:
            raise ServingError(403, "the API key is wrong", "key")
        return hashed

    async def translate(
        self,
        request: Request,
        key: str,
        texts: Sequence[str],
        source: str | None,
        target: str,
        options: Options,
        model: str | None = None,
    ) -> list[Answer]:
        """Translate texts.

        Args:
            request: The request. If its client disconnects, the work is cancelled.
            key: SHA-256 of the client's API key, as `authorize` returns it.
            texts: The texts. Their line breaks are kept.
            source: Code of their language. None or "auto": it is detected for each text.
            target: Code of the language to translate into.
            options: Options of the search.
            model: Name of the model. None: it is chosen by the languages.

        Raises:
            ServingError: A limit is exceeded, or there is no model for the languages.
            ClientGone: The client has disconnected.
        """
        plans = self._plan(texts, source, target, options, model)
        with self._admit(key, texts):
            work = self._translate_groups(texts, plans, options)
            return await self._unless_disconnected(request, work)

    async def translate_markup(
        self,
        request: Request,
        key: str,
        texts: Sequence[str],
        source: str | None,
        target: str,
        options: Options,
        form: Format,
    ) -> list[Answer]:
        """Translate texts with markup, such as HTML. The arguments and errors are those of `translate`."""
        self._check_texts(texts, options)
        markups = [await self._parsed(Markup.parse, text, form) for text in texts]
        plain = [_plain(markup.segments) for markup in markups]
        plans = self._plan(plain, source, target, options, None)

        async def work() -> list[Answer]:
            segments = [
                (segment, plan) for markup, plan in zip(markups, plans, strict=True) for segment in markup.segments
            ]
            rendered = []
            for translations, alignments in await self._translate_segments(segments, options):
                rest = iter(translations), iter(alignments)
                rendered.append([markup.render(*rest) for markup in markups])
            return [
                Answer([Translation(rank[index], 0.0, 0.0, ()) for rank in rendered], plan.source, plan.confidence)
                for index, plan in enumerate(plans)
            ]

        with self._admit(key, texts):
            return await self._unless_disconnected(request, work())

    async def translate_document(
        self, request: Request, key: str, content: bytes, name: str, source: str | None, target: str
    ) -> bytes:
        """Translate a document (see `zoo.documents.document.Document`).

        Raises:
            ServingError: The format is unknown, the document is damaged, a limit is exceeded, or there is no model.
            ClientGone: The client has disconnected.
        """
        document, text, plan = await self._plan_document(content, name, source, target)
        with self._admit(key, [text]):
            return await self._unless_disconnected(request, self._translate_planned(document, plan))

    async def start_document(
        self, key: str, content: bytes, name: str, source: str | None, target: str
    ) -> tuple[asyncio.Task[str], int]:
        """Start to translate a document. The work continues when the request has been answered.

        The arguments and errors are those of `translate_document`.

        Returns:
            A task, whose result is the secret of the translated document in `files`, and the number of characters.
            The task fails if the document is already in the target language.
        """
        document, text, plan = await self._plan_document(content, name, source, target)
        admission = self._admit(key, [text])
        admission.__enter__()  # an error must be the response to this request

        async def work() -> str:
            if plan.route is None:
                raise ServingError(400, "Source and target language are the same")
            try:
                async with asyncio.timeout(DOCUMENT_SECONDS):
                    return self.files.add(await self._translate_planned(document, plan), name)
            except TimeoutError:
                raise ServingError(503, f"the document took more than {DOCUMENT_SECONDS:g} seconds", "time") from None

        task = asyncio.create_task(work())
        task.add_done_callback(lambda _: admission.__exit__(None, None, None))
        return task, len(text)

    async def _plan_document(
        self, content: bytes, name: str, source: str | None, target: str
    ) -> tuple[Document, str, _Plan]:
        """Return a document, its text, and how it is translated."""
        with _readable_errors():
            document = await self._parsed(Document, content, name)
        text = _plain(document.segments)
        self._check_texts([text[:_DETECTED_CHARACTERS]])
        (plan,) = self._plan([text[:_DETECTED_CHARACTERS]], source, target, Options(), None)
        return document, text, plan

    async def _translate_planned(self, document: Document, plan: _Plan) -> bytes:
        segments = [(segment, plan) for segment in document.segments]
        ((translations, alignments),) = await self._translate_segments(segments, Options())
        return await asyncio.to_thread(document.render, translations, alignments)

    async def _parsed(self, parse: Callable[..., _T], *arguments: object) -> _T:
        """Parse a text in another thread, and wait at most as long as a request may take."""
        try:
            async with asyncio.timeout(self.settings.limits.request_seconds):
                return await asyncio.to_thread(parse, *arguments)
        except TimeoutError:
            raise self._timed_out() from None

    async def _translate_segments(
        self, segments: Sequence[tuple[Segment, _Plan]], options: Options
    ) -> list[tuple[list[str], list[list[AlignedToken]]]]:
        """Return the translations of segments and their alignments, for each of the `n_best` ranks."""
        texts, plans = [segment.text for segment, _ in segments], [plan for _, plan in segments]
        answers = await self._translate_groups(texts, plans, options)
        results = []
        for rank in range(options.n_best or 1):
            targets = [each.translations[min(rank, len(each.translations) - 1)].text for each in answers]
            alignments: list[list[AlignedToken]] = [[] for _ in segments]
            for route in _routes(plans):
                indices = [
                    index
                    for index, (segment, plan) in enumerate(segments)
                    if plan.route == route and segment.needs_alignment
                ]
                async with self.pool.lease(route.model) as loaded:
                    align = partial(loaded.translator.align, source=route.source, target=route.target)
                    pairs = [texts[index] for index in indices], [targets[index] for index in indices]
                    with _readable_errors():
                        found = await asyncio.wrap_future(self._scoring.submit(align, *pairs))
                for index, tokens in zip(indices, found, strict=True):
                    alignments[index] = tokens
            results.append((targets, alignments))
        return results

    async def translate_each(
        self,
        key: str,
        texts: Sequence[str],
        source: str | None,
        target: str,
        options: Options,
        model: str | None = None,
    ) -> AsyncIterator[tuple[int, Answer | ServingError]]:
        """Check a request as `translate` does, and return an iterator over its results as soon as they are known.

        Each result has the index of the text. The work is cancelled when the iterator is closed.
        """
        plans = self._plan(texts, source, target, options, model)
        admission = self._admit(key, texts)
        admission.__enter__()  # an error must precede the response, whose iterator starts later

        async def one(index: int) -> tuple[int, Answer | ServingError]:
            try:
                (answer,) = await self._translate_groups([texts[index]], [plans[index]], options)
            except ServingError as error:
                return index, error
            return index, answer

        tasks = [asyncio.create_task(one(index)) for index in range(len(texts))]
        # The texts leave the queue when the tasks end, even if the client has left before the first result.
        finished = asyncio.gather(*tasks, return_exceptions=True)
        finished.add_done_callback(lambda _: admission.__exit__(None, None, None))

        async def results() -> AsyncIterator[tuple[int, Answer | ServingError]]:
            try:
                for done in asyncio.as_completed(tasks, timeout=self.settings.limits.request_seconds):
                    yield await done
            except TimeoutError:
                for index, task in enumerate(tasks):
                    if not task.done():
                        yield index, self._timed_out()
            finally:
                for task in tasks:
                    task.cancel()

        return results()

    async def score(
        self,
        request: Request,
        key: str,
        pairs: Sequence[tuple[str, str]],
        languages: tuple[str, str],
        name: str | None,
    ) -> tuple[list[float], str, str]:
        """Return the log-probabilities of translations, and the name and the revision of the model.

        Args:
            request: The request.
            key: SHA-256 of the client's API key.
            pairs: Texts and their translations, each of one line.
            languages: Codes of the source and target language.
            name: Name of the model, or None.
        """
        self._check_texts([source for source, _ in pairs])
        self._check_texts([target for _, target in pairs])
        route = self._route(*languages, name)

        async def work() -> tuple[list[float], str, str]:
            async with self.pool.lease(route.model) as loaded:
                sources, targets = zip(*pairs, strict=True)
                languages: LanguageOptions = {"source": route.source, "target": route.target}
                score = self._scoring.submit(lambda: loaded.translator.score(sources, targets, **languages))
                with _readable_errors():
                    scores = await asyncio.wrap_future(score)
                return scores, route.model.name, loaded.revision

        with self._admit(key, [source for source, _ in pairs]):
            return await self._unless_disconnected(request, work())

    async def attention(
        self, request: Request, key: str, pair: tuple[str, str], languages: tuple[str, str], name: str | None
    ) -> tuple[Attention, AlignmentHead, str]:
        """Return the attention between the words of a text and of its translation.

        Args:
            request: The request.
            key: SHA-256 of the client's API key.
            pair: The text and its translation, each of one line.
            languages: Codes of the source and target language.
            name: Name of the model, or None.

        Returns:
            The attention weights, the head that aligns best or, if it is not known, the first head of the last layer
            but one, and the name of the model.
        """
        self._check_texts(pair)
        route = self._route(*languages, name)

        async def work() -> tuple[Attention, AlignmentHead, str]:
            async with self.pool.lease(route.model) as loaded:
                codes: LanguageOptions = {"source": route.source, "target": route.target}
                translator = loaded.translator
                attention = self._scoring.submit(lambda: translator.attention(*pair, **codes).by_words())
                with _readable_errors():
                    found = await asyncio.wrap_future(attention)
            if not len(found.cross):
                raise ServingError(400, "the decoder of this model has no attention to the text")
            best = translator.alignment_head or AlignmentHead(max(len(found.cross) - 2, 0), 0, False)
            return found, best, route.model.name

        with self._admit(key, [pair[0]]):
            return await self._unless_disconnected(request, work())

    async def parse(
        self, request: Request, key: str, texts: Sequence[str], name: str | None, options: Options, tokenized: bool
    ) -> list[Answer]:
        """Return the trees of sentences, as bracketed texts in place of translations."""
        self._check_texts(texts, options)
        parsers = [model for model in self.pool.models.values() if model.parses]
        if name is not None:
            parsers = [model for model in (self.pool.named(name),) if model.parses]
        if not parsers:
            raise ServingError(400, "the server has no such parser; `GET /v1/models` lists the models")

        async def work() -> list[Answer]:
            async with self.pool.lease(parsers[0]) as loaded:
                parser = loaded.translator
                assert isinstance(parser, Parser)
                lines = list(texts) if tokenized else [parser.tokenize(text) for text in texts]
                results = await self._submit(parsers[0], loaded, lines, None, options)
                name, revision = parsers[0].name, loaded.revision
                return [Answer(each, parser.spec.corpus.source, None, name, revision) for each in results]

        with self._admit(key, texts):
            return await self._unless_disconnected(request, work())

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the possible languages of a text among the source languages of all models, with probabilities."""
        self._check_texts([text])
        return detect(text, map(base_code, self.pool.directions()))

    def _plan(
        self, texts: Sequence[str], source: str | None, target: str, options: Options, name: str | None
    ) -> list[_Plan]:
        """Check a request, and return how each of its texts is translated."""
        self._check_texts(texts, options)
        if source is not None and source.lower() != AUTO:
            return [self._plan_one(source, target, name)] * len(texts)
        choices = {*self.pool.sources(target, name), base_code(target)}
        detected = [detect(text, choices)[0] for text in texts]
        return [replace(self._plan_one(code, target, name), confidence=probability) for code, probability in detected]

    def _plan_one(self, source: str, target: str, name: str | None) -> _Plan:
        unchanged = standard_code(source) == standard_code(target)
        if differ_in_region(source, target):
            unchanged = self.pool.route(source, target, name) is None
        if unchanged:
            self._target(target, name)
            return _Plan(None, standard_code(source))
        return _Plan(self._route(source, target, name), standard_code(source))

    def _route(self, source: str, target: str, name: str | None) -> Route:
        route = self.pool.route(source, target, name)
        if route is None:
            pair = f"from {quote(standard_code(source))} to {quote(standard_code(target))}"
            raise ServingError(400, f"no model translates {pair}; `GET /languages` lists the pairs")
        return route

    def _target(self, target: str, name: str | None) -> None:
        """Raise ServingError if no model translates into a language."""
        if not self.pool.sources(target, name):
            raise ServingError(400, f"no model translates into {quote(target)}; `GET /languages` lists the pairs")

    def _check_texts(self, texts: Sequence[str], options: Options | None = None) -> None:
        limits, options = self.settings.limits, options or Options()
        if not texts:
            raise ServingError(400, "there is no text")
        if len(texts) > limits.texts:
            raise ServingError(413, f"the request has {len(texts):,} texts; at most {limits.texts:,} fit", "texts")
        for text in (*texts, options.prefix or ""):
            if len(text) > limits.text_characters:
                message = f"a text has {len(text):,} characters; at most {limits.text_characters:,} fit"
                raise ServingError(413, message, "length")
            try:
                text.encode()
            except UnicodeEncodeError:
                message = "a text is not valid Unicode: it contains half of a surrogate pair"
                raise ServingError(400, message) from None
        for name, value in (("beam", options.beam), ("n_best", options.n_best)):
            if value is not None and not 1 <= value <= limits.beam:
                raise ServingError(400, f"`{name}` is {value:,}; it should be from 1 to {limits.beam}")
        if options.prefix and any(_LINE_BREAKS.search(text.strip()) for text in (*texts, options.prefix)):
            raise ServingError(400, "`prefix` needs texts of one line")

    @contextmanager
    def _admit(self, key: str, texts: Sequence[str]) -> Iterator[None]:
        """Count the texts as queued in the body of `with`. Raise ServingError if the server is busy."""
        characters, limits, quota = sum(map(len, texts)), self.settings.limits, self.settings.keys.get(key)
        if quota is not None and self.used_characters[key] + characters > quota:
            raise ServingError(456, f"the limit of this API key, {quota:,} characters, is reached", "quota")
        if (
            self._queued_texts + len(texts) > limits.queued_texts
            or self._queued_characters + characters > limits.queued_characters
        ):
            raise ServingError(429, "the queue is full; try again later", "queue", _RETRY_SECONDS)
        waiting = (loaded.translator.waiting_seconds for loaded in self.pool.loaded_models())
        if max(waiting, default=0.0) > limits.wait_seconds:
            raise ServingError(429, "the server is busy; try again later", "wait", _RETRY_SECONDS)
        self.used_characters[key] += characters
        self._queued_texts += len(texts)
        self._queued_characters += characters
        try:
            yield
        finally:
            self._queued_texts -= len(texts)
            self._queued_characters -= characters

    async def _translate_groups(self, texts: Sequence[str], plans: Sequence[_Plan], options: Options) -> list[Answer]:
        """Translate texts, each group of texts for the same model and languages together."""
        answers = [
            Answer([Translation(text, 0.0, 0.0, ())], plan.source, plan.confidence)
            for text, plan in zip(texts, plans, strict=True)
        ]

        async def translate_group(route: Route) -> None:
            indices = [index for index, plan in enumerate(plans) if plan.route == route]
            split = [_LINE_BREAKS.split(texts[index]) for index in indices]
            lines = [line for segments in split for line in segments[::2]]
            async with self.pool.lease(route.model) as loaded:
                results = iter(await self._submit(route.model, loaded, lines, route, options))
                self.metrics.texts.labels(route.model.name).inc(len(indices))
                for index, segments in zip(indices, split, strict=True):
                    translations = _join([next(results) for _ in segments[::2]], segments[1::2])
                    answers[index] = replace(
                        answers[index],
                        translations=translations,
                        model=route.model.name,
                        revision=loaded.revision,
                    )

        await asyncio.gather(*map(translate_group, _routes(plans)))
        return answers

    async def _submit(
        self, model: PooledModel, loaded: LoadedModel, lines: Sequence[str], route: Route | None, options: Options
    ) -> list[list[Translation]]:
        arguments: TranslationOptions = {"beam": options.beam, "alpha": options.alpha}
        if options.n_best is not None and options.beam is None:
            arguments["beam"] = max(options.n_best, loaded.translator.spec.decoding.beam)
        if route is not None:
            arguments |= {"source": route.source, "target": route.target}
        prefixes = None if not options.prefix else [options.prefix] * len(lines)
        submit = partial(loaded.translator.submit, lines, n_best=options.n_best, prefixes=prefixes, **arguments)
        with _readable_errors():
            if sum(map(len, lines)) <= _SHORT_CHARACTERS:
                results = await asyncio.wrap_future(submit())
            else:
                results = await _result_of(submit)
        self.metrics.sentences.labels(model.name).inc(len(lines))
        self.metrics.tokens.labels(model.name).inc(sum(len(best.tokens) for best, *_ in results))
        return results

    async def _unless_disconnected(self, request: Request, work: Awaitable[_T]) -> _T:
        """Wait for the work. Cancel it if the client disconnects or the time is over."""
        task, watcher = asyncio.ensure_future(work), asyncio.create_task(_wait_for_disconnect(request))
        try:
            seconds = self.settings.limits.request_seconds
            await asyncio.wait({task, watcher}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientGone if watcher.done() else self._timed_out()
        finally:
            watcher.cancel()
            task.cancel()

    def _timed_out(self) -> ServingError:
        message = f"the request took more than {self.settings.limits.request_seconds:g} seconds"
        return ServingError(503, message, "time", _RETRY_SECONDS)


def _routes(plans: Iterable[_Plan]) -> list[Route]:
    """Return the different routes of some texts."""
    return list({(id(p.route.model), p.route.source, p.route.target): p.route for p in plans if p.route}.values())


def _plain(segments: Sequence[Segment]) -> str:
    return "\n".join(segment.text for segment in segments) or " "


async def _result_of(submit: Callable[[], Future[_T]]) -> _T:
    """Submit work in another thread, because that splits and tokenises texts, and wait for its result."""
    submitting = asyncio.get_running_loop().run_in_executor(None, submit)
    try:
        return await asyncio.wrap_future(await asyncio.shield(submitting))
    except asyncio.CancelledError:
        submitting.add_done_callback(lambda done: done.cancelled() or done.exception() or done.result().cancel())
        raise


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != _DISCONNECTED:
        pass


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Convert a ZooError about the client's texts or options to a ServingError."""
    try:
        yield
    except ZooError as error:
        if error.exit_code != 2:
            raise
        raise ServingError(400, error.summary) from None


def _join(lines: Sequence[Sequence[Translation]], gaps: Sequence[str]) -> list[Translation]:
    """Return the translations of a text, joined from those of its lines, with the line breaks of the text.

    If some lines have fewer translations, such as an empty line, their last one is repeated.
    """
    joined = []
    for rank in range(max(map(len, lines))):
        parts = [each[min(rank, len(each) - 1)] if each else EMPTY_TRANSLATION for each in lines]
        text = parts[0].text + "".join(gap + part.text for gap, part in zip(gaps, parts[1:], strict=True))
        score, log_probability = sum(part.score for part in parts), sum(part.log_probability for part in parts)
        joined.append(
            Translation(text, score, log_probability, tuple(token for part in parts for token in part.tokens))
        )
    return joined

"""Translation of markup and of documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from fastapi import Request

from zoo.documents.document import Document, Format, Markup
from zoo.documents.markup import Segment
from zoo.generation.alignment import AlignedToken
from zoo.generation.translation import Translation
from zoo.serving.answer import Answer, Options
from zoo.serving.errors import ServingError
from zoo.serving.files import TemporaryFiles
from zoo.serving.service import Plan, Service, readable_errors, routes_of

DOCUMENT_SECONDS = 600.0
"""Maximum time to translate a document if the client does not wait for the response."""
_T = TypeVar("_T")
_DETECTED_CHARACTERS = 2_000
"""Length of the beginning of a document from which its language is detected."""


class Documents:
    """Translates markup and documents for the clients of all APIs.

    Attributes:
        files: Translated documents that clients can download.
    """

    def __init__(self, service: Service) -> None:
        self._service, self.files = service, TemporaryFiles()

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
        self._service.admission.check_texts(texts, options)
        markups = [await self._parsed(Markup.parse, text, form) for text in texts]
        plain = [_plain(markup.segments) for markup in markups]
        plans = self._service.plan(plain, source, target, options, None)

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

        with self._service.admission.admit(key, texts):
            return await self._service.admission.unless_disconnected(request, work())

    async def translate_document(
        self, request: Request, key: str, content: bytes, name: str, source: str | None, target: str
    ) -> bytes:
        """Translate a document (see `zoo.documents.document.Document`).

        Raises:
            ServingError: The format is unknown, the document is damaged, a limit is exceeded, or there is no model.
            ClientGone: The client has disconnected.
        """
        document, text, plan = await self._plan_document(content, name, source, target)
        with self._service.admission.admit(key, [text]):
            return await self._service.admission.unless_disconnected(request, self._translate_planned(document, plan))

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
        admission = self._service.admission.admit(key, [text])
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
    ) -> tuple[Document, str, Plan]:
        """Return a document, its text, and how it is translated."""
        with readable_errors():
            document = await self._parsed(Document, content, name)
        text = _plain(document.segments)
        self._service.admission.check_texts([text[:_DETECTED_CHARACTERS]])
        (plan,) = self._service.plan([text[:_DETECTED_CHARACTERS]], source, target, Options(), None)
        return document, text, plan

    async def _translate_planned(self, document: Document, plan: Plan) -> bytes:
        segments = [(segment, plan) for segment in document.segments]
        ((translations, alignments),) = await self._translate_segments(segments, Options())
        return await asyncio.to_thread(document.render, translations, alignments)

    async def _parsed(self, parse: Callable[..., _T], *arguments: object) -> _T:
        """Parse a text in another thread, and wait at most as long as a request may take."""
        try:
            async with asyncio.timeout(self._service.settings.limits.request_seconds):
                return await asyncio.to_thread(parse, *arguments)
        except TimeoutError:
            raise self._service.admission.timed_out() from None

    async def _translate_segments(
        self, segments: Sequence[tuple[Segment, Plan]], options: Options
    ) -> list[tuple[list[str], list[list[AlignedToken]]]]:
        """Return the translations of segments and their alignments, for each of the `n_best` ranks."""
        texts, plans = [segment.text for segment, _ in segments], [plan for _, plan in segments]
        answers = await self._service.translate_groups(texts, plans, options)
        results = []
        for rank in range(options.n_best or 1):
            targets = [each.translations[min(rank, len(each.translations) - 1)].text for each in answers]
            alignments: list[list[AlignedToken]] = [[] for _ in segments]
            for route in routes_of(plans):
                indices = [
                    index
                    for index, (segment, plan) in enumerate(segments)
                    if plan.route == route and segment.needs_alignment
                ]
                pairs = [texts[index] for index in indices], [targets[index] for index in indices]
                found = await self._service.align(route, *pairs)
                for index, tokens in zip(indices, found, strict=True):
                    alignments[index] = tokens
            results.append((targets, alignments))
        return results


def _plain(segments: Sequence[Segment]) -> str:
    return "\n".join(segment.text for segment in segments) or " "

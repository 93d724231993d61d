"""Translation of markup and of documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request

from zoo.documents.document import Document, Format, Markup
from zoo.documents.markup import Segment
from zoo.generation.alignment import AlignedToken
from zoo.generation.translation import Translation
from zoo.serving.answer import Answer, Options
from zoo.serving.errors import ServingError
from zoo.serving.files import TemporaryFiles
from zoo.serving.service import Plan, Service, models_of, readable_errors, routes_of

LOG = logging.getLogger("zoo.serving")
DOCUMENT_SECONDS = 600.0
"""Maximum time to translate a document if the client does not wait for the response."""
_T = TypeVar("_T")
_DETECTED_CHARACTERS = 2_000
"""Length of the beginning of a document from which its language is detected."""


@dataclass(frozen=True)
class Outcome:
    """Result of a document: the secret of its translation in `Documents.files`, or an error message."""

    secret: str = ""
    error: str = ""


async def _same_language() -> Outcome:
    return Outcome(error="Source and target language are the same")


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

        with self._service.admission.admit(key, texts, models_of(plans)):
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
        with self._service.admission.admit(key, [text], models_of([plan])):
            return await self._service.admission.unless_disconnected(request, self._translate_planned(document, plan))

    async def start_document(
        self, key: str, content: bytes, name: str, source: str | None, target: str
    ) -> tuple[asyncio.Task[Outcome], int]:
        """Start to translate a document. The work continues when the request has been answered.

        The arguments and errors are those of `translate_document`.

        Returns:
            A task, which never fails, and the number of characters.
        """
        document, text, plan = await self._plan_document(content, name, source, target)
        if plan.route is None:
            return asyncio.create_task(_same_language()), len(text)
        admission = self._service.admission.admit(key, [text], models_of([plan]))
        admission.__enter__()  # an error must be the response to this request
        task = asyncio.create_task(self._outcome(document, plan, name))
        task.add_done_callback(lambda _: admission.__exit__(None, None, None))
        return task, len(text)

    async def _outcome(self, document: Document, plan: Plan, name: str) -> Outcome:
        """Translate a document. Errors are returned: an exception in a task would keep the document in memory."""
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                return Outcome(secret=self.files.add(await self._translate_planned(document, plan), name))
        except TimeoutError:
            return Outcome(error=f"the document took more than {DOCUMENT_SECONDS:g} seconds")
        except ServingError as error:
            return Outcome(error=error.message)
        except Exception as error:  # its message may contain a text of the client, so only its type is logged
            LOG.error("a document failed with %s", type(error).__name__)
            return Outcome(error="internal error; the log of the server has the details")

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

"""Translation of markup and documents. Clients can download translated documents for a few minutes."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import PurePath
from typing import TypeVar, cast
from weakref import WeakSet

from fastapi.responses import Response, StreamingResponse

from specs import Recognition
from specs.notation import quote
from zoo.documents.document import FORMATS, DocumentSource, SegmentText, read_texts, write_documents
from zoo.documents.html import ElementRoles
from zoo.features.modality import read_frames
from zoo.features.windows import read_windows
from zoo.generation.alignment import AlignedToken
from zoo.generation.recognizer import Recognizer
from zoo.generation.transcription import Transcript, max_window_seconds
from zoo.generation.translation import Translation
from zoo.serving.admission import MAX_LINES
from zoo.serving.answer import LOG, RETRY_SECONDS, Answer, Call, ServingError, log_error
from zoo.serving.languages import standard_code
from zoo.serving.pool import Route
from zoo.serving.processes import Processes
from zoo.serving.service import Plan, Service, readable_errors, routes_of

DOCUMENT_SECONDS = 600.0
"""Maximum time to translate a document if the client does not wait for the response."""
Outcome = str | ServingError
"""Result of translating a document: the secret needed to download the translation, or an error."""
_T = TypeVar("_T")
_DETECTED_CHARACTERS = 2_000
"""Number of characters at the beginning of a document that are used to detect its language."""
_PROCESSES = 2
_CALL_SECONDS = 30.0
"""Maximum time to read or write a document or the texts of a request with markup."""
_CHARACTERS_PER_SECOND, _CHARACTERS_PER_PICTURE = 15, 100
"""Numbers of characters that represent a second of audio and an image in quotas and in the queue."""
DOWNLOAD_SECONDS = 600.0
"""Time for which clients can download a translated document. Then the document is removed."""
MAX_STORED_BYTES = 200_000_000
"""Maximum total size of the translated documents in memory."""
_PART_BYTES = 65_536
_PROBLEMS = {"unkept": "lack numbers, links or similar", "uncertain": "have a low probability"}
"""Attributes of translations that list problems, with descriptions for the log."""
_NAME_BYTES = 24
_RETRY_FILES_SECONDS = 60


@dataclass(frozen=True)
class _Job:
    """Client request (`call`) to translate a document, or texts with markup.

    `sources`, `segments` and `plans` have one element for each document or text. `processes` are the worker processes
    that read the sources and write the translations.
    """

    call: Call
    processes: Processes
    sources: Sequence[DocumentSource]
    segments: Sequence[Sequence[SegmentText]]
    plans: Sequence[Plan]


class Documents:
    """Service that translates markup and documents, and recognises recordings and images, for the clients of all APIs.

    Attributes:
        downloads: Translated documents that clients can download.
    """

    def __init__(self, service: Service) -> None:
        self._service, self.downloads = service, Downloads()
        self._markup_processes, self._document_processes = Processes(_PROCESSES), Processes(_PROCESSES)
        """The pools are separate, so that documents do not delay short texts."""

    def close(self) -> None:
        """End all worker processes."""
        self._markup_processes.close()
        self._document_processes.close()

    async def translate_markup(
        self, call: Call, texts: Sequence[str], roles: ElementRoles | None = None
    ) -> list[Answer]:
        """Translate texts with markup.

        `roles` determines how elements are translated, and whether the texts are XML. By default, the texts are HTML.
        """
        self._service.admission.check_texts(call, texts)
        sources = [(text.encode(), "text.html", roles) for text in texts]
        found = await self._read(self._markup_processes, sources)
        plans = await self._service.plan(call, [_plain(segments) for segments in found])
        with self._service.admission.admit(call.key, texts, routes_of(plans)):
            ranks = await self._translate(_Job(call, self._markup_processes, sources, found, plans))
        return [
            Answer([Translation(content.decode()) for content in contents], plan.source, plan.confidence)
            for contents, plan in zip(zip(*ranks, strict=True), plans, strict=True)
        ]

    async def translate_document(self, call: Call, content: bytes, name: str) -> bytes:
        """Translate a document (see `zoo.documents.document.Document`).

        Raises:
            ServingError: The format is unknown, the document is damaged, a limit is exceeded, or no model is available.
        """
        job, text = await self._read_document(call, content, name)
        with self._service.admission.admit(call.key, [text], routes_of(job.plans)):
            ((translated,),) = await self._translate(job)
        return translated

    async def start_document(self, call: Call, content: bytes, name: str) -> tuple[asyncio.Task[Outcome], int]:
        """Start translating a document. The work continues after the request has been answered.

        The arguments and errors are the same as those of `translate_document`.

        Returns:
            The task that translates the document, and the number of characters in the document.
        """
        job, text = await self._read_document(call, content, name)
        with ExitStack() as stack:  # an error must be the response to this request
            stack.enter_context(self._service.admission.memory.hold(len(content)))
            stack.enter_context(self._service.admission.admit(call.key, [text], routes_of(job.plans)))
            admitted = stack.pop_all()
        task = asyncio.create_task(self._translate_and_store(job, name))
        task.add_done_callback(lambda _: admitted.close())
        self._service.admission.cancel_at_end(task)
        return task, len(text)

    async def _translate_and_store(self, job: _Job, name: str) -> Outcome:
        """Translate a document, and store the translation for download.

        Errors are returned instead of raised, because an exception in a task would keep the document in memory.
        """
        if job.plans[0].route is None:
            return ServingError(503, "Source and target language are the same", "document")
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                ((translated,),) = await self._translate(job)
                return self.downloads.add(translated, name)
        except TimeoutError:
            return ServingError(503, f"the document took more than {DOCUMENT_SECONDS:g} seconds", "document")
        except ServingError as error:
            return ServingError(503, error.message, "document")
        except Exception as error:
            log_error("a document failed with", error)
            return ServingError(503, "internal error; the server's log has the details", "document")

    async def _read_document(self, call: Call, content: bytes, name: str) -> tuple[_Job, str]:
        """Read a document, and plan its translation. Return the job, and the text of the document."""
        if (suffix := PurePath(name).suffix.lower()) not in FORMATS:
            raise ServingError(400, f"the file extension {quote(suffix)} is not supported; use {', '.join(FORMATS)}")
        sources = [(content, name, None)]
        (segments,) = await self._read(self._document_processes, sources)
        text = _plain(segments)
        beginning = text[: min(_DETECTED_CHARACTERS, self._service.settings.limits.text_characters)]
        plans = await self._service.plan(call, [beginning])
        return _Job(call, self._document_processes, sources, [segments], plans), text

    async def transcribe(self, key: str, route: Route, content: bytes) -> Transcript:
        """Transcribe an audio file with a route's model, in the route's target language.

        Raises:
            ServingError: The file cannot be read as audio, or a limit is exceeded.
        """
        async with self._service.pool.lease(route.model) as loaded:
            seconds = max_window_seconds(cast(Recognizer, loaded.translator))
        source, limit = cast(Recognition, route.model.spec.task).source, self._service.settings.limits.audio_seconds
        windows, duration = await self._call(self._document_processes, read_windows, content, source, seconds, limit)
        spoken = " " * math.ceil(duration * _CHARACTERS_PER_SECOND)
        with self._service.admission.admit(key, [spoken], [route]):
            found = await self._service.recognize(route, [window.values for window in windows])
        return Transcript.of(windows, found, duration)

    async def recognize(self, key: str, route: Route, content: bytes) -> Translation:
        """Recognise the text in an image with a route's model. The errors are the same as those of `transcribe`."""
        frames = await self._call(self._document_processes, read_frames, content, route.model.spec.task)
        with self._service.admission.admit(key, [" " * _CHARACTERS_PER_PICTURE], [route]):
            (found,) = await self._service.recognize(route, [frames])
        return found

    async def _read(self, processes: Processes, sources: Sequence[DocumentSource]) -> list[list[SegmentText]]:
        """Read the segments of documents. Raise ServingError if there are too many segments, or if one is too long."""
        found = await self._call(processes, read_texts, sources)
        limit, lengths = self._service.settings.limits.text_characters, [len(text) for text, _ in chain(*found)]
        if (longest := max(lengths, default=0)) > limit:
            raise ServingError(413, f"a paragraph has {longest:,} characters; the limit is {limit:,}", "length")
        if len(lengths) > MAX_LINES:
            message = f"there are {len(lengths):,} paragraphs; the limit is {MAX_LINES:,}; split the document"
            raise ServingError(413, message, "texts")
        return found

    async def _call(self, processes: Processes, function: Callable[..., _T], *arguments: object) -> _T:
        """Call a function in a worker process. Raise ServingError if the call fails or exceeds a limit."""
        seconds = min(_CALL_SECONDS, self._service.settings.limits.request_seconds)
        try:
            with readable_errors():
                return await processes.run(seconds, function, *arguments)
        except TimeoutError:
            raise ServingError(413, f"the file takes over {seconds:g} seconds to process; split it", "time") from None
        except MemoryError:
            raise ServingError(413, "the file takes too much memory to process; split it", "memory") from None
        except OSError as error:
            LOG.error("cannot use a worker process: %s", error)
            raise ServingError(503, "the server is busy; try again later", "process", RETRY_SECONDS) from None

    async def _translate(self, job: _Job) -> list[list[bytes]]:
        """Translate all sources of a job. For each of the `n_best` ranks, return one translation of each source."""
        segments = list(chain(*job.segments))
        texts = [text for text, _ in segments]
        plans = [plan for plan, found in zip(job.plans, job.segments, strict=True) for _ in found]
        answers = await self._service.translate_groups(job.call, texts, plans)
        for name, problem in _PROBLEMS.items():
            if count := sum(bool(getattr(each.translations[0], name)) for each in answers):
                LOG.info("%d of %d translated paragraphs %s", count, len(answers), problem)  # without clients' texts
        language, ranks = standard_code(job.call.target), list[list[bytes]]()
        for rank in range(job.call.n_best or 1):
            targets = [each.translations[min(rank, len(each.translations) - 1)].text.strip() for each in answers]
            alignments: list[list[AlignedToken]] = [[] for _ in segments]
            for route in routes_of(plans):
                indices = [i for i, (_, has_markup) in enumerate(segments) if has_markup and plans[i].route == route]
                pairs = [texts[index] for index in indices], [targets[index] for index in indices]
                found = await self._service.align(route, *pairs)
                for index, tokens in zip(indices, found, strict=True):
                    alignments[index] = tokens
            arguments = job.sources, targets, alignments, language
            ranks.append(await self._call(job.processes, write_documents, *arguments))
        return ranks


def _plain(segments: Sequence[SegmentText]) -> str:
    return "\n".join(text for text, _ in segments) or " "


@dataclass(frozen=True, eq=False)
class Download:
    """Translated document that clients can download: its content, and the file name of the download."""

    content: bytes
    name: str

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """Return a response with the document, and with additional headers."""
        own = {"Content-Length": str(len(self.content)), "Cache-Control": "no-store"}
        return StreamingResponse(self._parts(), 200, {**own, **(headers or {})}, "application/octet-stream")

    async def _parts(self) -> AsyncIterator[bytes]:
        """Yield the content in small parts. Otherwise, each slow client would keep a copy of the content in memory."""
        for start in range(0, len(self.content), _PART_BYTES):
            yield self.content[start : start + _PART_BYTES]


class Downloads:
    """Translated documents in memory. A document is removed after DOWNLOAD_SECONDS."""

    def __init__(self) -> None:
        self._documents: dict[str, Download] = {}
        """Documents that clients can download, keyed by the secret that is needed to download them."""
        self._in_memory: WeakSet[Download] = WeakSet()
        """All documents, including removed documents that are still being downloaded."""

    def add(self, content: bytes, name: str) -> str:
        """Store a document, and return the secret that is needed to download it.

        Args:
            content: The document.
            name: File name of the download.

        Raises:
            ServingError: All documents together would be larger than MAX_STORED_BYTES.
        """
        if sum(len(each.content) for each in self._in_memory) + len(content) > MAX_STORED_BYTES:
            problem = "too many translated documents are waiting to be downloaded; try again later"
            raise ServingError(503, problem, "files", _RETRY_FILES_SECONDS)
        secret = secrets.token_urlsafe(_NAME_BYTES)
        self._documents[secret] = document = Download(content, name)
        self._in_memory.add(document)
        asyncio.get_running_loop().call_later(DOWNLOAD_SECONDS, self._documents.pop, secret, None)
        return secret

    def get(self, secret: str) -> Download:
        """Return the stored document with this secret.

        Raises:
            ServingError: There is no such document, or it has been removed.
        """
        if (found := self._documents.get(secret)) is None:
            raise ServingError(404, "there is no such document; documents are removed after ten minutes")
        return found

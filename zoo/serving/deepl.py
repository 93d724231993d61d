"""DeepL's API (version 2), so that DeepL's clients can use the server."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from specs.notation import quote
from zoo.documents.document import FORMATS
from zoo.documents.html import ElementRoles
from zoo.serving.answer import RETRY_SECONDS, Call, ServingError
from zoo.serving.documents import DOCUMENT_SECONDS, DOWNLOAD_SECONDS, Documents, Outcome
from zoo.serving.languages import AUTO, base_code, language_name, match_code
from zoo.serving.requests import (
    Endpoint,
    Parameters,
    authorized_parameters,
    authorized_upload,
)
from zoo.serving.service import Service

_UNLIMITED = 1_000_000_000_000
"""The limit that DeepL reports for accounts without a limit."""
_TARGET_REGIONS = {"en": ("en-gb", "en-us"), "pt": ("pt-br", "pt-pt")}
"""Target languages that DeepL lists only with a region. Its clients reject the codes without a region."""
_UNSUPPORTED = ("glossary_id", "glossary_ids", "style_id", "custom_instructions", "translation_memory_id")
_CHOICES = {
    "formality": ("default", "more", "less", "prefer_more", "prefer_less"),
    "model_type": ("quality_optimized", "latency_optimized", "prefer_quality_optimized"),
    "split_sentences": ("0", "1", "nonewlines"),
    "tag_handling": ("html", "xml"),
    "tag_handling_version": ("v1", "v2"),
}
"""Values that DeepL permits for some parameters."""


class DeepL(Endpoint):
    """Endpoint of DeepL's API. Clients send the API key in the header or the body."""

    scheme = "deepl-auth-key"

    @classmethod
    def error_content(cls, error: ServingError) -> dict[str, Any]:
        """Return the body of the response for an error."""
        return {"message": error.message}


class _Upload(DeepL):
    """Endpoint of DeepL's API to which clients upload a document. Clients send the API key in the header."""

    requires_header = accepts_file = is_downloaded = True


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with the endpoints of DeepL's API."""
    routes = APIRouter(prefix="/v2", route_class=DeepL, include_in_schema=False)

    @routes.api_route("/translate", methods=["GET", "POST"])
    async def translate(request: Request) -> JSONResponse:
        given, key = await authorized_parameters(service, request)
        texts, call = given.texts("text"), _read_call(service, given, key)
        if markup := given.string("tag_handling"):
            answers = await documents.translate_markup(call, texts, _element_roles(given, is_html=markup == "html"))
        else:
            answers = await service.translate(call, texts)
        shows_characters, model_type = given.flag("show_billed_characters"), given.string("model_type")
        translations = [
            {
                "detected_source_language": base_code(answer.source).upper(),
                "text": answer.translations[0].text,
                **({"billed_characters": len(text)} if shows_characters else {}),
                **({"model_type_used": model_type.removeprefix("prefer_")} if model_type else {}),  # same model
            }
            for answer, text in zip(answers, texts, strict=True)
        ]
        return JSONResponse({"translations": translations})  # FastAPI would first validate a dictionary

    @routes.api_route("/languages", methods=["GET", "POST"])
    async def languages(request: Request) -> list[dict[str, object]]:
        given, _ = await authorized_parameters(service, request)
        directions = service.pool.directions()
        if given.choice("type", ("source", "target"), "source") == "source":
            return [{"language": code.upper(), "name": language_name(code)} for code in directions]
        targets = {code for codes in directions.values() for code in codes}
        targets = {regional for code in targets for regional in _TARGET_REGIONS.get(code, (code.lower(),))}
        return [
            {"language": regional.upper(), "name": language_name(regional), "supports_formality": False}
            for regional in sorted(targets)
        ]

    @routes.api_route("/usage", methods=["GET", "POST"])
    async def usage(request: Request) -> dict[str, int]:
        _, key = await authorized_parameters(service, request)
        used, limit = service.admission.usage(key)
        return {"character_count": used, "character_limit": _UNLIMITED if limit is None else limit}

    @routes.get("/glossaries")
    async def glossaries(request: Request) -> dict[str, list[object]]:
        await authorized_parameters(service, request)
        return {"glossaries": []}

    _add_document_routes(routes, service, documents)
    return routes


def _add_document_routes(routes: APIRouter, service: Service, documents: Documents) -> None:
    """Add the endpoints for documents. A client uploads a document, asks for its status, and downloads the result."""
    started: dict[tuple[str, str, str], tuple[asyncio.Task[Outcome], int]] = {}
    """Task and number of characters, keyed by the document's ID, the document's key and the client's API key."""

    async def upload(request: Request) -> dict[str, str]:
        given, key = await authorized_upload(service, request)
        name = PurePath(given.string("filename", given.name)).name
        call = _read_call(service, given, key)
        wanted, suffix = given.string("output_format").lower(), PurePath(name).suffix.lower()
        if wanted and suffix in FORMATS and f".{wanted}" != suffix:
            raise ServingError(400, f"`output_format` should be `{suffix[1:]}`, the format of the document")
        task, characters = await documents.start_document(call, given.content, name)
        document_id, document_key = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        handle = (document_id, document_key, key)
        started[handle] = task, characters
        asyncio.get_running_loop().call_later(DOCUMENT_SECONDS + DOWNLOAD_SECONDS, started.pop, handle, None)
        return {"document_id": document_id, "document_key": document_key}

    routes.add_api_route("/document", upload, methods=["POST"], route_class_override=_Upload)

    async def find(request: Request, document_id: str) -> tuple[asyncio.Task[Outcome], int]:
        given, key = await authorized_parameters(service, request)
        if (found := started.get((document_id, given.required("document_key"), key))) is None:
            problem = "there is no such document; check its ID, its key and the API key, or upload the document again"
            raise ServingError(404, problem)
        if found[0].cancelled():
            problem = "the server is shutting down; upload the document again later"
            raise ServingError(503, problem, "end", RETRY_SECONDS)
        return found

    @routes.api_route("/document/{document_id}", methods=["GET", "POST"])
    async def status(request: Request, document_id: str) -> dict[str, object]:
        task, characters = await find(request, document_id)
        if not task.done():
            return {"document_id": document_id, "status": "queued"}
        if isinstance(found := task.result(), ServingError):
            return {"document_id": document_id, "status": "error", "error_message": found.message}
        return {"document_id": document_id, "status": "done", "seconds_remaining": 0, "billed_characters": characters}

    @routes.api_route("/document/{document_id}/result", methods=["GET", "POST"])
    async def result(request: Request, document_id: str) -> Response:
        task, _ = await find(request, document_id)
        if not task.done():
            problem = "the document has not been translated yet; wait until its status is `done`"
            raise ServingError(503, problem, "document", RETRY_SECONDS)
        if isinstance(found := task.result(), ServingError):
            raise ServingError(found.status, found.message, found.reason)  # a copy: a raised error refers to its frames
        return documents.downloads.get(found).response()


def _read_call(service: Service, given: Parameters, key: str) -> Call:
    """Return the `Call` for a translation request. If the request has no source language, it is detected later.

    Raises:
        ServingError: No model supports one of the languages, or a parameter or its value is invalid or not supported.
            Like DeepL's messages, the message names the parameter.
    """
    target, source = given.required("target_lang"), given.string("source_lang")
    if not service.pool.sources(target):
        hint = "`GET /v2/languages?type=target` lists the languages"
        raise ServingError(400, f"`target_lang` {quote(target)} is not supported; {hint}")
    known = [*service.pool.directions(), target]
    if source.lower() not in ("", AUTO) and match_code(source, known) is None:
        hint = "`GET /v2/languages` lists the languages"
        raise ServingError(400, f"`source_lang` {quote(source)} is not supported; {hint}")
    for name in _UNSUPPORTED:
        if given.values.get(name):
            raise ServingError(400, f"`{name}` is not supported; omit it")
    for name, choices in _CHOICES.items():
        if given.choice(name, choices) in ("more", "less"):
            remedy = "use `prefer_more` or `prefer_less`, or omit it"
            raise ServingError(400, f"Target language {quote(target)} does not support `{name}`; {remedy}")
    return Call(key, source or None, target)


def _element_roles(given: Parameters, *, is_html: bool) -> ElementRoles:
    """Read the parameters for markup: which elements split sentences, do not split sentences, or are not translated.

    Each of these parameters is a list of element names, or a string of names separated by commas.
    """

    def names(parameter: str) -> frozenset[str]:
        texts = given.texts(parameter) if given.values.get(parameter) else []
        return frozenset(filter(None, (name.strip().lower() for text in texts for name in text.split(","))))

    outline = str(given.values.get("outline_detection", True)).lower() not in ("0", "false")
    return ElementRoles(names("splitting_tags"), names("non_splitting_tags"), names("ignore_tags"), outline, is_html)

"""DeepL's API (version 2), so that DeepL's clients can use the server."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

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
    read_flag,
    read_string,
    read_texts,
    require_string,
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
    """Endpoint of DeepL's API. Clients send the key in the header or the body."""

    scheme = "deepl-auth-key"

    @classmethod
    def error_content(cls, error: ServingError) -> dict[str, Any]:
        """Return the body of the response for an error."""
        return {"message": error.message}


class _Upload(DeepL):
    """Endpoint to which clients upload a document. They send the key in the header."""

    requires_header = accepts_file = is_downloaded = True


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with the endpoints of DeepL's API."""
    routes = APIRouter(prefix="/v2", route_class=DeepL, include_in_schema=False)

    @routes.api_route("/translate", methods=["GET", "POST"])
    async def translate(request: Request) -> JSONResponse:
        given, key = await authorized_parameters(service, request)
        texts = read_texts(given, "text")
        source, target = _read_languages(service, given)
        _check_options(given, target)
        call = Call(key, source, target)
        if markup := read_string(given, "tag_handling"):
            answers = await documents.translate_markup(call, texts, _element_roles(given, is_html=markup == "html"))
        else:
            answers = await service.translate(call, texts)
        translations: list[dict[str, object]] = [
            {"detected_source_language": base_code(answer.source).upper(), "text": answer.translations[0].text}
            for answer in answers
        ]
        if read_flag(given, "show_billed_characters"):
            for translation, text in zip(translations, texts, strict=True):
                translation["billed_characters"] = len(text)
        if model_type := read_string(given, "model_type"):
            for translation in translations:  # the same model serves both types
                translation["model_type_used"] = model_type.removeprefix("prefer_")
        return JSONResponse({"translations": translations})  # a dictionary would be validated first

    @routes.api_route("/languages", methods=["GET", "POST"])
    async def languages(request: Request) -> list[dict[str, object]]:
        given, _ = await authorized_parameters(service, request)
        directions = service.pool.directions()
        if (kind := read_string(given, "type", default="source")) not in ("source", "target"):
            raise ServingError(400, "`type` should be `source` or `target`")
        if kind == "source":
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
        given, key, name, content = await authorized_upload(service, request)
        if not (name := PurePath(read_string(given, "filename", default=name) or "").name):
            raise ServingError(400, "`file` is missing; send the document as `multipart/form-data`")
        source, target = _read_languages(service, given)
        _check_options(given, target)
        if (suffix := PurePath(name).suffix.lower()) not in FORMATS:
            raise ServingError(400, f"the file extension {quote(suffix)} is not supported; use {', '.join(FORMATS)}")
        if (read_string(given, "output_format") or suffix[1:]).lower() != suffix[1:]:
            raise ServingError(400, f"`output_format` should be `{suffix[1:]}`, the format of the document")
        task, characters = await documents.start_document(Call(key, source, target), content, name)
        document_id, document_key = secrets.token_hex(16).upper(), secrets.token_hex(32).upper()
        handle = (document_id, document_key, key)
        started[handle] = task, characters
        asyncio.get_running_loop().call_later(DOCUMENT_SECONDS + DOWNLOAD_SECONDS, started.pop, handle, None)
        return {"document_id": document_id, "document_key": document_key}

    routes.add_api_route("/document", upload, methods=["POST"], route_class_override=_Upload)

    async def find(request: Request, document_id: str) -> tuple[asyncio.Task[Outcome], int]:
        given, key = await authorized_parameters(service, request)
        handle = (document_id, require_string(given, "document_key"), key)
        if handle not in started:
            problem = "there is no such document; check its ID, its key and the API key, or upload the document again"
            raise ServingError(404, problem)
        if started[handle][0].cancelled():
            problem = "the server is shutting down; upload the document again later"
            raise ServingError(503, problem, "end", RETRY_SECONDS)
        return started[handle]

    @routes.api_route("/document/{document_id}", methods=["GET", "POST"])
    async def status(request: Request, document_id: str) -> dict[str, object]:
        task, characters = await find(request, document_id)
        if not task.done():
            return {"document_id": document_id, "status": "queued"}
        if isinstance(found := task.result(), ServingError):
            return {"document_id": document_id, "status": "error", "error_message": found.message}
        done = {"status": "done", "seconds_remaining": 0, "billed_characters": characters}
        return {"document_id": document_id, **done}

    @routes.api_route("/document/{document_id}/result", methods=["GET", "POST"])
    async def result(request: Request, document_id: str) -> Response:
        task, _ = await find(request, document_id)
        if not task.done():
            problem = "the document is not translated yet; wait until its status is `done`"
            raise ServingError(503, problem, "document", RETRY_SECONDS)
        if isinstance(found := task.result(), ServingError):
            raise ServingError(found.status, found.message, found.reason)  # a copy: a raised error refers to its frames
        path, _ = documents.files.get(found)
        return FileResponse(path, media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


def _read_languages(service: Service, given: Parameters) -> tuple[str | None, str]:
    """Return the source language, or None to detect it, and the target language.

    Raises:
        ServingError: No model supports one of the languages. Like DeepL's messages, the message names the parameter.
    """
    target, source = require_string(given, "target_lang"), read_string(given, "source_lang") or None
    if not service.pool.sources(target):
        hint = "`GET /v2/languages?type=target` lists the languages"
        raise ServingError(400, f"`target_lang` {quote(target)} is not supported; {hint}")
    known = [*service.pool.directions(), target]
    if source is not None and source.lower() != AUTO and match_code(source, known) is None:
        hint = "`GET /v2/languages` lists the languages"
        raise ServingError(400, f"`source_lang` {quote(source)} is not supported; {hint}")
    return source, target


def _check_options(given: Parameters, target: str) -> None:
    """Raise ServingError if a parameter has an invalid value, or needs a feature that no model has."""
    for name in _UNSUPPORTED:
        if given.get(name):
            raise ServingError(400, f"`{name}` is not supported; omit it")
    for name, choices in _CHOICES.items():
        if given.get(name) and str(given[name]) not in choices:
            raise ServingError(400, f"`{name}` should be {', '.join(f'`{each}`' for each in choices)}")
    if given.get("formality") in ("more", "less"):
        remedy = "use `prefer_more` or `prefer_less`, or omit it"
        raise ServingError(400, f"Target language {quote(target)} does not support `formality`; {remedy}")


def _element_roles(given: Parameters, *, is_html: bool) -> ElementRoles:
    """Return which XML or HTML elements split sentences, do not split sentences, or are not translated."""
    splitting, non_splitting, copied = (
        _element_names(given, name) for name in ("splitting_tags", "non_splitting_tags", "ignore_tags")
    )
    outline = str(given.get("outline_detection", True)).lower() not in ("0", "false")
    return ElementRoles(splitting, non_splitting, copied, outline, is_html)


def _element_names(given: Parameters, parameter: str) -> frozenset[str]:
    """Return the element names in a parameter: a list of names, or a string of names separated by commas."""
    texts = read_texts(given, parameter) if given.get(parameter) else []
    names = (name.strip().lower() for text in texts for name in text.split(","))
    return frozenset(name for name in names if name)

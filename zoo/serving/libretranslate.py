"""LibreTranslate's API, so that LibreTranslate's clients can use the server."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from zoo.documents.document import FORMATS
from zoo.serving.answer import Answer, Call, Options, ServingError
from zoo.serving.documents import Documents
from zoo.serving.languages import AUTO, detect, language_name
from zoo.serving.requests import (
    Endpoint,
    authorized_parameters,
    authorized_upload,
    read_integer,
    read_string,
    read_texts,
    require_string,
)
from zoo.serving.service import Service


class _Upload(Endpoint):
    """Endpoint to which clients upload a document."""

    accepts_file = is_downloaded = True


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with the endpoints of LibreTranslate's API."""
    routes = APIRouter(route_class=Endpoint, include_in_schema=False)
    limits = service.settings.limits

    @routes.post("/translate")
    async def translate(request: Request) -> JSONResponse:
        given, key = await authorized_parameters(service, request)
        texts = read_texts(given, "q")
        target, source = require_string(given, "target"), read_string(given, "source", default=AUTO)
        if (form := read_string(given, "format", default="text")) not in ("text", "html"):
            raise ServingError(400, "`format` should be `text` or `html`")
        alternatives = read_integer(given, "alternatives", 0)
        if not 0 <= alternatives < limits.beam:
            raise ServingError(400, f"`alternatives` should be from 0 to {limits.beam - 1}")
        call = Call(key, source, target, Options(n_best=alternatives + 1 if alternatives else None))
        translate_texts = documents.translate_markup if form == "html" else service.translate
        answers = await translate_texts(call, texts)
        single = isinstance(given["q"], str)
        response: dict[str, Any] = {"translatedText": _one_or_all([_texts(each)[0] for each in answers], single)}
        if source is None or source.lower() == AUTO:
            found = [_detected(each.source, each.confidence or 0.0) for each in answers]
            response["detectedLanguage"] = _one_or_all(found, single)
        if alternatives:
            response["alternatives"] = _one_or_all([_texts(each)[1:] for each in answers], single)
        return JSONResponse(response)  # a dictionary would be validated first

    async def translate_file(request: Request) -> dict[str, str]:
        given, key, name, content = await authorized_upload(service, request)
        if not name:
            raise ServingError(400, "`file` is missing")
        target, source = require_string(given, "target"), read_string(given, "source", default=AUTO)
        call = Call(key, source, target, model=read_string(given, "model"))
        content = await documents.translate_document(call, content, name)
        secret = documents.files.add(content, f"{PurePath(name).stem}.{target}{PurePath(name).suffix}")
        return {"translatedFileUrl": f"{request.base_url}download_file/{secret}"}

    routes.add_api_route("/translate_file", translate_file, methods=["POST"], route_class_override=_Upload)

    @routes.get("/download_file/{secret}")
    async def download_file(secret: str) -> Response:
        path, name = documents.files.get(secret)
        disposition = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
        headers = {"Content-Disposition": disposition, "Cache-Control": "no-store"}
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    @routes.post("/detect")
    async def detect_language(request: Request) -> list[dict[str, object]]:
        given, _ = await authorized_parameters(service, request)
        text = require_string(given, "q")
        service.admission.check_texts([text])
        found = detect(text)
        probable = [(code, probability) for code, probability in found if probability >= 0.01]
        return [_detected(code, probability) for code, probability in probable or found[:1]]

    @routes.get("/languages")
    async def languages() -> list[dict[str, object]]:
        return [
            {"code": source, "name": language_name(source), "targets": targets}
            for source, targets in service.pool.directions().items()
        ]

    @routes.get("/frontend/settings")
    async def settings() -> dict[str, object]:
        targets = next(iter(service.pool.directions().values()), [])
        target = {"code": targets[0], "name": language_name(targets[0])} if targets else {"code": "", "name": ""}
        return {
            "apiKeys": service.settings.keys.needed,
            "charLimit": limits.text_characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": service.settings.keys.needed,
            "language": {"source": {"code": AUTO, "name": "Auto Detect"}, "target": target},
            "suggestions": False,
            "supportedFilesFormat": list(FORMATS),
        }

    return routes


def _one_or_all(items: list[Any], single: bool) -> Any:
    return items[0] if single else items


def _texts(answer: Answer) -> list[str]:
    """Return the distinct translations, best first."""
    return list(dict.fromkeys(each.text for each in answer.translations))


def _detected(code: str, probability: float) -> dict[str, object]:
    return {"confidence": round(100 * probability, 1), "language": code}

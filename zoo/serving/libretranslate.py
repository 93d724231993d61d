"""LibreTranslate's API, so that LibreTranslate's clients can use the server."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from zoo.documents.document import FORMATS
from zoo.serving.answer import Call
from zoo.serving.documents import Documents
from zoo.serving.languages import AUTO, language_name
from zoo.serving.requests import (
    Endpoint,
    authorized_parameters,
    authorized_upload,
)
from zoo.serving.service import Service
from zoo.text.language_codes import rank_languages


class _Upload(Endpoint):
    """Endpoint of LibreTranslate's API to which clients upload a document."""

    accepts_file = is_downloaded = True


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with the endpoints of LibreTranslate's API."""
    routes = APIRouter(route_class=Endpoint, include_in_schema=False)
    limits = service.settings.limits

    @routes.post("/translate")
    async def translate(request: Request) -> JSONResponse:
        given, key = await authorized_parameters(service, request)
        texts = given.texts("q")
        target, source = given.required("target"), given.string("source", AUTO)
        is_html = given.choice("format", ("text", "html"), "text") == "html"
        alternatives = given.integer("alternatives", 0, limits.beam - 1)
        call = Call(key, source, target, n_best=alternatives + 1 if alternatives else None)
        answers = await (documents.translate_markup if is_html else service.translate)(call, texts)
        results = []
        for answer in answers:
            best, *others = dict.fromkeys(each.text for each in answer.translations)
            result: dict[str, Any] = {"translatedText": best}
            if source.lower() == AUTO:
                result["detectedLanguage"] = _detected(answer.source, answer.confidence or 0.0)
            if alternatives:
                result["alternatives"] = others
            results.append(result)
        if isinstance(given.values["q"], str):
            return JSONResponse(results[0])  # FastAPI would first validate a dictionary
        return JSONResponse({name: [each[name] for each in results] for name in results[0]})

    async def translate_file(request: Request) -> dict[str, str]:
        given, key = await authorized_upload(service, request)
        target, name = given.required("target"), PurePath(given.name)
        call = Call(key, given.string("source", AUTO), target, model=given.string("model") or None)
        content = await documents.translate_document(call, given.content, given.name)
        secret = documents.downloads.add(content, f"{name.stem}.{target}{name.suffix}")
        return {"translatedFileUrl": f"{request.base_url}download_file/{secret}"}

    routes.add_api_route("/translate_file", translate_file, methods=["POST"], route_class_override=_Upload)

    @routes.get("/download_file/{secret}")
    async def download_file(secret: str) -> Response:
        download = documents.downloads.get(secret)
        disposition = f"attachment; filename*=UTF-8''{quote(download.name, safe='')}"
        return download.response({"Content-Disposition": disposition})

    @routes.post("/detect")
    async def detect_language(request: Request) -> list[dict[str, object]]:
        given, key = await authorized_parameters(service, request)
        text = given.required("q")
        service.admission.check_texts(Call(key), [text])
        found = rank_languages(text)
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


def _detected(code: str, probability: float) -> dict[str, object]:
    return {"confidence": round(100 * probability, 1), "language": code}

"""OpenAI's speech API, so that OpenAI's clients can use the server."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from zoo.generation.transcription import FORMATS
from zoo.serving.answer import ServingError
from zoo.serving.documents import Documents
from zoo.serving.languages import language_name
from zoo.serving.native import Native, Upload
from zoo.serving.requests import authorized_upload
from zoo.serving.service import Service

_ANY_MODEL = "whisper-1"
"""Name that clients send if they do not know the models of the server."""
_RESPONSE_FORMATS = ("json", "text", "srt", "vtt", "verbose_json")


class OpenAI(Native):
    """Endpoint of OpenAI's API."""

    @classmethod
    def error_content(cls, error: ServingError) -> dict[str, Any]:
        """Return the body of the response for an error."""
        kind = "invalid_request_error" if error.status < 500 else "server_error"
        return {"error": {"message": error.message, "type": kind, "param": None, "code": error.reason}}


class _Upload(OpenAI, Upload):
    """Endpoint of OpenAI's API to which clients upload a recording."""


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with OpenAI's endpoints for speech."""
    routes = APIRouter(prefix="/v1/audio", route_class=_Upload, include_in_schema=False)

    async def answer(request: Request, task: str) -> Response:
        given, key = await authorized_upload(service, request)
        form = given.choice("response_format", _RESPONSE_FORMATS, "json")
        if given.flag("stream"):
            raise ServingError(400, "`stream` is not supported; omit it")
        name, *languages = (given.string(field) or None for field in ("model", "language", "target"))
        chosen = None if name == _ANY_MODEL else name
        route = service.pool.recognizer("audio", chosen, *languages, translates=task == "translate")
        transcript = await documents.transcribe(key, route, given.content)
        if form == "text":
            return PlainTextResponse(f"{transcript.text}\n")
        if form in ("srt", "vtt"):
            return PlainTextResponse(FORMATS[f".{form}"](transcript))
        if form == "json":
            return JSONResponse({"text": transcript.text})
        segments = [
            {"id": index, "start": each.start, "end": each.end, "text": each.text, "avg_logprob": each.log_probability}
            for index, each in enumerate(transcript.segments)
        ]
        head = {"task": task, "language": language_name(route.target).lower(), "duration": transcript.duration}
        return JSONResponse({**head, "text": transcript.text, "segments": segments})

    @routes.post("/transcriptions")
    async def transcribe(request: Request) -> Response:
        return await answer(request, "transcribe")

    @routes.post("/translations")
    async def translate(request: Request) -> Response:
        return await answer(request, "translate")

    return routes

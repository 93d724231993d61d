"""OpenAI's speech API, so that OpenAI's clients can use the server."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from zoo.generation.transcription import FORMATS, Transcript
from zoo.serving.answer import ServingError
from zoo.serving.documents import Documents
from zoo.serving.languages import language_name
from zoo.serving.native import Native, Upload
from zoo.serving.requests import authorized_upload, read_flag, read_string
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
    """Endpoint to which clients upload a recording."""


def router(service: Service, documents: Documents) -> APIRouter:
    """Return a router with OpenAI's endpoints for speech."""
    routes = APIRouter(prefix="/v1/audio", route_class=_Upload, include_in_schema=False)

    def add_endpoint(path: str, task: str) -> None:
        @routes.post(path)
        async def answer(request: Request) -> Response:
            given, key, _, content = await authorized_upload(service, request)
            name = read_string(given, "model")
            form = read_string(given, "response_format") or "json"
            if form not in _RESPONSE_FORMATS:
                raise ServingError(400, f"`response_format` should be one of {', '.join(_RESPONSE_FORMATS)}")
            if read_flag(given, "stream"):
                raise ServingError(400, "`stream` is not supported; omit it")
            if not content:
                raise ServingError(400, "`file` is missing or empty; send the audio as `multipart/form-data`")
            chosen = None if name in ("", _ANY_MODEL) else name
            languages = [read_string(given, field) or None for field in ("language", "target")]
            route = service.pool.recognizer("audio", chosen, *languages, translates=task == "translate")
            transcript = await documents.transcribe(key, route, content)
            if form == "text":
                return PlainTextResponse(f"{transcript.text}\n")
            if form in ("srt", "vtt"):
                return PlainTextResponse(FORMATS[f".{form}"](transcript))
            if form == "json":
                return JSONResponse({"text": transcript.text})
            return JSONResponse({"task": task, **_verbose(transcript, route.target)})

    add_endpoint("/transcriptions", "transcribe")
    add_endpoint("/translations", "translate")
    return routes


def _verbose(transcript: Transcript, language: str) -> dict[str, Any]:
    segments = [
        {"id": index, "start": each.start, "end": each.end, "text": each.text, "avg_logprob": each.log_probability}
        for index, each in enumerate(transcript.segments)
    ]
    head = {"language": language_name(language).lower(), "duration": transcript.duration}
    return {**head, "text": transcript.text, "segments": segments}

"""Read the API key and the typed parameters of a request, from its headers, JSON, form or query string."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, Headers, UploadFile

from specs.notation import quote
from zoo.files.reading import parse_json
from zoo.serving.answer import LOG, RETRY_SECONDS, ServingError
from zoo.serving.service import Service

MULTIPART = "multipart/form-data"
_FORM = "application/x-www-form-urlencoded"
_KEY_NAMES = ("api_key", "apiKey", "auth_key")
_MAX_FORM_FIELDS = 1_000
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]*)""", re.IGNORECASE)
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1")


class Endpoint(APIRoute):
    """Endpoint with the rules of its API, such as where clients send the API key. Each API has its own subclass.

    The rules are applied before the body of a request is read. By default, the key is not read from the headers.
    Functions that need a key then read it from the request's parameters.
    """

    scheme: ClassVar[str] = ""
    """Scheme of the `Authorization` header that contains the key, in lower case. If empty, the header is not read."""
    requires_header: ClassVar[bool] = False
    """Whether the key must be in the header. Requests without a key are then rejected before the body is read."""
    accepts_file: ClassVar[bool] = False
    """Whether a request's body may contain a file, and be as large as a document."""
    is_downloaded: ClassVar[bool] = False
    """Whether the client downloads the result later. If so, the work is cancelled when the server shuts down."""
    is_monitoring: ClassVar[bool] = False
    """Whether the endpoint answers even if the server is busy. Requests to it are not logged."""

    @classmethod
    def header_key(cls, headers: Headers) -> str | None:
        """Return the API key in the headers of a request, or None."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return key.strip() or None if cls.scheme and scheme.lower() == cls.scheme else None

    @classmethod
    def error_content(cls, error: ServingError) -> dict[str, Any]:
        """Return the body of the response for an error."""
        return {"error": error.message}


@dataclass(frozen=True)
class Parameters:
    """Request parameters. Its methods raise ServingError if a parameter has an invalid value.

    `values` contains the parameters by name. If a parameter occurs several times in a form or query string, its
    value is a list.
    """

    values: Mapping[str, Any]

    @property
    def key(self) -> str | None:
        """The API key, which clients of some APIs send as a parameter."""
        return next((self.string(name) for name in _KEY_NAMES if self.values.get(name) is not None), None)

    def string(self, name: str, default: str = "") -> str:
        """Return a string parameter, or `default` if the parameter is missing."""
        if (value := self.values.get(name)) is None:
            return default
        if not isinstance(value, str):
            raise ServingError(400, f"`{name}` should be a string")
        return value

    def required(self, name: str) -> str:
        """Return a string parameter. Raise ServingError if it is missing or empty."""
        if not (value := self.string(name)):
            raise ServingError(400, f"`{name}` is missing")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a parameter that is a string or a list of strings, as a list."""
        value = self.values.get(name)
        texts = [value] if isinstance(value, str) else value
        if texts is None:
            raise ServingError(400, f"`{name}` is missing")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ServingError(400, f"`{name}` should be a string or a list of strings")
        return texts

    def choice(self, name: str, choices: Sequence[str], default: str = "") -> str:
        """Return a parameter that must be one of `choices`, or `default` if the parameter is missing or empty."""
        value = str(self.values.get(name) or default)
        if value not in ("", *choices):
            *others, last = (f"`{each}`" for each in choices)
            raise ServingError(400, f"`{name}` should be {', '.join(others)} or {last}")
        return value

    def integer(self, name: str, default: int, largest: int) -> int:
        """Return an integer parameter from 0 to `largest`, or `default` if it is missing. Clients may send a string."""
        shown = str(self.values.get(name, default))[:40]
        if not re.fullmatch(r"[0-9]{1,9}", shown) or int(shown) > largest:
            raise ServingError(400, f"`{name}` should be a whole number from 0 to {largest}, not {quote(shown)}")
        return int(shown)

    def flag(self, name: str) -> bool:
        """Return whether a parameter is true. The strings "1" and "true" also count as true."""
        return str(self.values.get(name, "")).lower() in ("1", "true")


@dataclass(frozen=True)
class Upload(Parameters):
    """Parameters in a form, and the name and content of its `file` field.

    If a parameter occurs several times, its last value counts.
    """

    name: str
    content: bytes


async def authorized_parameters(service: Service, request: Request) -> tuple[Parameters, str]:
    """Return the parameters of a request, and the API key's SHA-256.

    The parameters are in the query string and in the body, which is JSON or a form.

    Raises:
        ServingError: The body is not valid, or the key is missing or wrong.
    """
    given = Parameters(_grouped(request.query_params.multi_items()) | await _parse_body(request))
    return given, authorize(service, request, given)


async def authorized_upload(service: Service, request: Request) -> tuple[Upload, str]:
    """Return the parameters and the file of an upload form, and the API key's SHA-256.

    Raises:
        ServingError: The body is not a form, the key is missing or wrong, or the file is missing.
    """
    form = await _read_form(request, max_files=1)
    file = form.get("file")
    name, content = (file.filename or "", await file.read()) if isinstance(file, UploadFile) else ("", b"")
    await form.close()
    given = Upload(dict(_strings(form)), PurePath(name.replace("\\", "/")).name, content)
    key = authorize(service, request, given)
    if not given.name:
        raise ServingError(400, "`file` is missing; send the file as `multipart/form-data`")
    return given, key


def authorize(service: Service, request: Request, given: Parameters | None = None) -> str:
    """Check the API key in the headers or parameters of a request (see `Admission.authorize`). Return its SHA-256."""
    endpoint = cast(Endpoint, request.scope["route"])
    key = endpoint.header_key(request.headers) or (given.key if given else None)
    return service.admission.authorize(key)


def content_type(headers: Headers) -> str:
    """Return the media type of a body, in lower case and without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


async def _parse_body(request: Request) -> dict[str, Any]:
    body, kind = await request.body(), content_type(request.headers)
    if not body:
        return {}
    if kind.endswith("json") or not kind:
        return _parse_object(body)
    if kind == _FORM:
        return _grouped(_parse_form(body))
    return _grouped(_strings(await _read_form(request)))


def _parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raise ServingError if it is invalid, contains NaN or infinity, or is nested too deeply."""
    try:
        value = parse_json(body)
    except (ValueError, RecursionError):
        raise ServingError(400, "the body is not valid JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise ServingError(400, "the body should be a JSON object")
    return value


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)
    except ValueError:
        raise ServingError(400, f"the form has more than {_MAX_FORM_FIELDS:,} fields") from None


def _strings(form: FormData) -> list[tuple[str, str]]:
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


async def _read_form(request: Request, max_files: int = 0) -> FormData:
    if content_type(request.headers) != MULTIPART:
        expected = "a form: send the file as `multipart/form-data`" if max_files else "JSON or a form (Content-Type)"
        raise ServingError(400, f"the body should be {expected}")
    charset = _CHARSET.search(request.headers.get("content-type", ""))
    if charset and charset[1].lower() not in _CHARSETS:  # some of Python's other codecs fail or are slow
        raise ServingError(400, f"the charset of the form is {quote(charset[1][:40])}; use `utf-8`")
    try:
        return await request.form(max_files=max_files, max_fields=_MAX_FORM_FIELDS)
    except OSError as error:  # a large file is written to the disk
        LOG.error("an uploaded document cannot be written: %s", error.strerror)
        raise ServingError(503, "the server cannot store the document", "files", RETRY_SECONDS) from None


def _grouped(items: Iterable[tuple[str, str]]) -> dict[str, Any]:
    grouped: dict[str, list[str]] = {}
    for name, value in items:
        grouped.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}

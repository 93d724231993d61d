"""Endpoints and their conventions, the limits for requests, and parameters in JSON, forms and query strings."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import PurePath
from typing import Any, ClassVar, cast
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specs.notation import quote
from zoo.files.reading import parse_json
from zoo.serving.answer import LOG, RETRY_SECONDS, ServingError, log_error
from zoo.serving.service import Service

_MULTIPART, _FORM = "multipart/form-data", "application/x-www-form-urlencoded"
_CLIENT_CLOSED = 499  # the status that nginx logs for clients that disconnect
_DISCARDED_BODIES = 20  # a rejected body is read up to this multiple of the limit, so the client reads the response
_PORT, _ADDRESS = re.compile(r":\d*$"), re.compile(r"[\d.]+|\[[\da-f:.]+\]")
_MAX_FORM_FIELDS = 1_000
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]*)""", re.IGNORECASE)
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1")
Parameters = dict[str, Any]


class Endpoint(APIRoute):
    """Endpoint with the rules of its API, such as where the API key is sent. Each API has its own subclass.

    The rules are applied before the body of a request is read. By default, the key is not read from the headers;
    functions that need a key read it from the body.
    """

    scheme: ClassVar[str] = ""
    """Scheme of the `Authorization` header that contains the key, in lower case. If empty, the header is not read."""
    requires_header: ClassVar[bool] = False
    """Whether the key must be in the header. Requests without a key are then rejected before the body is read."""
    accepts_file: ClassVar[bool] = False
    """Whether a request's body may contain a file, and be as large as a document."""
    is_downloaded: ClassVar[bool] = False
    """Whether the client downloads the result later. This is not possible after the server stops."""
    is_monitoring: ClassVar[bool] = False
    """Whether the endpoint answers even if the server is busy. Its requests are not logged."""

    @classmethod
    def header_key(cls, headers: Headers) -> str | None:
        """Return the API key in the headers of a request, or None."""
        scheme, _, key = headers.get("authorization", "").partition(" ")
        return key.strip() or None if cls.scheme and scheme.lower() == cls.scheme else None

    @classmethod
    def error_content(cls, error: ServingError) -> dict[str, Any]:
        """Return the body of the response for an error."""
        return {"error": error.message}


class Guard:
    """ASGI middleware that limits requests, and returns every error as JSON.

    It limits the number of requests, the size of their bodies, the time until a body has arrived, and the time until a
    response begins. It cancels the work for clients that disconnect. It also counts the requests. Its log messages
    contain no text from clients.
    """

    def __init__(
        self, app: ASGIApp, service: Service, endpoints: Sequence[Endpoint], apis: Mapping[str, type[Endpoint]]
    ) -> None:
        """Guard an application.

        Args:
            app: The application.
            service: The service of the application.
            endpoints: All endpoints of the application.
            apis: Conventions for unknown paths, keyed by prefix. One prefix is empty.
        """
        self.app, self.service, self._endpoints, self._apis = app, service, endpoints, apis

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Some clients append the path to an address that ends with a slash. The connection omits the body for HEAD.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        scope = {**scope, "path": re.sub("//+", "/", scope["path"]), "method": method}
        path, endpoint = self._find(scope["path"])
        status, started, metrics = 0, time.perf_counter(), self.service.metrics

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            await self._answer(endpoint, scope, receive, send_counted)
        except ServingError as error:
            if error.reason != "invalid":
                metrics.rejected.labels(error.reason).inc()
            if not status:
                headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
                response = JSONResponse(endpoint.error_content(error), error.status, headers)
                await response(scope, receive, send_counted)
        except ClientDisconnect:
            status = _CLIENT_CLOSED
            metrics.disconnected.inc()
            LOG.info("a client disconnected before the response")
        finally:
            seconds = time.perf_counter() - started
            metrics.count_request(path, status, seconds, is_monitoring=endpoint.is_monitoring)

    def _find(self, path: str) -> tuple[str, type[Endpoint]]:
        """Return the declared path of an endpoint, and its conventions.

        If there is no endpoint, return "other", and the conventions of the API with the longest matching prefix.
        """
        for endpoint in self._endpoints:
            if endpoint.path_regex.match(path):
                return endpoint.path, type(endpoint)
        return "other", self._apis[max(filter(path.startswith, self._apis), key=len)]

    async def _answer(self, endpoint: type[Endpoint], scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. Raise ServingError if the request is rejected or the application fails."""
        admission = self.service.admission
        try:
            with nullcontext() if endpoint.is_monitoring else admission.open_request(), admission.hold() as hold:
                body = await self._read_body(endpoint, scope, receive, hold)
                await self._run(endpoint, scope, body, receive, send)
        except (ServingError, ClientDisconnect):
            raise
        except Exception as error:
            log_error("internal error", error)
            raise ServingError(500, "internal error; the server's log has the details") from None

    async def _run(self, endpoint: type[Endpoint], scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application. Cancel it if the client disconnects or time runs out before the response begins.

        For endpoints whose results are downloaded later, also cancel the application when the server shuts down.
        """
        admission, seconds = self.service.admission, self.service.settings.limits.request_seconds
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def begin(message: Message) -> None:
            if not begun.done():
                begun.set_result(None)
            await send(message)

        work = asyncio.ensure_future(self.app(scope, _replay(body, receive), begin))
        gone = asyncio.create_task(_wait_for_disconnect(receive))
        if endpoint.is_downloaded:
            admission.cancel_at_end(work)
        try:
            done, _ = await asyncio.wait({work, begun, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work not in done and begun not in done:
                raise ClientDisconnect if gone in done else admission.timed_out()
            await asyncio.wait({work})
            if work.cancelled():
                raise ServingError(503, "the server is shutting down; try again later", "end", RETRY_SECONDS)
            work.result()
        finally:
            work.cancel()
            gone.cancel()

    def _refusal(self, endpoint: type[Endpoint], headers: Headers) -> ServingError | None:
        """Return the error for a request whose `Host` header or API key is not allowed. Otherwise, return None.

        The `Host` header is checked to prevent DNS rebinding, in which a web page points its own host name to this
        server.
        """
        hosts, name = self.service.settings.hosts, _PORT.sub("", headers.get("host", "")).lower()
        if hosts and name not in hosts and not _ADDRESS.fullmatch(name):
            return ServingError(421, f"the host name {quote(name)} is not allowed (`zoo serve --allow-host`)", "host")
        try:
            if (key := endpoint.header_key(headers)) is not None or endpoint.requires_header:
                self.service.admission.authorize(key)
        except ServingError as error:
            return error
        return None

    async def _read_body(
        self, endpoint: type[Endpoint], scope: Scope, receive: Receive, hold: Callable[[int], None]
    ) -> bytes:
        """Return the body of a request. If the request is rejected, read and discard the body, then raise the error.

        Args:
            endpoint: Conventions of the endpoint.
            scope: The ASGI scope of the request.
            receive: The ASGI function that returns the next part of the body.
            hold: Function that is called with the size of each part that is kept in memory.
        """
        limits, chunks, size = self.service.settings.limits, [], 0
        headers = Headers(scope=scope)
        refusal = self._refusal(endpoint, headers)
        is_upload = endpoint.accepts_file and _content_type(headers) == _MULTIPART
        max_bytes = limits.document_bytes if is_upload else limits.body_bytes
        too_large = refusal or ServingError(413, f"the body is larger than {max_bytes:,} bytes", "body")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > _DISCARDED_BODIES * max_bytes):
            raise too_large
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for chunk in Request(scope, receive).stream():
                    size += len(chunk)
                    if size <= max_bytes and refusal is None:
                        hold(len(chunk))
                        chunks.append(chunk)
                    else:
                        chunks.clear()
                        if size > _DISCARDED_BODIES * max_bytes:
                            raise too_large
        except TimeoutError:
            raise ServingError(408, f"the body did not arrive within {limits.body_seconds:g} seconds", "slow") from None
        if size > max_bytes or refusal is not None:
            raise too_large
        return b"".join(chunks)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a replacement for `receive` that first returns a body that was already read, and then calls `receive`."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


async def authorized_parameters(service: Service, request: Request) -> tuple[Parameters, str]:
    """Return the parameters of a request, and the SHA-256 of its API key.

    Raises:
        ServingError: The body is not valid, or the key is missing or wrong.
    """
    given = await _read_parameters(request)
    return given, authorize(service, request, given)


async def _read_parameters(request: Request) -> Parameters:
    """Return the parameters of a request from its query string and its body, which is JSON or a form.

    The value of a parameter that occurs several times in a form or query string is a list.

    Raises:
        ServingError: The body is not valid.
    """
    found = _grouped(request.query_params.multi_items())
    body, kind = await request.body(), _content_type(request.headers)
    if not body:
        return found
    if kind.endswith("json") or not kind:
        return found | _parse_object(body)
    if kind == _FORM:
        return found | _grouped(_parse_form(body))
    form = await _read_form(request)
    return found | _grouped((name, value) for name, value in form.multi_items() if isinstance(value, str))


def authorize(service: Service, request: Request, given: Parameters) -> str:
    """Return the SHA-256 of the API key in the headers or parameters of a request, or raise ServingError."""
    endpoint = cast(Endpoint, request.scope["route"])
    key = endpoint.header_key(request.headers) or read_string(given, "api_key", "apiKey", "auth_key")
    return service.admission.authorize(key)


def _content_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=_MAX_FORM_FIELDS)
    except ValueError:
        raise ServingError(400, f"the form has more than {_MAX_FORM_FIELDS:,} fields") from None


async def _read_form(request: Request, max_files: int = 0) -> FormData:
    if _content_type(request.headers) != _MULTIPART:
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


async def authorized_upload(service: Service, request: Request) -> tuple[Parameters, str, str, bytes]:
    """Return the text fields of an upload form, the SHA-256 of the API key, and the name and content of the file.

    The file is the form's `file` field. Its name is empty if no file was uploaded.

    Raises:
        ServingError: The body is not a form, or the key is missing or wrong.
    """
    form = await _read_form(request, max_files=1)
    given: Parameters = {name: value for name, value in form.items() if isinstance(value, str)}
    file = form.get("file")
    name, content = (file.filename or "", await file.read()) if isinstance(file, UploadFile) else ("", b"")
    await form.close()
    return given, authorize(service, request, given), PurePath(name.replace("\\", "/")).name, content


def _grouped(items: Iterable[tuple[str, str]]) -> Parameters:
    grouped: dict[str, list[str]] = {}
    for name, value in items:
        grouped.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in grouped.items()}


def _parse_object(body: bytes) -> Parameters:
    """Parse a JSON object. Raise ServingError if it is invalid, contains NaN or infinity, or is nested too deeply."""
    try:
        value = parse_json(body)
    except (ValueError, RecursionError):
        raise ServingError(400, "the body is not valid JSON in UTF-8") from None
    if not isinstance(value, dict):
        raise ServingError(400, "the body should be a JSON object")
    return value


def read_string(given: Parameters, *names: str, default: str | None = None) -> str | None:
    """Return the value of the first parameter in `names` that the request contains. Otherwise, return `default`.

    Raises:
        ServingError: The value is not a string.
    """
    for name in names:
        if (value := given.get(name)) is not None:
            if not isinstance(value, str):
                raise ServingError(400, f"`{name}` should be a string")
            return value
    return default


def require_string(given: Parameters, name: str) -> str:
    """Return a parameter that must be a string. Raise ServingError if it is missing, empty or not a string."""
    value = read_string(given, name)
    if not value:
        raise ServingError(400, f"`{name}` is missing")
    return value


def read_texts(given: Parameters, name: str) -> list[str]:
    """Return a parameter that is one string or a list of strings. Raise ServingError if it is neither."""
    value = given.get(name)
    texts = [value] if isinstance(value, str) else value
    if texts is None:
        raise ServingError(400, f"`{name}` is missing")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ServingError(400, f"`{name}` should be a string or a list of strings")
    return texts


def read_integer(given: Parameters, name: str, default: int) -> int:
    """Return an integer parameter. Clients may also send it as a string. Raise ServingError if it is not an integer."""
    value = given.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if type(value) is not int:
        raise ServingError(400, f"`{name}` should be a whole number, not {quote(str(value)[:40])}")
    return value


def read_flag(given: Parameters, name: str) -> bool:
    """Return whether a parameter is true. Clients may also send "1" or "true"."""
    return str(given.get(name, "")).lower() in ("1", "true")

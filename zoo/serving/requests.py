"""Limit requests to all endpoints, and read their parameters from JSON, forms and query strings."""

from __future__ import annotations

import asyncio
import re
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qsl

from fastapi import Request
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specs.notation import quote
from zoo.files.reading import parse_json
from zoo.serving.answer import AUDIO_PATH, LOG, RETRY_SECONDS, ClientGone, ServingError, error_response
from zoo.serving.service import Service

MONITORING = ("/health", "/health/ready", "/metrics")
"""Endpoints that answer even if the server is busy."""
OPEN = (*MONITORING, "/v1/models")
"""Endpoints that need no key."""
_DOWNLOADED = ("/translate_file", "/v2/document")
"""Endpoints whose clients download the translation later."""
DOCUMENTS = (
    *_DOWNLOADED,
    "/v1/recognize",
    f"{AUDIO_PATH}transcriptions",
    f"{AUDIO_PATH}translations",
)
"""Endpoints whose request bodies may be as large as a document."""
_MULTIPART, _FORM = "multipart/form-data", "application/x-www-form-urlencoded"
_SCHEMES = {"/v1/": "bearer ", "/v2/": "deepl-auth-key "}
"""Scheme of the `Authorization` header for each path prefix."""
_CLIENT_CLOSED = 499  # the status that nginx logs for clients that disconnect
_DISCARDED_BODIES = 20  # a rejected body is read up to this multiple of the limit, so the client reads the response
_PORT, _ADDRESS = re.compile(r":\d*$"), re.compile(r"[\d.]+|\[[\da-f:.]+\]")
_MAX_FORM_FIELDS = 1_000
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]*)""", re.IGNORECASE)
_CHARSETS = ("utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1")
Parameters = dict[str, Any]


class Guard:
    """ASGI middleware that limits requests, and returns every error as JSON.

    It limits the number of requests, the size of their bodies, the time until a body has arrived, and the time until a
    response begins. It cancels the work for clients that disconnect. It also counts the requests. Its log messages
    contain no text from clients.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        # Some clients append the path to an address that ends with a slash. The connection omits the body for HEAD.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        scope = {**scope, "path": re.sub("//+", "/", scope["path"]), "method": method}
        status, started, metrics = 0, time.perf_counter(), self.service.metrics

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        counted = scope["path"] not in MONITORING
        self.service.admission.open_requests += counted
        try:
            await self._answer(scope, receive, send_counted)
        except ServingError as error:
            if error.reason != "invalid":
                metrics.rejected.labels(error.reason).inc()
            if not status:
                await error_response(scope["path"], error)(scope, receive, send_counted)
        except ClientGone:
            status = _CLIENT_CLOSED
            metrics.disconnected.inc()
            LOG.info("a client disconnected before the response")
        finally:
            self.service.admission.open_requests -= counted
            route = getattr(scope.get("route"), "path", "other")
            metrics.requests.labels(route, str(status)).inc()
            if route not in MONITORING:
                metrics.statuses[status] += 1
            metrics.seconds.labels(route).observe(time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application. Raise ServingError if the request is rejected or the application fails."""
        try:
            busy = self.service.admission.open_requests > self.service.settings.limits.requests
            if busy and scope["path"] not in MONITORING:
                raise ServingError(503, "the server is busy; try again later", "requests", RETRY_SECONDS)
            with self.service.admission.hold() as hold:
                body = await self._read_body(scope, receive, hold, self._refusal(scope))
                await self._run(scope, body, receive, send)
        except (ServingError, ClientGone):
            raise
        except Exception as error:  # its message may contain the client's text, so only its type is logged
            frames = "".join(traceback.format_tb(error.__traceback__))
            LOG.error("internal error %s\n%s", type(error).__name__, frames)
            raise ServingError(500, "internal error; the server's log has the details") from None

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application. Cancel it if the client disconnects or time runs out before the response begins.

        For endpoints whose results are downloaded later, also cancel the application when the server shuts down. No
        download is possible afterwards.
        """
        admission = self.service.admission
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def begin(message: Message) -> None:
            if not begun.done():
                begun.set_result(None)
            await send(message)

        work = asyncio.ensure_future(self.app(scope, _replay(body, receive), begin))
        reasons: dict[asyncio.Future[Any], Exception] = {
            asyncio.create_task(_wait_for_disconnect(receive)): ClientGone()
        }
        if scope["path"] in _DOWNLOADED:  # no download is possible after the server stops
            error = ServingError(503, "the server is shutting down; try again later", "end", RETRY_SECONDS)
            reasons[asyncio.create_task(admission.ending.wait())] = error
        try:
            seconds = self.service.settings.limits.request_seconds
            done, _ = await asyncio.wait({work, begun, *reasons}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work not in done and begun not in done:
                raise next((reasons[each] for each in done), admission.timed_out())
            await work
        finally:
            for each in (work, *reasons):
                each.cancel()

    def _refusal(self, scope: Scope) -> ServingError | None:
        """Return the error for a request whose `Host` header or API key is not allowed. Otherwise, return None.

        The `Host` header is checked to prevent DNS rebinding, in which a web page points its own host name to this
        server.
        """
        hosts, name = self.service.settings.hosts, _PORT.sub("", Headers(scope=scope).get("host", "")).lower()
        if hosts and name not in hosts and not _ADDRESS.fullmatch(name):
            return ServingError(421, f"the host name {quote(name)} is not allowed (`zoo serve --allow-host`)", "host")
        path, key = scope["path"], header_key(scope)
        can_be_in_body = not path.startswith("/v1/") and path != "/v2/document"
        try:
            if path not in OPEN and (key is not None or not can_be_in_body):
                self.service.admission.authorize(key)
        except ServingError as error:
            return error
        return None

    async def _read_body(
        self, scope: Scope, receive: Receive, hold: Callable[[int], None], refusal: ServingError | None
    ) -> bytes:
        """Return the body of a request. If the request is rejected, read and discard the body, then raise the error.

        Args:
            scope: The ASGI scope of the request.
            receive: The ASGI function that returns the next part of the body.
            hold: Function that is called with the size of each part that is kept in memory.
            refusal: The error, if the request has already been rejected because of its headers.
        """
        limits, chunks, size = self.service.settings.limits, [], 0
        headers = Headers(scope=scope)
        is_upload = scope["path"] in DOCUMENTS and _content_type(headers) == _MULTIPART
        max_bytes = limits.document_bytes if is_upload else limits.body_bytes
        too_large = refusal or ServingError(413, f"the body is larger than {max_bytes:,} bytes", "body")
        announced = headers.get("content-length", "")
        if announced.isdecimal() and (len(announced) > 15 or int(announced) > _DISCARDED_BODIES * max_bytes):
            raise too_large
        try:
            async with asyncio.timeout(limits.body_seconds):
                more = True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    chunk, more = message.get("body", b""), message.get("more_body", False)
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
    key = header_key(request.scope) or read_string(given, "api_key", "apiKey", "auth_key")
    return service.admission.authorize(key)


def header_key(scope: Scope) -> str | None:
    """Return the API key in the headers of a request, or None."""
    given = Headers(scope=scope).get("authorization", "")
    scheme = next((scheme for path, scheme in _SCHEMES.items() if scope["path"].startswith(path)), None)
    return given[len(scheme) :].strip() if scheme and given.lower().startswith(scheme) else None


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

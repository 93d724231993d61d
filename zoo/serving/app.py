"""The web application with its APIs and web page, the connections to clients, and the server itself."""

from __future__ import annotations

import asyncio
import json
import math
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import h11
import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from compiler.artefact import PROCESS_ENDS
from specs import ZooError
from zoo.serving import deepl, libretranslate, native, openai
from zoo.serving.answer import LOG, ServingError
from zoo.serving.documents import Documents
from zoo.serving.guard import Guard
from zoo.serving.languages import load_language_data
from zoo.serving.requests import Endpoint
from zoo.serving.service import Service
from zoo.version import __version__
from zoo.visualization.page import SHEET, colour_sheet, theme_sheet

_BACKLOG = 1_000
_ACCEPTED_AT_ONCE = 8
"""Maximum number of new connections between two checks of the number of connections.

If no file descriptors are left, asyncio logs one traceback for each new connection.
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_SECONDS = 5.0
_SWEEP_SECONDS = 1.0
_LOG_SECONDS = 60.0
_MAX_HEAD_BYTES = 300_000  # some clients send the text in the query string
KEEP_ALIVE_SECONDS = 15.0
"""Maximum time until the headers of a request arrive, counted from the connection or the previous response."""
STALLED_SECONDS = 20.0
"""Maximum time until a client accepts the next part of a response."""
SEND_BUFFER_BYTES = 128 * 1024
"""Size of the system's buffer for a response. With a larger buffer, a slow client would seem to have stalled."""
_STALLED_SECONDS_AT_END, _BODY_SECONDS_AT_END = 3.0, 5.0
_MAX_CONNECTIONS, _MAX_DESCRIPTORS = 2_000, 65_536
_NO_OBJECT = "the body is not a JSON object in UTF-8, sent with `Content-Type: application/json`"
_INVALID = "the request is not valid HTTP, or its headers are too long"
_INVALID_CONTENT = json.dumps({"error": _INVALID, "message": _INVALID})  # DeepL's clients read `message`
_INVALID_RESPONSE = (
    "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    f"Content-Length: {len(_INVALID_CONTENT)}\r\n\r\n{_INVALID_CONTENT}"
).encode()
_MESSAGES = {404: "the server has no such endpoint", 405: "the endpoint does not support the method of the request"}
_OTHER_DESCRIPTORS = 200  # for models, documents and worker processes
_FOLDER = Path(__file__).parent / "page"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def create_app(service: Service) -> FastAPI:
    """Create the FastAPI application with all APIs. `/openapi.json` describes zoo's own API."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.pool.close()
        documents.close()

    documents = Documents(service)
    app = FastAPI(title="zoo", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    for kind in (RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _raise_serving_error)
    routers = [module.router(service, documents) for module in (native, libretranslate, deepl, openai)]
    routers += [native.monitoring(service), _page_router()]
    for router in routers:
        app.include_router(router)
    endpoints = [endpoint for router in routers for endpoint in router.routes]
    apis = {"": Endpoint, "/v1/": native.Native, "/v1/audio/": openai.OpenAI, "/v2/": deepl.DeepL, "/v3/": deepl.DeepL}
    app.add_middleware(Guard, service=service, endpoints=endpoints, apis=apis)
    if origins := service.settings.cors:
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    return app


def _page_router() -> APIRouter:
    """Return a router that serves the web page. The page uses the APIs, and loads nothing from other hosts."""
    routes = APIRouter(route_class=Endpoint, include_in_schema=False)
    kinds = {"index.html": "text/html", "page.css": "text/css", "page.js": "text/javascript"}
    files = {name: (_FOLDER / name).read_text("utf-8") for name in kinds}
    files["page.css"] = colour_sheet() + theme_sheet() + SHEET + files["page.css"]

    async def respond(name: str) -> Response:
        return Response(files[name], media_type=kinds[name], headers=_HEADERS)

    for name in kinds:
        routes.add_api_route("/" + name.removeprefix("index.html"), partial(respond, name), response_model=None)
    return routes


async def _raise_serving_error(request: Request, error: Exception) -> Response:
    """Convert a web framework error to a ServingError. Raise it so that the `Guard` middleware sends the response."""
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        if first["type"] == "json_invalid" or (first["loc"] == ("body",) and first["type"] != "value_error"):
            raise ServingError(400, _NO_OBJECT)
        place = ".".join(str(part) for part in first["loc"] if part not in ("body", "str"))
        problem = str(first["msg"]).removeprefix("Value error, ")
        raise ServingError(400, f"`{place}`: {problem}" if place else problem)
    assert isinstance(error, HTTPException)
    # The error has a cause if FastAPI could not decode the body. Its own message does not say what to do.
    undecoded = error.__cause__ and error.status_code == 400 and "json" in request.headers.get("content-type", "")
    raise ServingError(error.status_code, _NO_OBJECT if undecoded else _MESSAGES.get(error.status_code, error.detail))


def max_connections() -> int:
    """Raise the limit on file descriptors as far as permitted, and return the maximum number of connections."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_MAX_DESCRIPTORS if each == resource.RLIM_INFINITY else each for each in limits)
    descriptors = max(soft, min(hard, _MAX_DESCRIPTORS))
    if soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, limits[1]))
    return min(_MAX_CONNECTIONS, max(descriptors - _OTHER_DESCRIPTORS, descriptors // 3))


class Connection(H11Protocol):
    """Connection that can detect whether its client has stalled."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection. If there are too many connections, close the one that has been idle the longest."""
        self._idle_since = self._accepted = time.monotonic()
        self._unsent_bytes = 0
        # All chunks that are read at once are parsed before the event loop continues with other clients.
        transport.max_size = 16_384  # type: ignore[attr-defined]
        super().connection_made(transport)
        limit = self.config.limit_concurrency
        if limit is not None and len(self.connections) >= limit:
            idle = [each for each in cast(set[Connection], self.connections) if each.is_idle]
            oldest = min(idle, key=lambda each: each._idle_since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether the connection has no request, or has not yet received all headers of a request."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Mark the connection as idle. If the next request has already arrived, answer it."""
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Resume sending a response after the client has accepted a part of it."""
        self._accepted = time.monotonic()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not valid HTTP. If a response has already begun, only close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_INVALID_RESPONSE)  # h11 would raise an error if the method is HEAD
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def close_if_stalled(self, ending_seconds: float) -> None:
        """Close the connection if the client neither sends nor accepts anything. Call this about every second.

        Args:
            ending_seconds: Seconds since the server stopped accepting requests. If positive, shorter limits apply.
        """
        now, unsent = time.monotonic(), self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent_bytes:
            self._accepted = now
        self._unsent_bytes = unsent
        if unsent:
            stalled = now - self._accepted > (_STALLED_SECONDS_AT_END if ending_seconds > 0 else STALLED_SECONDS)
        elif self.is_idle:
            stalled = now - self._idle_since > KEEP_ALIVE_SECONDS
        else:
            stalled = self.cycle.more_body and ending_seconds > _BODY_SECONDS_AT_END
        if stalled:
            self.transport.abort()


class Server(uvicorn.Server):
    """Server that ends with exit status 0 after SIGTERM, SIGHUP or Ctrl-C, when all accepted requests are answered."""

    def __init__(self, service: Service, preloaded: Sequence[str] = ()) -> None:
        """Create a server.

        Args:
            service: The service.
            preloaded: Names of the models to load at startup.
        """
        config = uvicorn.Config(
            create_app(service),
            log_config=None,
            access_log=False,  # the paths of requests can contain texts and keys
            server_header=False,
            backlog=_ACCEPTED_AT_ONCE,
            limit_concurrency=max_connections(),
            timeout_keep_alive=int(KEEP_ALIVE_SECONDS),
            timeout_graceful_shutdown=int(service.settings.limits.request_seconds + _GRACE_SECONDS),
            http=Connection,
            ws="none",
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            lifespan="on",
        )
        super().__init__(config)
        self._service, self._preloaded = service, preloaded
        self._ending_since = math.inf
        self.failure = ""
        """Reason why the server could not start, or an empty string."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting connections. Restore the listen backlog of the sockets, which uvicorn has reduced."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer the accepted requests, then shut down."""
        self._service.admission.end()
        self._ending_since = time.monotonic()
        await super().shutdown(sockets)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer requests until the server is stopped."""
        work = self._preload(), self._maintain(), self._log_every_minute(), self._service.pool.maintain()
        tasks = [asyncio.create_task(each) for each in work]
        await super().serve(sockets)
        for task in tasks:
            task.cancel()

    async def _preload(self) -> None:
        """Load the models to preload. If a model cannot be loaded, stop the server."""
        try:
            with self._service.admission.starting():
                await self._service.pool.preload(self._preloaded)
        except ServingError as error:
            self.failure, self.should_exit = error.message, True

    async def _maintain(self) -> None:
        """Close stalled connections, and reload the API keys when their file changes."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            for connection in list(self.server_state.connections):
                cast(Connection, connection).close_if_stalled(time.monotonic() - self._ending_since)
            self._service.settings.keys.refresh()

    async def _log_every_minute(self) -> None:
        while True:
            await asyncio.sleep(_LOG_SECONDS)
            self._service.metrics.log_statuses()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle SIGINT, SIGTERM and SIGHUP in the `with` block. Signals that are already ignored stay ignored."""
        handled = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        previous = {each: signal.signal(each, self.handle_exit) for each in handled}
        try:
            yield
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address. Port 0 selects a free port.

    Raises:
        ZooError: The address is not available.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)  # all connections inherit this size
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # clients can connect as soon as the address is printed
    except OSError as error:
        listener.close()
        problem = f"cannot listen on `{host}` port {port}: {error.strerror or error}"
        hint = "choose another port with `--port`, or another address of this machine with `--host`"
        raise ZooError(problem, hint=hint, exit_code=1) from None
    return listener


def run_server(service: Service, listener: socket.socket, preloaded: Sequence[str] = ()) -> None:
    """Answer requests until SIGTERM, SIGHUP or Ctrl-C, then finish the requests that were already accepted.

    Args:
        service: The service.
        listener: Socket that listens for clients.
        preloaded: Names of the models to load at startup.

    Raises:
        ZooError: A preloaded model or the language detector cannot be loaded.
    """
    load_language_data()  # otherwise, the first requests would delay all others
    server = Server(service, preloaded)

    async def serve() -> None:
        await server.serve(sockets=[listener])
        PROCESS_ENDS.set()  # asyncio.run waits for threads that load models

    with listener:
        asyncio.run(serve())
    service.metrics.log_statuses()
    LOG.info("stopped")
    if server.failure:
        raise ZooError(server.failure, hint="see the log for the reason", exit_code=1)

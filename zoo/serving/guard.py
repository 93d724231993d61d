"""Middleware that limits requests, checks API keys before bodies are read, and returns every error as JSON."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from specs.notation import quote
from zoo.serving.answer import LOG, RETRY_SECONDS, ServingError, log_error
from zoo.serving.requests import MULTIPART, Endpoint, content_type
from zoo.serving.service import Service

_CLIENT_CLOSED = 499  # the status that nginx logs for clients that disconnect
_DISCARDED_BODIES = 20  # a rejected body is read up to this multiple of the limit, so the client reads the response
_PORT, _ADDRESS = re.compile(r":\d*$"), re.compile(r"[\d.]+|\[[\da-f:.]+\]")


class Guard:
    """ASGI middleware that limits requests, and returns every error as JSON.

    It limits the number of requests, the size of their bodies, the time until a body has arrived, and the time until a
    response begins. It cancels the work for clients that disconnect. It also counts the requests. Its log messages
    contain no text from clients.
    """

    def __init__(
        self, app: ASGIApp, service: Service, endpoints: Sequence[Endpoint], apis: Mapping[str, type[Endpoint]]
    ) -> None:
        """Wrap an application in this middleware.

        Args:
            app: The application.
            service: The service of the application.
            endpoints: All endpoints of the application.
            apis: Endpoint classes for unknown paths, keyed by path prefix. The empty prefix must be a key.
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
        metrics, admission = self.service.metrics, self.service.admission
        status, started = 0, time.perf_counter()

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        async def refuse(error: ServingError) -> None:
            if error.reason != "invalid":
                metrics.rejected.labels(error.reason).inc()
            if not status:
                headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
                response = JSONResponse(endpoint.error_content(error), error.status, headers)
                await response(scope, receive, send_counted)

        try:
            with admission.requests.hold(int(not endpoint.is_monitoring)), admission.memory.hold() as hold:
                body = await self._read_body(endpoint, scope, receive, hold)
                await self._run(endpoint, scope, body, receive, send_counted)
        except ServingError as error:
            await refuse(error)
        except ClientDisconnect:
            status = _CLIENT_CLOSED
            metrics.disconnected.inc()
            LOG.info("a client disconnected before the response")
        except Exception as error:
            log_error("internal error", error)
            await refuse(ServingError(500, "internal error; the server's log has the details"))
        finally:
            seconds = time.perf_counter() - started
            metrics.count_request(path, status, seconds, is_monitoring=endpoint.is_monitoring)

    def _find(self, path: str) -> tuple[str, type[Endpoint]]:
        """Find the endpoint for the path of a request. Return the declared path and the class of the endpoint.

        If there is no such endpoint, return "other", and the endpoint class for the longest matching path prefix.
        """
        for endpoint in self._endpoints:
            if endpoint.path_regex.match(path):
                return endpoint.path, type(endpoint)
        return "other", self._apis[max(filter(path.startswith, self._apis), key=len)]

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
            message = f"the host name {quote(name)} is not allowed; `zoo serve --allow-host` permits it"
            return ServingError(421, message, "host")
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
            endpoint: Class of the endpoint that the request is for.
            scope: The ASGI scope of the request.
            receive: The ASGI function that returns the next part of the body.
            hold: Function that is called with the size of each part that is kept in memory.
        """
        limits, chunks, size = self.service.settings.limits, [], 0
        headers = Headers(scope=scope)
        refusal = self._refusal(endpoint, headers)
        is_upload = endpoint.accepts_file and content_type(headers) == MULTIPART
        max_bytes = limits.document_bytes if is_upload else limits.body_bytes
        too_large = refusal or ServingError(413, f"the body is larger than {max_bytes:,} bytes", "body")
        if int(headers.get("content-length", 0)) > _DISCARDED_BODIES * max_bytes:  # h11 accepts only 20 digits
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

"""Connections of clients. A connection whose client neither sends nor accepts anything is closed."""

from __future__ import annotations

import asyncio
import resource
import time
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

KEEP_ALIVE_SECONDS = 15.0
"""Maximum time for the head of a request to arrive, from the connection or the last response on."""
STALLED_SECONDS = 20.0
"""Maximum time in which a client accepts nothing of a response."""
SEND_BUFFER_BYTES = 128 * 1024
"""Size of the system's buffer for a response. With a larger one, a slow client would seem to accept nothing."""
_STALLED_SECONDS_AT_END, _BODY_SECONDS_AT_END = 3.0, 5.0
_MAX_CONNECTIONS, _MAX_DESCRIPTORS = 2_000, 65_536
_OTHER_DESCRIPTORS = 200  # for models, documents and worker processes


def max_connections() -> int:
    """Raise the limit of file descriptors as far as permitted, and return how many of them connections may use."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (_MAX_DESCRIPTORS if each == resource.RLIM_INFINITY else each for each in limits)
    descriptors = max(soft, min(hard, _MAX_DESCRIPTORS))
    if soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, limits[1]))
    return min(_MAX_CONNECTIONS, max(descriptors - _OTHER_DESCRIPTORS, descriptors // 2))


class Connection(H11Protocol):
    """Connection that can tell whether its client is stalled.

    If there are too many connections, the one closes that has been without a request for the longest time.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection."""
        self._idle_since = self._accepted = time.monotonic()
        self._unsent_bytes = 0
        super().connection_made(transport)
        limit = self.config.limit_concurrency
        if limit is not None and len(self.connections) >= limit:
            idle = [each for each in cast(set[Connection], self.connections) if each.is_idle]
            oldest = min(idle, key=lambda each: each._idle_since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether the connection has no request, or only a part of the head of one."""
        return self.cycle is None or self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Continue to send a response, because the client has accepted a part of it."""
        self._accepted = time.monotonic()
        super().resume_writing()

    def close_if_stalled(self, ending_seconds: float) -> None:
        """Close the connection if the client neither sends nor accepts anything. Call this about every second.

        Args:
            ending_seconds: Time since the server accepts no more requests. If positive, the limits are shorter.
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

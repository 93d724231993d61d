"""Admission of requests: API keys, quotas, metrics, and limits for texts, the queue and the time per request."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from zoo.serving.answer import LOG, RETRY_SECONDS, Options, ServingError
from zoo.serving.pool import Route
from zoo.serving.settings import Settings, hash_key

LINE_BREAKS = re.compile(r"((?<!\s)\s*[\r\n]\s*)")
"""Line breaks with the white space around them. The lookbehind makes the search linear: a match can begin only at the
start of white space."""
MAX_LINES = 20_000
"""Maximum total number of lines in the texts of a request. Each line takes up some event-loop time."""
_LONGEST_LIGATURE = 17  # a tokenizer reads U+FDFA as 18 characters, and every other character as at most 4
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


class Metrics:
    """Metrics of one server."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._statuses: Counter[int] = Counter()
        """Number of requests per HTTP status since the last `log_statuses`, excluding monitoring requests."""
        self._requests = Total("zoo_requests", "Requests by path and status.", ["path", "status"], registry=own)
        self._seconds = Histogram("zoo_request_seconds", "Time to answer.", ["path"], buckets=_SECONDS, registry=own)
        self.rejected = Total("zoo_rejected", "Rejected requests by reason.", ["reason"], registry=own)
        self.texts = Total("zoo_texts", "Translated texts by model.", ["model"], registry=own)
        self.sentences = Total("zoo_sentences", "Lines given to a model.", ["model"], registry=own)
        self.tokens = Total("zoo_tokens", "Tokens of the best translations.", ["model"], registry=own)
        self.disconnected = Total("zoo_disconnected", "Clients that closed the connection early.", registry=own)

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a metric whose value is computed when the metrics are read."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, path: str, status: int, seconds: float, *, is_monitoring: bool) -> None:
        """Count a request after `seconds`, when it has been answered or the client has disconnected."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)
        if not is_monitoring:
            self._statuses[status] += 1

    def log_statuses(self) -> None:
        """Log the number of requests per HTTP status. Log nothing if there were no requests."""
        counts, self._statuses = self._statuses, Counter()
        if counts:
            listed = ", ".join(f"{count} with status {status}" for status, count in sorted(counts.items()))
            LOG.info("%d requests: %s", counts.total(), listed)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class Admission:
    """Admits requests within the configured limits, and counts their texts."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._limits, self._keys = settings.limits, settings.keys
        self._is_starting = self._is_ending = False
        self._cancelled_at_end: set[asyncio.Task[Any]] = set()
        self._used_characters: Counter[str] = Counter()
        self._open_requests = self._queued_texts = self._queued_characters = self._held_bytes = 0
        metrics.gauge("zoo_queued_texts", "Texts that are waiting or being translated.", lambda: self._queued_texts)
        metrics.gauge(
            "zoo_queued_characters",
            "Characters in the texts that are waiting or being translated.",
            lambda: self._queued_characters,
        )
        metrics.gauge("zoo_held_bytes", "Bytes of requests and documents in memory.", lambda: self._held_bytes)
        metrics.gauge(
            "zoo_open_requests", "Requests that are being answered, except for monitoring.", lambda: self._open_requests
        )

    @property
    def ready(self) -> bool:
        """Whether the server can answer another request immediately."""
        return not (self._is_starting or self._is_ending) and self._queued_texts < self._limits.queued_texts

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Report that the server is not ready while the `with` block runs, and after an error in it."""
        self._is_starting = True
        yield
        self._is_starting = False

    def end(self) -> None:
        """Shut down: cancel all tasks that were passed to `cancel_at_end`."""
        self._is_ending = True
        for task in self._cancelled_at_end:
            task.cancel()

    def cancel_at_end(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task when the server shuts down, because clients could not download its result afterwards."""
        if self._is_ending:
            task.cancel()
        self._cancelled_at_end.add(task)
        task.add_done_callback(self._cancelled_at_end.discard)

    @contextmanager
    def open_request(self) -> Iterator[None]:
        """Count a request as open while the `with` block runs. Raise ServingError if too many requests are open."""
        self._open_requests += 1
        try:
            if self._open_requests > self._limits.requests:
                raise ServingError(503, "the server is busy; try again later", "requests", RETRY_SECONDS)
            yield
        finally:
            self._open_requests -= 1

    def usage(self, key: str) -> tuple[int, int | None]:
        """Return the number of characters translated with an API key (its SHA-256), and the key's limit, if any."""
        return self._used_characters[key], self._keys.get(key)

    def authorize(self, key: str | None) -> str:
        """Check an API key. Return its SHA-256, or an empty string if the server needs no keys.

        Raises:
            ServingError: The key is missing or wrong.
        """
        if not self._keys.needed:
            return ""
        if key is None:
            raise ServingError(403, "an API key is required", "key")
        if (hashed := hash_key(key)) not in self._keys:
            raise ServingError(403, "the API key is wrong", "key")
        return hashed

    def check_texts(self, texts: Sequence[str], options: Options | None = None) -> None:
        """Check the texts and options of a request.

        Raises:
            ServingError: A limit is exceeded, or a text or an option is not valid.
        """
        limits, options = self._limits, options or Options()
        if not texts:
            raise ServingError(400, "the request has no text")
        if len(texts) > limits.texts:
            raise ServingError(413, f"the request has {len(texts):,} texts; the limit is {limits.texts:,}", "texts")
        for text in (*texts, options.prefix or ""):
            length = len(text) + _LONGEST_LIGATURE * text.count("\ufdfa")
            if length > limits.text_characters:
                problem = f"a text has {length:,} characters; the limit is {limits.text_characters:,}"
                raise ServingError(413, problem, "length")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ServingError(400, "a text is not valid Unicode: it contains half of a surrogate pair") from None
        if (lines := sum(text.count("\n") + text.count("\r") for text in texts)) > MAX_LINES:
            raise ServingError(413, f"the texts have {lines:,} lines; the limit is {MAX_LINES:,}", "length")
        for name, value in (("beam", options.beam), ("n_best", options.n_best)):
            if value is not None and not 1 <= value <= limits.beam:
                raise ServingError(400, f"`{name}` is {value:,}; it should be from 1 to {limits.beam}")
        if options.prefix and any(LINE_BREAKS.search(text.strip()) for text in (*texts, options.prefix)):
            raise ServingError(400, "`prefix` requires single-line texts")

    @contextmanager
    def admit(self, key: str, texts: Sequence[str], routes: Iterable[Route] = ()) -> Iterator[None]:
        """Count the texts as queued while the `with` block runs.

        Args:
            key: SHA-256 of the client's API key.
            texts: The texts, and any translations that the client has sent.
            routes: The models that will translate the texts.

        Raises:
            ServingError: The request is larger than the queue, the queue is full, the request would probably wait too
                long, or the quota of the API key is used up.
        """
        characters, limits, (used, quota) = sum(map(len, texts)), self._limits, self.usage(key)
        if len(texts) > limits.queued_texts or characters > limits.queued_characters:
            raise ServingError(
                413,
                f"the request has {len(texts):,} texts with {characters:,} characters; "
                f"the limit is {limits.queued_texts:,} texts with {limits.queued_characters:,} characters",
            )
        if quota is not None and used + characters > quota:
            raise ServingError(456, f"the limit of this API key, {quota:,} characters, is reached", "quota")
        if (
            self._queued_texts + len(texts) > limits.queued_texts
            or self._queued_characters + characters > limits.queued_characters
        ):
            raise ServingError(429, "the queue is full; try again later", "queue", RETRY_SECONDS)
        loaded = (route.model.loaded for route in routes)
        if any(each is not None and each.translator.waiting_seconds > limits.wait_seconds for each in loaded):
            raise ServingError(429, "the server is busy; try again later", "wait", RETRY_SECONDS)
        self._used_characters[key] += characters
        self._queued_texts += len(texts)
        self._queued_characters += characters
        try:
            yield
        finally:
            self._queued_texts -= len(texts)
            self._queued_characters -= characters

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves a number of bytes for a request until the `with` block ends.

        The function raises ServingError if all requests together would exceed the memory limit.
        """
        held = 0

        def add(size: int) -> None:
            nonlocal held
            if self._held_bytes + size > self._limits.held_bytes:
                raise ServingError(503, "the server is busy; try again later", "memory", RETRY_SECONDS)
            held += size
            self._held_bytes += size

        try:
            yield add
        finally:
            self._held_bytes -= held

    def timed_out(self) -> ServingError:
        """Return the error for a request that took too long."""
        message = f"the request took more than {self._limits.request_seconds:g} seconds"
        return ServingError(503, message, "time", RETRY_SECONDS)

"""Admission of requests: limits for texts, the queue and the time per request, API keys with quotas, and metrics."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client import Counter as Total

from specs import ZooError
from zoo.files.reading import read_bytes
from zoo.serving import Limits
from zoo.serving.answer import LOG, RETRY_SECONDS, Call, ServingError
from zoo.serving.pool import Route

LINE_BREAKS = re.compile(r"((?<!\s)\s*[\r\n]\s*)")
"""Line breaks with the white space around them. The lookbehind makes the search linear: a match can begin only at the
start of white space."""
MAX_LINES = 20_000
"""Maximum total number of lines in the texts of a request. Each line takes up some event-loop time."""
_LONGEST_LIGATURE = 17  # a tokenizer reads U+FDFA as 18 characters, and every other character as at most 4
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_MAX_KEYS_BYTES = 10_000_000
_KEY_LINE = re.compile(r"([0-9a-f]{64})(?:\s+(\d{1,15}))?")
_NAME = re.compile(r"[\w.@][\w.@ -]{0,99}")


class Keys(dict[str, int | None]):
    """Accepted API keys: a mapping from the SHA-256 of each key to the number of characters that the key may translate.

    A key with the value None may translate any number of characters.

    Attributes:
        needed: Whether requests need a key. This stays true even if all keys are removed from the key file later.
    """

    def __init__(self, keys: Mapping[str, int | None] | None = None, file: Path | None = None) -> None:
        """Use the given keys. If a file is given, read the keys from the file instead.

        Raises:
            ZooError: The file is missing or contains no keys, or a line is invalid.
        """
        self._file, self._version = file, _version(file)
        super().__init__(keys or {} if file is None else read_keys(file) if file.exists() else {})
        if file is not None and not self:
            hint = f"create a key with `zoo serve --new-key NAME --keys {file}`"
            raise ZooError(f"`{file}` does not exist or contains no API keys", hint=hint)
        self.needed = bool(self)

    def refresh(self) -> None:
        """Read the key file again if it has changed. If it cannot be read, keep the current keys and log an error."""
        if self._file is None or (version := _version(self._file)) == self._version:
            return
        self._version = version
        try:
            found = read_keys(self._file)
        except (ZooError, OSError) as error:
            LOG.error("the previous API keys remain valid: %s", error)
            return
        self.clear()
        self.update(found)
        LOG.log(logging.INFO if self else logging.WARNING, "number of valid API keys: %d", len(self))


@dataclass(frozen=True)
class Settings:
    """Server settings.

    Attributes:
        limits: Limits for requests and the queue.
        keys: The accepted API keys.
        cors: Origins of web pages that may use the server, such as `https://example.org`.
        hosts: Host names that clients may use for the server. If empty, clients may use any name.
    """

    limits: Limits = field(default_factory=Limits)
    keys: Keys = field(default_factory=Keys)
    cors: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class Metrics:
    """Prometheus metrics for the server, such as the number of requests. Each instance has its own metrics registry."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self._statuses: Counter[int] = Counter()
        """Number of requests per HTTP status since the last `log_statuses`, excluding monitoring requests."""
        self._requests = Total("zoo_requests", "Requests by path and status.", ["path", "status"], registry=own)
        self._seconds = Histogram("zoo_request_seconds", "Seconds to answer.", ["path"], buckets=_SECONDS, registry=own)
        self.rejected = Total("zoo_rejected", "Rejected requests by reason.", ["reason"], registry=own)
        self.texts = Total("zoo_texts", "Translated texts by model.", ["model"], registry=own)
        self.inputs = Total("zoo_inputs", "Lines, images and audio windows by model.", ["model"], registry=own)
        self.tokens = Total("zoo_tokens", "Tokens of the best translations.", ["model"], registry=own)
        self.disconnected = Total("zoo_disconnected", "Clients that closed the connection early.", registry=own)

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a metric whose value is computed when the metrics are read."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, path: str, status: int, seconds: float, *, is_monitoring: bool) -> None:
        """Count a request that was answered, or whose client has disconnected, and record its duration in seconds.

        Monitoring requests (`is_monitoring`) are not counted in the log of HTTP statuses.
        """
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)
        if not is_monitoring:
            self._statuses[status] += 1

    def log_statuses(self) -> None:
        """Log the number of requests per HTTP status since this method was last called, if there were any."""
        counts, self._statuses = self._statuses, Counter()
        if counts:
            listed = ", ".join(f"{count} with status {status}" for status, count in sorted(counts.items()))
            LOG.info("%d requests: %s", counts.total(), listed)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        return generate_latest(self._registry)


class Budget:
    """Limited amount of a resource, such as memory or places in the queue, which the open requests share.

    Attributes:
        limit: Maximum amount that all requests together may hold.
        held: Amount that all requests together hold now.
    """

    def __init__(self, metrics: Metrics, metric: str, description: str, limit: int, full: tuple[int, str, str]) -> None:
        """Create an empty budget, and a metric that reports how much of it is in use.

        `full` contains the status, message and reason of the error that a request gets if it exceeds the limit.
        """
        self.limit, self.held, self._full = limit, 0, full
        metrics.gauge(metric, description, lambda: self.held)

    @contextmanager
    def hold(self, amount: int = 0) -> Iterator[Callable[[int], None]]:
        """Hold `amount` of the resource until the `with` block ends. Yield a function that increases the held amount.

        Raises:
            ServingError: All requests together would exceed the limit.
        """
        own = 0

        def add(more: int) -> None:
            nonlocal own
            if self.held + more > self.limit:
                raise ServingError(*self._full, RETRY_SECONDS)
            own += more
            self.held += more

        try:
            add(amount)
            yield add
        finally:
            self.held -= own


class Admission:
    """Admission control, which accepts requests within the configured limits, and counts their texts.

    Attributes:
        requests: Budget for the number of open requests, except for monitoring requests.
        memory: Budget for the memory that requests and documents use, in bytes.
    """

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._limits, self._keys = settings.limits, settings.keys
        self._is_starting = self._is_ending = False
        self._cancelled_at_end: set[asyncio.Task[Any]] = set()
        self._used_characters: Counter[str] = Counter()
        busy, full = "the server is busy; try again later", (429, "the queue is full; try again later", "queue")
        budget = partial(Budget, metrics)
        description = "Requests that are being answered, except for monitoring."
        self.requests = budget("zoo_open_requests", description, self._limits.requests, (503, busy, "requests"))
        description = "Bytes of requests and documents in memory."
        self.memory = budget("zoo_held_bytes", description, self._limits.held_bytes, (503, busy, "memory"))
        description = "Texts that are waiting or being translated."
        self._texts = budget("zoo_queued_texts", description, self._limits.queued_texts, full)
        description = "Characters in the texts that are waiting or being translated."
        self._characters = budget("zoo_queued_characters", description, self._limits.queued_characters, full)

    @property
    def ready(self) -> bool:
        """Whether the server can answer another request immediately."""
        return not (self._is_starting or self._is_ending) and self._texts.held < self._texts.limit

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Mark the server as not ready during the `with` block. After an error in the block, it remains not ready."""
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

    def usage(self, key: str) -> tuple[int, int | None]:
        """Return the number of characters translated with an API key (its SHA-256), and the key's limit or None."""
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

    def check_texts(self, call: Call, texts: Sequence[str]) -> None:
        """Check the options and texts in a request.

        Raises:
            ServingError: A limit is exceeded, or a text or an option is not valid.
        """
        limits = self._limits
        if not texts:
            raise ServingError(400, "the request has no text")
        if len(texts) > limits.texts:
            raise ServingError(413, f"the request has {len(texts):,} texts; the limit is {limits.texts:,}", "texts")
        for text in (*texts, call.prefix or ""):
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
        for name, value in (("beam", call.options.get("beam")), ("n_best", call.n_best)):
            if value is not None and not 1 <= value <= limits.beam:
                raise ServingError(400, f"`{name}` is {value:,}; it should be from 1 to {limits.beam}")
        if call.prefix and any(LINE_BREAKS.search(text.strip()) for text in (*texts, call.prefix)):
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
                long, or the request would exceed the quota of the API key.
        """
        characters, limits, (used, quota) = sum(map(len, texts)), self._limits, self.usage(key)
        if len(texts) > limits.queued_texts or characters > limits.queued_characters:
            raise ServingError(
                413,
                f"the request has {len(texts):,} texts with {characters:,} characters; "
                f"the limit is {limits.queued_texts:,} texts with {limits.queued_characters:,} characters",
            )
        if quota is not None and used + characters > quota:
            raise ServingError(456, f"the request would exceed this API key's limit of {quota:,} characters", "quota")
        with self._texts.hold(len(texts)), self._characters.hold(characters):
            loaded = (route.model.loaded for route in routes)
            if any(each is not None and each.translator.waiting_seconds > limits.wait_seconds for each in loaded):
                raise ServingError(429, "the server is busy; try again later", "wait", RETRY_SECONDS)
            self._used_characters[key] += characters
            yield

    def timed_out(self) -> ServingError:
        """Return the error for a request that took too long."""
        message = f"the request took more than {self._limits.request_seconds:g} seconds"
        return ServingError(503, message, "time", RETRY_SECONDS)


def hash_key(key: str) -> str:
    """Return the SHA-256 of an API key in hexadecimal."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(file: Path) -> dict[str, int | None]:
    """Read an API key file. Each line has the SHA-256 of a key and, optionally, its character limit and name.

    Raises:
        ZooError: A line is invalid.
    """
    keys: dict[str, int | None] = {}
    for number, line in enumerate(read_bytes(file, _MAX_KEYS_BYTES).decode("utf-8", "replace").splitlines(), start=1):
        content = line.partition("#")[0].strip()
        if not content:
            continue
        match = _KEY_LINE.fullmatch(content)
        if match is None:
            problem = "the line is not the SHA-256 of an API key, optionally followed by a character limit"
            hint = f"delete the line; to create a key, run `zoo serve --new-key NAME --keys {file}`"
            raise ZooError(problem, where=f"{file}:{number}", hint=hint)
        keys[match[1]] = None if match[2] is None else int(match[2])
    return keys


def new_key(file: Path, name: str) -> str:
    """Create an API key, append its SHA-256 and its name to a file, and return the key. The key itself is not stored.

    Raises:
        ZooError: The name is invalid, the file already has a key with this name, or a line in the file is invalid.
    """
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, spaces and the characters `-`, `_`, `.` and `@`; do not begin with `-`"
        raise ZooError(f"`{name}` is not a valid name for an API key", hint=hint)
    key = secrets.token_urlsafe(24)
    with file.open("a+b") as stream:
        read_keys(file)  # with an invalid line, a server would not accept the new key
        stream.seek(0)
        content = stream.read(_MAX_KEYS_BYTES)
        if name in (line.partition("#")[2].strip() for line in content.decode("utf-8", "replace").splitlines()):
            hint = "choose another name, or delete the line to revoke the key"
            raise ZooError(f"`{file}` already contains a key named `{name}`", hint=hint)
        is_line_open = content[-1:] not in (b"", b"\n")
        stream.write(b"\n" * is_line_open + f"{hash_key(key)}  # {name}\n".encode())
    return key


def _version(file: Path | None) -> tuple[int, ...] | None:
    """Return the modification time, size and inode number of a file, or None if there is no file."""
    with suppress(OSError):
        return None if file is None else ((status := file.stat()).st_mtime_ns, status.st_size, status.st_ino)
    return None

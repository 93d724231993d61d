"""Settings and limits of the server, and the API keys of its clients."""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from specs import ZooError
from zoo.files.reading import read_bytes
from zoo.serving.answer import LOG

_MAX_KEYS_BYTES = 10_000_000
_KEY_LINE = re.compile(r"([0-9a-f]{64})(?:\s+(\d{1,15}))?")
_NAME = re.compile(r"[\w.@][\w.@ -]{0,99}")


@dataclass(frozen=True)
class Limits:
    """Limits for requests and the queue. A request that exceeds a limit is rejected immediately.

    Attributes:
        body_bytes: Maximum size of a request's body in bytes.
        document_bytes: Maximum size of a request with a document, in bytes.
        audio_seconds: Maximum length of an audio file, in seconds.
        held_bytes: Maximum total size of the bodies of all open requests, in bytes.
        text_characters: Maximum length of a text, in characters.
        texts: Maximum number of texts in a request.
        beam: Maximum beam size, and maximum number of translations per text.
        queued_texts: Maximum number of texts that wait or are being translated, across all requests.
        queued_characters: Maximum total number of characters in the queued texts.
        wait_seconds: Maximum time until the translation of a request begins. A request that would probably wait longer
            is rejected with status 429.
        requests: Maximum number of requests that are open at the same time.
        request_seconds: Maximum time to answer a request.
        body_seconds: Maximum time for a client to send the body.
    """

    body_bytes: int = 1_000_000
    document_bytes: int = 20_000_000
    audio_seconds: float = 600.0
    held_bytes: int = 200_000_000
    text_characters: int = 20_000
    texts: int = 100
    beam: int = 16
    queued_texts: int = 2_000
    queued_characters: int = 1_000_000
    wait_seconds: float = 0.5
    requests: int = 500
    request_seconds: float = 120.0
    body_seconds: float = 20.0


class Keys(dict[str, int | None]):
    """Accepted API keys: a mapping from the SHA-256 of each key to the number of characters that the key may translate.

    None means any number of characters.

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
            reason = error.summary if isinstance(error, ZooError) else error.strerror
            LOG.error("the previous API keys remain valid: %s", reason)
            return
        self.clear()
        self.update(found)
        LOG.log(logging.INFO if self else logging.WARNING, "number of valid API keys: %d", len(self))


@dataclass(frozen=True)
class Settings:
    """Settings of the server.

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
            problem = "the line is not the SHA-256 of an API key, optionally followed by a number of characters"
            hint = f"delete the line; then `zoo serve --new-key NAME --keys {file}` creates a key"
            raise ZooError(problem, where=f"{file}:{number}", hint=hint)
        keys[match[1]] = None if match[2] is None else int(match[2])
    return keys


def new_key(file: Path, name: str) -> str:
    """Create an API key, append its SHA-256 and its name to a file, and return the key. The key itself is not stored.

    Raises:
        ZooError: The name is invalid, the file already has a key with this name, or a line of the file is invalid.
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

"""Translated documents, which clients can download for some minutes."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from zoo.serving.errors import ServingError

MAX_SECONDS = 600.0
"""Time after which a document is removed."""
MAX_BYTES = 1_000_000_000
"""Maximum size of all documents together."""
_NAME_BYTES = 24
_RETRY_SECONDS = 60


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    bytes: int
    ends: float


class TemporaryFiles:
    """Documents in a folder that only this user can read, under random names. The folder is removed at exit."""

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._files: dict[str, _File] = {}

    def add(self, content: bytes, name: str) -> str:
        """Store a document, and return the secret under which it can be fetched.

        Args:
            content: The document.
            name: Name of the file for the client.

        Raises:
            ServingError: The documents would be larger than MAX_BYTES together.
        """
        self.remove_old()
        if sum(file.bytes for file in self._files.values()) + len(content) > MAX_BYTES:
            raise ServingError(503, "too many documents wait to be downloaded", "files", _RETRY_SECONDS)
        self._folder = self._folder or TemporaryDirectory(prefix="zoo-serve-", ignore_cleanup_errors=True)
        secret = secrets.token_urlsafe(_NAME_BYTES)
        path = Path(self._folder.name) / secret
        path.write_bytes(content)
        self._files[secret] = _File(path, name, len(content), time.monotonic() + MAX_SECONDS)
        asyncio.get_running_loop().call_later(MAX_SECONDS, self.remove_old)
        return secret

    def get(self, secret: str) -> tuple[bytes, str]:
        """Return a document and its name.

        Raises:
            ServingError: There is no such document, or it has been removed.
        """
        self.remove_old()
        if secret not in self._files:
            raise ServingError(404, "there is no such document; documents are removed after ten minutes")
        file = self._files[secret]
        return file.path.read_bytes(), file.name

    def remove_old(self) -> None:
        """Remove the documents whose time is over."""
        for secret in [secret for secret, file in self._files.items() if file.ends <= time.monotonic()]:
            self._files.pop(secret).path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove all documents."""
        self._files.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

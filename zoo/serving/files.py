"""Translated documents, which clients can download for some minutes."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import secrets
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from zoo.serving.errors import ServingError

MAX_SECONDS = 600.0
"""Time after which a document is removed."""
MAX_BYTES = 1_000_000_000
"""Maximum size of all documents together."""
LOG = logging.getLogger("zoo.serving")
_PREFIX = "zoo-serve-"
_MIN_AGE_SECONDS = 5.0  # a server that has just created its folder has not locked it yet
_NAME_BYTES = 24
_RETRY_SECONDS = 60


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    bytes: int
    ends: float


class TemporaryFiles:
    """Documents in a folder that only this user can read, under random names. The folder is removed at exit.

    The folder is locked while the server runs, so that other servers do not remove it.
    """

    def __init__(self) -> None:
        self._folder: TemporaryDirectory[str] | None = None
        self._lock: int | None = None
        self._files: dict[str, _File] = {}

    def add(self, content: bytes, name: str) -> str:
        """Store a document, and return the secret under which it can be fetched.

        Args:
            content: The document.
            name: Name of the file for the client.

        Raises:
            ServingError: The documents would be larger than MAX_BYTES together, or the disk is full.
        """
        self.remove_old()
        if sum(file.bytes for file in self._files.values()) + len(content) > MAX_BYTES:
            raise ServingError(503, "too many documents wait to be downloaded", "files", _RETRY_SECONDS)
        secret = secrets.token_urlsafe(_NAME_BYTES)
        try:
            path = self._open_folder() / secret
            self._files[secret] = _File(path, name, len(content), time.monotonic() + MAX_SECONDS)
            path.write_bytes(content)
        except OSError as error:
            self._remove(secret)
            LOG.error("a translated document cannot be written: %s", error.strerror)
            raise ServingError(503, "the server cannot store the document", "files", _RETRY_SECONDS) from None
        asyncio.get_running_loop().call_later(MAX_SECONDS, self.remove_old)
        return secret

    def get(self, secret: str) -> tuple[Path, str]:
        """Return the file of a document, and the name of the document.

        Raises:
            ServingError: There is no such document, or it has been removed.
        """
        self.remove_old()
        if secret not in self._files:
            raise ServingError(404, "there is no such document; documents are removed after ten minutes")
        file = self._files[secret]
        return file.path, file.name

    def remove_old(self) -> None:
        """Remove the documents whose time is over."""
        for secret in [secret for secret, file in self._files.items() if file.ends <= time.monotonic()]:
            self._remove(secret)

    def close(self) -> None:
        """Remove all documents."""
        self._files.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open_folder(self) -> Path:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
            self._lock = _lock(Path(self._folder.name))
        return Path(self._folder.name)

    def _remove(self, secret: str) -> None:
        if file := self._files.pop(secret, None):
            file.path.unlink(missing_ok=True)


def remove_stale_folders() -> None:
    """Remove the folders of servers that were killed, so that they could not remove the folders themselves."""
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            is_own = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
            if is_own and time.time() - status.st_mtime > _MIN_AGE_SECONDS and (lock := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    """Lock a folder, and return the descriptor that holds the lock. None if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor

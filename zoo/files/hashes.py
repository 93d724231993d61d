"""SHA-256 digests of files, and a cache of the digests that were checked before.

A large file takes longer to hash than to open. The cache identifies a file by device, inode, size and times of change.
It only confirms digests: a file is never rejected without being read. It cannot see damage that the disk itself does;
`zoo verify` therefore hashes every file again.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specs import ZooError
from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.files.reading import open_file, read_json

_MIN_AGE = 3.0
"""Seconds since the last change. With a coarse clock, a younger file could change without a new time."""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        ZooError: The file cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_digest(file: Path, digest: str, compute: Callable[[], str]) -> bool:
    """Return whether a file has this digest, from the cache if the file did not change.

    Args:
        file: The file.
        digest: The digest that it should have.
        compute: Computes the digest of the file's content.

    Raises:
        OSError: The file does not exist.
    """
    entry, identity = _cache_entry(file), file_identity(file)
    with suppress(ZooError):
        if entry.is_file() and read_json(entry) == {"file": identity, "digest": digest}:
            return True
    if compute() != digest:
        return False
    changed = max(identity["modified_ns"], identity["status_changed_ns"]) / 1e9
    if time.time() - changed > _MIN_AGE and file_identity(file) == identity:
        with suppress(ZooError, OSError):  # the data folder may be read-only
            write_json(entry, {"file": identity, "digest": digest})
    return True


def file_identity(file: Path) -> dict[str, int]:
    """Return the properties that identify a file or folder: they change when it is changed or replaced.

    Raises:
        OSError: The file does not exist.
    """
    state = file.stat()
    return {
        "device": state.st_dev,
        "inode": state.st_ino,
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
        "status_changed_ns": state.st_ctime_ns,
    }


def _cache_entry(file: Path) -> Path:
    name = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]
    return storage.verified() / f"{name}.json"

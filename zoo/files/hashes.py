"""SHA-256 digests of files, and a cache of digests that were computed before.

A large file takes longer to hash than to open. The cache identifies a file by device, inode, size and times of change.
It can only confirm a digest: a file is never rejected without being read. It cannot detect that the disk itself
changed the content. `zoo verify` therefore hashes every file again.
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
"""Minimum age of a file in seconds before its digest is cached. A younger file may change without a new timestamp."""


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        ZooError: The file cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_digest(file: Path, digest: str, compute: Callable[[], str]) -> bool:
    """Return whether a file has this digest. If the cache confirms the digest, do not compute it.

    Args:
        file: The file.
        digest: The digest that it should have.
        compute: Function that computes the digest of the file's content.

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
    """Return properties of a file or folder that change if it is changed or replaced.

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

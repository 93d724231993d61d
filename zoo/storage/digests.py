"""Digests that were computed once, and hold as long as the file is the one it was.

A large file takes longer to hash than to open. What says that it is the same: the device and the place on it, its size,
and when content and entry were last changed, to the nanosecond. Damage that a disk does to itself is not seen by
this: `zoo verify` computes every hash anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specs import ZooError
from zoo.storage import places
from zoo.storage.files import read_json, write_json

_SETTLED = 3.0  # seconds: a clock that is coarse could give two contents one time


def digest(file: Path, compute: Callable[[], str]) -> str:
    """What `compute` says of a file's content, or said when it was the same file. Raises OSError where it is gone."""
    known, before = _entry(file), _identity(file)
    with suppress(ZooError):
        if known.is_file() and (entry := read_json(known)).get("file") == before and "digest" in entry:
            return str(entry["digest"])
    found = compute()
    changed = max(before["modified_ns"], before["entry_changed_ns"]) / 1e9
    if time.time() - changed > _SETTLED and _identity(file) == before:
        with suppress(ZooError, OSError):  # a home that cannot be written to
            write_json(known, {"file": before, "digest": found})
    return found


def _entry(file: Path) -> Path:
    name = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]
    return places.verified() / f"{name}.json"


def _identity(file: Path) -> dict[str, int]:
    state = file.stat()
    return {
        "device": state.st_dev,
        "inode": state.st_ino,
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
        "entry_changed_ns": state.st_ctime_ns,
    }

"""Digests that were computed once, and hold as long as the file is the one it was.

A large file takes longer to hash than to open. What says that it is the same: the device and the place on it, its size,
and when content and entry were last changed, to the nanosecond. Damage that a disk does to itself is not seen by
this: `zoo verify` computes every hash anew. What was kept can only confirm: nothing is refused without being read.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from specs import ZooError
from zoo.files import places
from zoo.files.files import read_json, write_json

_SETTLED = 3.0  # seconds: a clock that is coarse could give two contents one time


def holds(file: Path, digest: str, compute: Callable[[], str]) -> bool:
    """Whether `digest` is what `compute` says of a file's content, or was when it was the same file.

    Raises OSError where it is gone.
    """
    known, before = _entry(file), identity(file)
    with suppress(ZooError):
        if known.is_file() and read_json(known) == {"file": before, "digest": digest}:
            return True
    if compute() != digest:
        return False
    changed = max(before["modified_ns"], before["entry_changed_ns"]) / 1e9
    if time.time() - changed > _SETTLED and identity(file) == before:
        with suppress(ZooError, OSError):  # a home that cannot be written to
            write_json(known, {"file": before, "digest": digest})
    return True


def identity(file: Path) -> dict[str, int]:
    """What tells a file from any other that stood or will stand in its place. Raises OSError where there is none."""
    state = file.stat()
    return {
        "device": state.st_dev,
        "inode": state.st_ino,
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
        "entry_changed_ns": state.st_ctime_ns,
    }


def _entry(file: Path) -> Path:
    name = hashlib.sha256(os.fsencode(file.resolve())).hexdigest()[:32]
    return places.verified() / f"{name}.json"

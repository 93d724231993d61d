"""Who uses a folder: a lock that many may share, and that whoever takes the folder away must have alone."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from specs import ZooError

try:
    import fcntl
except ImportError:  # a system without it
    fcntl = None  # type: ignore[assignment]


class Gone(ZooError):
    """It was there a moment ago."""


def use(user: object, folder: Path) -> None:
    """The folder is in use for as long as `user` lives. Raises Gone where another process removes it meanwhile."""
    if fcntl is None:
        return
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY)
        weakref.finalize(user, os.close, descriptor)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return
    raise Gone(f"`{folder}` has just been removed by another process", exit_code=1)


@contextmanager
def reserved(path: Path) -> Iterator[bool]:
    """Whether nobody uses this folder or holds this lock file; while it lasts nobody can begin to."""
    if fcntl is None:
        yield True
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except BlockingIOError:
        free = False
    except OSError:  # a file system without locks
        free = True
    try:
        yield free
    finally:
        os.close(descriptor)

"""Locks between processes. The system releases them when a process ends, even if it is killed."""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from specs import ZooError
from zoo.report import SILENT, Report


class FolderRemovedError(ZooError):
    """A folder that this process was about to use was removed by another process."""


@contextmanager
def exclusive(path: Path, report: Report = SILENT) -> Iterator[None]:
    """Hold the lock on a path, so that no other process writes to it. Wait if another process holds the lock.

    On a file system without locks, the `with` block runs without protection.

    Args:
        path: The file or folder that is written. The lock is the file `.NAME.lock` next to it.
        report: Receives a message if the call has to wait.

    Raises:
        ZooError: The parent folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(_lock_file(path), os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        problem = f"`{path.parent}` cannot be written: {error.strerror or error}"
        raise ZooError(problem, hint="set ZOO_HOME to another folder", exit_code=1) from error
    try:
        if not take_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            report.info(f"waiting for another process to finish writing {path.name}")
            take_lock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def existing_lock_file(path: Path) -> Path | None:
    """Return the lock file for a path. None if the path was never locked."""
    lock = _lock_file(path)
    return lock if lock.exists() else None


def _lock_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def hold_while_alive(user: object, folder: Path) -> None:
    """Mark a folder as in use for as long as the object `user` lives.

    Several processes may use a folder at the same time.

    Raises:
        FolderRemovedError: The folder does not exist any more, because another process removed it.
    """
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY)
        weakref.finalize(user, os.close, descriptor)
        take_lock(descriptor, fcntl.LOCK_SH)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return
    raise FolderRemovedError(f"`{folder}` was removed by another process", hint="run the command again", exit_code=1)


@contextmanager
def try_exclusive(path: Path) -> Iterator[bool]:
    """Try to lock a folder or lock file without waiting. Other processes lock the path while they use it.

    Yields:
        False if another process uses the path, otherwise True. The path then stays locked until the `with` block ends,
        unless the file system does not support locks.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield take_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def take_lock(descriptor: int, mode: int) -> bool:
    """Lock an open file or folder until its descriptor is closed. Do nothing on a file system without locks.

    Args:
        descriptor: The descriptor of the file or folder.
        mode: `fcntl.LOCK_SH` or `fcntl.LOCK_EX`. With `fcntl.LOCK_NB`, do not wait for another process.

    Returns:
        False if another process has the lock.
    """
    with suppress(OSError):  # a file system without locks
        try:
            fcntl.flock(descriptor, mode)
        except BlockingIOError:
            return False
    return True

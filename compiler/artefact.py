"""Cache of the files that a backend has compiled, in folders named by a hash of everything they depend on."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"


class Artefact:
    """Folder of compiled files that depend on a key only: code, options, versions and kind of machine.

    An artefact is a cache, never the model. If a file is missing or damaged, or writing was interrupted, the whole
    artefact is compiled again.
    """

    def __init__(self, root: Path | None, name: str, key: Mapping[str, str]) -> None:
        """Locate the artefact; nothing is read or written yet.

        Args:
            root: The folder that holds all artefacts. None: a temporary folder, which is deleted when the process ends.
            name: The start of the folder's name, such as the backend's.
            key: Everything that the files depend on. Its hash completes the folder's name.
        """
        text = json.dumps(key, sort_keys=True)
        self.folder = (root or _temporary_root()) / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def is_complete(self) -> bool:
        """Return whether every file is present and matches the digest in the manifest."""
        try:
            files = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            return bool(files) and all(_digest(self.folder / name) == digest for name, digest in files.items())
        except (OSError, ValueError, AttributeError):
            return False

    def make(self, write: Callable[[Path], None]) -> Path:
        """Return the folder of the complete artefact, and compile it first if necessary.

        If the folder cannot be written to, or its disk is full, the artefact goes into a temporary folder instead.

        Args:
            write: Fills an empty folder with the compiled files.
        """
        try:
            return self._make(write)
        except Exception as error:
            is_storage_error = isinstance(error, OSError) or is_disk_full(str(error))
            if self.folder.parent == _temporary_root() or not is_storage_error:
                raise
        self.folder = _temporary_root() / self.folder.name
        return self._make(write)

    def _make(self, write: Callable[[Path], None]) -> Path:
        if self.is_complete():
            with suppress(OSError):
                os.utime(self.folder)  # record the time of last use
            return self.folder
        self._remove_abandoned_folders()
        with self._locked_sibling_folder() as staging:
            write(staging)
            names = sorted(file.relative_to(staging).as_posix() for file in staging.rglob("*") if file.is_file())
            manifest = json.dumps({name: _digest(staging / name) for name in names}, indent=2)
            (staging / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
            self._publish(staging)
        return self.folder

    @contextmanager
    def _locked_sibling_folder(self) -> Iterator[Path]:
        """Create a folder next to the artefact's, lock it while this process uses it, and delete it at the end.

        The folder gets the permissions that the user's umask gives to new folders.
        """
        folder = self.folder.with_name(f".{self.folder.name}.{uuid4().hex}")
        # Lock the folder before it gets the name by which `_remove_abandoned_folders` finds it.
        unlocked = folder.with_name(f"{folder.name}.new")
        unlocked.mkdir(parents=True)
        descriptor = os.open(unlocked, os.O_RDONLY)
        try:
            with suppress(OSError):  # the file system may have no locks
                _lock(descriptor)
            unlocked.rename(folder)
            yield folder
        finally:
            for path in (unlocked, folder):
                shutil.rmtree(path, ignore_errors=True)
            os.close(descriptor)

    def _remove_abandoned_folders(self) -> None:
        """Delete the folders that killed processes did not finish. Folders of running processes are locked."""
        for folder in self.folder.parent.glob(f".{self.folder.name}.{'[0-9a-f]' * 32}"):
            with suppress(OSError):  # another process holds the lock, or there are no locks
                descriptor = os.open(folder, os.O_RDONLY)
                try:
                    _lock(descriptor)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(descriptor)

    def _publish(self, staging: Path) -> None:
        """Move the finished folder to its final name, unless another process has published the same artefact."""
        for _ in range(3):
            if self.is_complete():
                return
            # Another process may move the folder, or create it, between two of these calls.
            with self._locked_sibling_folder() as damaged, suppress(OSError):
                if self.folder.exists():
                    os.replace(self.folder, damaged / "old")
                os.rename(staging, self.folder)
                return
        raise OSError(f"cannot write `{self.folder}`: another process keeps recreating it")


def is_disk_full(text: str) -> bool:
    """Return whether a message contains the system's text for a full disk, an exceeded quota or a read-only disk."""
    return any(os.strerror(code) in text for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))


def _lock(descriptor: int) -> None:
    """Lock an open folder. Raise OSError if another process has locked it, or if the system has no locks."""
    if fcntl is None:
        raise OSError("this system has no file locks")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
"""Keeps the temporary folder until the process ends."""


@cache
def _temporary_root() -> Path:
    """Create a folder that is deleted when the process ends, except for files that are still open then."""
    _TEMPORARY.append(tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True))
    return Path(_TEMPORARY[-1].name)

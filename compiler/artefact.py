"""Cache for the files that backends produce, such as compiled kernels.

The name of each folder contains a hash of everything that its files depend on.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Event
from uuid import uuid4

from filelock import FileLock

MANIFEST = "manifest.json"
MAX_WAIT = 600.0
"""How long to wait, in seconds, while another process compiles the same artefact."""

PROCESS_ENDS = Event()
"""Event to set before this process ends. Threads that are compiling an artefact then stop with an error."""


class Artefact:
    """Folder of compiled files, cached under a key.

    The key contains everything that the files depend on, such as code, options, versions and the kind of machine.
    `make` compiles the files again if one of them is missing or damaged, or if writing them was interrupted.
    """

    def __init__(self, root: Path | None, name: str, key: Mapping[str, str]) -> None:
        """Determine the path of the artefact's folder. Nothing is read or written yet.

        Args:
            root: The folder that contains all artefacts. If None, use a temporary folder, which is deleted at exit.
            name: The start of the folder's name, such as the name of the backend.
            key: Everything that the files depend on. Its hash completes the folder's name.
        """
        text = json.dumps(key, sort_keys=True)
        self.folder = (root or _temporary_root()) / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def use(self) -> bool:
        """Check that the artefact is complete, and update the time of its last use.

        Returns:
            Whether every file that the manifest lists is present and has the SHA-256 digest listed for it.
        """
        try:
            files = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            is_complete = bool(files) and all(_digest(self.folder / name) == digest for name, digest in files.items())
        except (OSError, ValueError, AttributeError, RecursionError):
            return False
        with suppress(OSError):
            os.utime(self.folder)
        return is_complete

    def make(self, write: Callable[[Path], None], *, elsewhere: bool = True) -> Path:
        """Return the folder with all compiled files. Compile the files first if any are missing or damaged.

        Args:
            write: Function that fills an empty folder with the compiled files.
            elsewhere: Whether to compile into a temporary folder if the disk is full or the folder cannot be written
                to.

        Raises:
            OSError: The files cannot be written, and `elsewhere` is False.
        """
        try:
            return self._make(write)
        except Exception as error:
            is_storage_error = isinstance(error, OSError) or is_disk_full(str(error))
            if not is_storage_error or not elsewhere or self.folder.parent == _temporary_root():
                raise
        self.folder = _temporary_root() / self.folder.name
        return self._make(write)

    def _make(self, write: Callable[[Path], None]) -> Path:
        if self.use():
            return self.folder
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder.with_name(f".{self.folder.name}.lock"), fallback_to_soft=False)
        with suppress(OSError):  # the file system may not support locks, or the other process may hang
            lock.acquire(timeout=MAX_WAIT, cancel_check=PROCESS_ENDS.is_set)
        try:
            if not self.use():
                if lock.is_locked:
                    for abandoned in self.folder.parent.glob(f".{self.folder.name}.*.new"):  # left by killed processes
                        shutil.rmtree(abandoned, ignore_errors=True)
                self._write(write)
        finally:
            lock.release()
        return self.folder

    def _write(self, write: Callable[[Path], None]) -> None:
        """Call `write` with a new folder. When all files are complete, rename this folder to the artefact's folder."""
        staging = self.folder.with_name(f".{self.folder.name}.{uuid4().hex}.new")
        staging.mkdir()
        try:
            write(staging)
            names = sorted(file.relative_to(staging).as_posix() for file in staging.rglob("*") if file.is_file())
            manifest = json.dumps({name: _digest(staging / name) for name in names}, indent=2)
            (staging / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
            shutil.rmtree(self.folder, ignore_errors=True)  # an incomplete or damaged artefact
            staging.rename(self.folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def is_disk_full(text: str) -> bool:
    """Return whether an error message reports that the operating system could not store a file.

    Possible causes are a full disk, an exceeded quota, a file that is too large, or a read-only file system.
    """
    return any(os.strerror(code) in text for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@cache
def _temporary_root() -> Path:
    """Create the temporary folder of this process, which is deleted when the process ends."""
    folder = tempfile.mkdtemp(prefix="zoo-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)

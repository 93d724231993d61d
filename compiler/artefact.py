"""What a backend has compiled, kept in a folder under a name that says what it was made from."""

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
except ImportError:  # a system without it
    fcntl = None  # type: ignore[assignment]

MANIFEST = "manifest.json"


class Artefact:
    """A folder of files that follow from `key` alone: code, options, versions, kind of machine.

    It is a cache, never the model: whatever in it is missing, damaged or half written is made again, never trusted.
    `root` None is a folder that ends with the process.
    """

    def __init__(self, root: Path | None, name: str, key: Mapping[str, str]) -> None:
        text = json.dumps(key, sort_keys=True)
        self.folder = (root or _passing()) / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def whole(self) -> bool:
        """Whether every file is there as it was written."""
        try:
            files = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            return bool(files) and all(_digest(self.folder / name) == digest for name, digest in files.items())
        except (OSError, ValueError, AttributeError):
            return False

    def make(self, write: Callable[[Path], None]) -> Path:
        """Its folder; `write` fills an empty one first, unless it is there already."""
        try:
            return self._made(write)
        except Exception as error:
            # A folder that cannot be written to, or has no room, is no reason not to run.
            if self.folder.parent == _passing() or not _has_no_room(error):
                raise
        self.folder = _passing() / self.folder.name
        return self._made(write)

    def _made(self, write: Callable[[Path], None]) -> Path:
        if self.whole():
            with suppress(OSError):
                os.utime(self.folder)  # when it was last used
            return self.folder
        self._sweep()
        with self._beside() as beside:
            write(beside)
            names = sorted(file.relative_to(beside).as_posix() for file in beside.rglob("*") if file.is_file())
            manifest = json.dumps({name: _digest(beside / name) for name in names}, indent=2)
            (beside / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
            self._replace(beside)
        return self.folder

    @contextmanager
    def _beside(self) -> Iterator[Path]:
        """A new folder next to it, open to those whom the user lets read new folders; what is in it then goes.

        It is locked for as long as we live, before it has the name by which `_sweep` finds it.
        """
        beside = self.folder.with_name(f".{self.folder.name}.{uuid4().hex}")
        new = beside.with_name(f"{beside.name}.new")
        new.mkdir(parents=True)
        descriptor = os.open(new, os.O_RDONLY)
        try:
            with suppress(OSError):  # a file system without locks
                _lock(descriptor)
            new.rename(beside)
            yield beside
        finally:
            for each in (new, beside):
                shutil.rmtree(each, ignore_errors=True)
            os.close(descriptor)

    def _sweep(self) -> None:
        """Removes what processes that were killed had begun to write, before it is written anew."""
        for left in self.folder.parent.glob(f".{self.folder.name}.{'[0-9a-f]' * 32}"):
            with suppress(OSError):  # its process lives, or there are no locks
                descriptor = os.open(left, os.O_RDONLY)
                try:
                    _lock(descriptor)
                    shutil.rmtree(left, ignore_errors=True)
                finally:
                    os.close(descriptor)

    def _replace(self, beside: Path) -> None:
        for _ in range(3):
            if self.whole():  # another process was quicker
                return
            with self._beside() as gone, suppress(OSError):  # it was moved or put there meanwhile
                if self.folder.exists():
                    os.replace(self.folder, gone / "old")
                os.rename(beside, self.folder)
                return
        raise OSError(f"cannot write `{self.folder}`: something keeps taking its place")


def _lock(descriptor: int) -> None:
    """Raises OSError where another one has it, or where there are no locks."""
    if fcntl is None:
        raise OSError("this system has no locks")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _has_no_room(error: Exception) -> bool:
    """Of the system's errors, and of what a compiler says that met one of them."""
    return isinstance(error, OSError) or is_of_room(str(error))


def is_of_room(words: str) -> bool:
    """Whether the system's words for a disk that is full, or may not be written to, are among these."""
    return any(os.strerror(code) in words for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS))


def _digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@cache
def _passing() -> Path:
    """Ends with the process, but for what the system may then still have open."""
    holder = tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True)
    _HOLDERS.append(holder)
    return Path(holder.name)


_HOLDERS: list[tempfile.TemporaryDirectory[str]] = []

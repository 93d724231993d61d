"""A fence around a case's folder: Python's own writes outside it are refused before they happen, native ones seen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostile.judge import Wrong

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {  # the places of paths among an event's arguments, and of the folders that they may start from
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}
_DEVICES = ("/dev/null", "/dev/full", "/dev/tty", "/dev/stdout", "/dev/stderr")


class Escaped(BaseException):
    """Something was about to be written outside the folder."""


class Fence:
    """Of this process; there is one, since what Python audits cannot be left alone again."""

    def __init__(self) -> None:
        self._folder: str | None = None
        sys.addaudithook(self._hear)

    @contextmanager
    def around(self, folder: Path, *others: Path) -> Iterator[None]:
        """Raises Escaped where Python writes outside `folder`, Wrong where anything in `others` has changed."""
        before = _state(others)
        self._folder = os.path.realpath(folder)
        try:
            yield
        finally:
            self._folder = None
        if (after := _state(others)) != before:
            raise Wrong(f"written outside its folder: {sorted(set(after.items()) ^ set(before.items()))[:4]}")

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._folder is None:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and isinstance(flags, int) and flags & _WRITES:
                self._hold(event, os.path.realpath(os.fsdecode(path)))
            return
        for at, start in _PATHS.get(event, ()):
            path, beside = arguments[at], -1 if start is None else arguments[start]
            if isinstance(path, str | bytes | os.PathLike):
                self._hold(event, _entry(os.fsdecode(path), beside))

    def _hold(self, event: str, path: str) -> None:
        inside = path == self._folder or path.startswith(f"{self._folder}{os.sep}")
        if not inside and not (event == "open" and path.startswith(_DEVICES)):
            raise Escaped(f"{event} of {path}, outside its folder")


def _entry(path: str, beside: object) -> str:
    """The place of a name, which may be a link's own."""
    if isinstance(beside, int) and beside >= 0 and not os.path.isabs(path):
        path = os.path.join(os.readlink(f"/proc/self/fd/{beside}"), path)
    folder, name = os.path.split(os.path.abspath(path))
    return os.path.join(os.path.realpath(folder), name)


def _state(folders: tuple[Path, ...]) -> dict[str, tuple[int, int]]:
    return {
        str(path): (status.st_size, status.st_mtime_ns)
        for folder in folders
        for path in (folder, *folder.rglob("*"))
        if (status := path.lstat())
    }

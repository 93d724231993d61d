"""What stands beside a place while that is written, and what is left there of processes that were killed."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import suppress
from pathlib import Path

REPLACED = ".replaced"
"""Ends the name of what was put aside, and not yet replaced."""
_MARK = ".partial-"


def beside(path: Path) -> Path:
    """Beside `path`, and nobody else's."""
    return path.absolute().with_name(f".{path.name}{_mark()}{os.getpid()}.{threading.get_ident()}")


def begun(name: str) -> str | None:
    """What a file or folder of this name is half-written, or half removed, of; None where it is no such name."""
    place, mark, _ = name.partition(_MARK)
    return place.removeprefix(".") if mark and place.startswith(".") else None


def put_back(folder: Path) -> None:
    """What a process was killed over while it replaced it is put back, where nothing stands in its place.

    That can be only where a file system cannot exchange two folders. Whatever machine the process was on: one that
    lives finds its place taken, and tries again.
    """
    with suppress(OSError):  # no such folder, or one that is not ours to change
        left = [(each.stat().st_mtime_ns, each) for each in folder.iterdir() if each.name.endswith(REPLACED)]
        for _, aside in sorted(left, reverse=True):  # the newest is what stood there last
            name, mark, _ = aside.name.rpartition(_MARK)
            place = folder / name.removeprefix(".")
            if mark and not os.path.lexists(place):
                aside.rename(place)


def sweep(folder: Path) -> None:
    """Removes what processes of this machine that were killed left half-written in `folder`; see `put_back`.

    What is another user's, and may not be removed, stays.
    """
    put_back(folder)
    if os.name != "posix" or not folder.is_dir():
        return
    for left in folder.iterdir():
        _, mark, process = left.name.partition(_mark())
        number = process.partition(".")[0]
        if mark and number.isdigit() and not _alive(int(number)):
            with suppress(OSError):
                remove(left)


def remove(path: Path) -> None:
    """Whatever it is, and if it is there at all."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _mark() -> str:
    return f"{_MARK}{socket.gethostname()}-"


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True

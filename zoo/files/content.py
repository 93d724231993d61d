"""What a file holds: regular files alone, none without end, and what stands in the way of reading told apart."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from specs import ZooError
from zoo.report import size

MOST = 20_000_000
"""Bytes: no small file of ours (a spec, a JSON, a usual vocabulary) comes near."""
VOCABULARY_BYTES = 100_000_000
"""Of a million tokens."""
_NONBLOCKING = getattr(os, "O_NONBLOCK", 0)  # a FIFO would wait for its writer


class Unreadable(ZooError):
    """What a file holds cannot be looked at: nothing says that it is damaged."""


def content(path: Path, most: int = MOST) -> bytes:
    """All of a small file. Raises ZooError as `opened` does, and where it has more than `most` bytes."""
    with opened(path) as file:
        if (found := os.fstat(file.fileno()).st_size) > most:
            raise ZooError(f"`{path}` is damaged: it has {size(found)}, and {size(most)} at most", exit_code=1)
        return file.read(found + 1)


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """A file to be read. Raises ZooError where it is missing, may not be read, fails, or is no regular file."""
    with _told(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | _NONBLOCKING)
        except ValueError:  # a name that no file can have
            raise FileNotFoundError from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError
    with os.fdopen(descriptor, "rb") as file, _told(path):
        yield file


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """The system's errors as ours."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise ZooError(f"`{path}` is missing", exit_code=1) from None
    except IsADirectoryError:
        raise ZooError(f"`{path}` is not a regular file", exit_code=1) from None
    except PermissionError:
        hint = "ask whoever owns it for leave: `chmod a+rX` gives it to all"
        raise Unreadable(f"`{path}` may not be read by this user", hint=hint, exit_code=1) from None
    except OSError as error:
        raise Unreadable(f"`{path}` cannot be read: {error.strerror or error}", exit_code=1) from None


def stands(path: Path) -> bool:
    """Whether a regular file is there, or something that this user may not look at: who opens it hears of that."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):  # nothing, or a name that no file can have
        return False

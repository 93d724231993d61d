"""Read files of limited size, with errors that explain why a file cannot be read."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

from specs import ZooError
from zoo.report import size

MAX_BYTES = 20_000_000
"""Default size limit for small files, in bytes. Specs, JSON files and usual vocabularies are much smaller.

Parsed JSON takes about thirty times as much memory as its file.
"""
MAX_VOCABULARY_BYTES = 100_000_000
"""Size limit for a vocabulary file, in bytes. It is enough for a million tokens."""


class UnreadableError(ZooError):
    """A file cannot be read now but may be intact, for example because of missing permissions or a missing package."""


def damaged(file: Path | str, reason: str, hint: str = "restore the file from its source") -> ZooError:
    """Create the ZooError for a damaged file."""
    return ZooError(f"`{file}` is damaged: {reason}", hint=hint, exit_code=1)


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a small file.

    Raises:
        ZooError: The file has more than `max_bytes` bytes, or `open_file` fails.
    """
    with open_file(path) as file:
        if (actual := os.fstat(file.fileno()).st_size) > max_bytes:
            raise damaged(path, f"it is {size(actual)}, but a file of this kind is at most {size(max_bytes)}")
        return file.read(actual + 1)


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the content of a small file in UTF-8.

    Raises:
        ZooError: The content is not UTF-8, or `read_bytes` fails.
    """
    try:
        return read_bytes(path, max_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, f"byte {error.start + 1} is not UTF-8", "save the file as UTF-8") from None


@contextmanager
def open_file(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading.

    Raises:
        ZooError: The file is missing or is not a regular file.
        UnreadableError: The user lacks permission to read the file, or reading fails.
    """
    with _convert_errors(path):
        try:
            # Without O_NONBLOCK, opening a FIFO would block until a process writes to it.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except ValueError:  # the name contains a null byte
            raise FileNotFoundError from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise IsADirectoryError
    with os.fdopen(descriptor, "rb") as file, _convert_errors(path):
        yield file


@contextmanager
def _convert_errors(path: Path) -> Iterator[None]:
    """Convert operating system errors to ZooErrors with the path of the file in the message."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise ZooError(f"`{path}` is missing", hint="check the path of the file", exit_code=1) from None
    except IsADirectoryError:
        raise ZooError(f"`{path}` is a folder, pipe or device, not a file", exit_code=1) from None
    except PermissionError:
        hint = "ask its owner for permission (`chmod a+rX` lets everybody read it)"
        raise UnreadableError(f"you do not have permission to read `{path}`", hint=hint, exit_code=1) from None
    except OSError as error:
        raise UnreadableError(f"`{path}` cannot be read: {error.strerror or error}", exit_code=1) from None


def file_exists(path: Path) -> bool:
    """Return whether there is a regular file at this path.

    If the user lacks permission to find out, return True. Opening the file then raises `UnreadableError`.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):  # no such file, or a name that no file can have
        return False


def is_present(path: Path) -> bool:
    """Return whether there is anything at this path, even a folder, a FIFO or a dangling link.

    Importers use this function for optional model files. If a file is present but unreadable, importers then
    report an error instead of ignoring the file.
    """
    return os.path.lexists(path)


def read_json(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the JSON object in a file of at most `max_bytes` bytes.

    Raises:
        ZooError: The file cannot be read, or does not contain a JSON object.
    """
    try:
        value = parse_json(read_bytes(path, max_bytes))
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise damaged(path, "it is not a JSON object")
    return value


def parse_json(content: bytes) -> Any:
    """Parse JSON strictly. NaN and infinity, which Python's parser accepts, are errors.

    Raises:
        ValueError: The content is not valid JSON.
        RecursionError: The content is nested too deeply.
    """

    def reject(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a JSON number")

    return json.loads(content, parse_constant=reject)

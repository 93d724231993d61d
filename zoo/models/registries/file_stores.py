"""Storage for a registry's files: the interface, and its implementation for local folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from specs import ZooError
from zoo.files.atomic import atomic_file, convert_disk_errors, create_file
from zoo.files.reading import file_exists, open_file, read_bytes
from zoo.files.storage import require_space
from zoo.report import Progress, Report

MARKER = "registry.json"
"""File that marks a location as a registry."""
_CHUNK = 1 << 20
_REVISION_PATH = re.compile(r"([^/]*)/(\d{1,9})\.json\Z")


class FileStore(Protocol):
    """Read access to the files in a registry.

    Paths are relative to the registry and use slashes. All methods raise ZooError if the registry is unreachable.
    """

    @property
    def address(self) -> str:
        """The address of the registry."""

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a small file, or None if the file does not exist.

        Raises:
            ZooError: The file has more than `max_bytes` bytes.
        """

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        """Download a file of `size` bytes to `partial`.

        If `partial` exists, it contains the beginning of the file, and the download is resumed. On failure, `partial`
        is kept.
        """

    def newest_revisions(self) -> dict[str, int] | None:
        """Return the newest revision number of each model, keyed by name, or None if the store cannot list files."""


@runtime_checkable
class WritableFileStore(FileStore, Protocol):
    """Read and write access to the files in a registry. Writing is atomic: a file is complete or does not exist."""

    def has(self, path: str, size: int) -> bool:
        """Return whether the file exists and has `size` bytes."""

    def put(self, path: str, file: Path, progress: Progress) -> None:
        """Upload a local file to `path`."""

    def write(self, path: str, content: bytes, *, replace: bool) -> bool:
        """Write a small file, and return True. If the file exists and `replace` is False, keep it and return False.

        If several processes call this without `replace` at the same time, exactly one creates the file.
        """


@dataclass(frozen=True)
class FolderStore:
    """Registry files in a local or shared folder. The folder does not have to exist yet."""

    folder: Path

    @property
    def address(self) -> str:
        """The path of the folder."""
        return str(self.folder)

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """Return the content of a small file, or None if the file does not exist."""
        file = self.folder / path
        return read_bytes(file, max_bytes) if file_exists(file) else None

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        """Copy a file to `partial`, or resume an interrupted copy."""
        if not file_exists(self.folder / path):
            raise missing_blob(self.address, path)
        label = f"copying {partial.stem}"
        with report.progress(label, size, "bytes") as progress, open_file(self.folder / path) as source:

            def read(offset: int) -> bytes:
                source.seek(offset)
                return source.read(_CHUNK)

            append_chunks(partial, size, read, progress)

    def newest_revisions(self) -> dict[str, int]:
        """Return the newest revision number of each model, keyed by model name."""
        return newest_numbers([path.as_posix() for path in self.folder.glob("models/*/*.json")])

    def has(self, path: str, size: int) -> bool:
        """Return whether the file exists and has `size` bytes."""
        file = self.folder / path
        return file_exists(file) and file.stat().st_size == size

    def put(self, path: str, file: Path, progress: Progress) -> None:
        """Copy a local file to `path` atomically."""
        final = self.folder / path
        require_space(final.parent, file.stat().st_size, f"`{path}`")
        # A failed write is an error of `final`, not of `file`, so `atomic_file` is inside `open_file`.
        with open_file(file) as source, atomic_file(final) as partial, partial.open("wb") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)
                progress.advance(len(chunk))

    def write(self, path: str, content: bytes, *, replace: bool) -> bool:
        """Write a small file atomically. Return False if the file exists and `replace` is False."""
        if not replace:
            return create_file(self.folder / path, content)
        with atomic_file(self.folder / path) as partial:
            partial.write_bytes(content)
        return True


def append_chunks(partial: Path, size: int, read: Callable[[int], bytes], progress: Progress) -> None:
    """Copy the rest of a file in chunks, until the local copy is complete or the source ends.

    Args:
        partial: The local copy, which may already contain the beginning of the file.
        size: The number of bytes in the complete file.
        read: Function that returns the next bytes of the source, given an offset. It returns no bytes at the end.
        progress: Progress bar to advance by the number of copied bytes.
    """
    with convert_disk_errors(partial), partial.open("ab") as target:
        progress.advance(target.tell())
        while target.tell() < size and (chunk := read(target.tell())):
            target.write(chunk)
            target.flush()
            progress.advance(len(chunk))


def missing_blob(address: str, path: str) -> ZooError:
    """Return the ZooError for a blob (file content) that belongs to a revision but is missing in the registry."""
    hint = "publish the model there again, which uploads missing files, or pull another revision"
    return ZooError(f"`{address}/{path}` is missing", hint=hint, exit_code=1)


def newest_numbers(paths: list[str]) -> dict[str, int]:
    """Return the largest N for each NAME in paths such as `.../NAME/N.json`."""
    newest: dict[str, int] = {}
    for path in paths:
        if match := _REVISION_PATH.search(path):
            newest[match[1]] = max(newest.get(match[1], 0), int(match[2]))
    return newest

"""`manifest.json`: the size and the SHA-256 of each file in a folder, to detect damage."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field, TypeAdapter

from specs import ZooError
from specs.notation import quote
from zoo.files.atomic import write_json
from zoo.files.reading import MAX_BYTES, damaged, open_file, read_bytes, read_json
from zoo.report import sizes

NAME = "manifest.json"
_RESTORE_HINT = (
    "restore the folder from its source: a published model with `zoo pull`, `zoo import` or `zoo publish`; for a "
    "prepared corpus, remove the folder and run `zoo prepare` again"
)
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
"""SHA-256 in hexadecimal."""


@dataclass(frozen=True)
class ManifestEntry:
    """SHA-256 of a file and its size in bytes, recorded when the file was written.

    pydantic checks the constraints in the annotations when the entry is read from JSON.
    """

    sha256: Digest
    bytes: Annotated[int, Field(strict=True, ge=0, lt=10**15)]


ENTRY = TypeAdapter(ManifestEntry)
"""Parser for the entries in JSON files. It raises `ValueError` if an entry is not valid."""


@dataclass(frozen=True)
class Manifest:
    """Names, sizes and hashes of the files in a folder, recorded when the files were written."""

    folder: Path
    entries: Mapping[str, ManifestEntry]

    def read_file(self, name: str, max_bytes: int = MAX_BYTES) -> bytes:
        """Return the content of a small file, after checking it against the manifest.

        Raises:
            ZooError: The file has changed since it was written, or has more than `max_bytes` bytes.
        """
        entry, path = self._entry(name), path_inside(self.folder, name)
        content = read_bytes(path, max_bytes)
        _require_size(path, len(content), entry)
        if hashlib.sha256(content).hexdigest() != entry.sha256:
            raise _changed(path)
        return content

    def check_file(self, name: str, *, hashed: bool = True) -> None:
        """Check that a file has not changed since it was written: its size and, if `hashed` is true, its SHA-256.

        Raises:
            ZooError: The file is missing or has changed.
        """
        entry, path = self._entry(name), path_inside(self.folder, name)
        with open_file(path) as file:
            _require_size(path, os.fstat(file.fileno()).st_size, entry)
            if hashed and hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
                raise _changed(path)

    def _entry(self, name: str) -> ManifestEntry:
        if name not in self.entries:
            raise damaged(self.folder / NAME, f"it has no entry for {quote(name)}", _RESTORE_HINT)
        return self.entries[name]


def path_inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, after checking that the path does not lead out of the folder.

    Raises:
        ZooError: The path is a link that points outside the folder.
    """
    path = folder / name
    if not os.path.realpath(path).startswith(os.path.join(os.path.realpath(folder), "")):
        hint = "if you trust the link's target, copy it into the folder in place of the link"
        raise damaged(path, "it is a link to a file outside its folder", hint)
    return path


def read(folder: Path) -> Manifest:
    """Read the manifest of a folder. Reject names that point outside the folder.

    Raises:
        ZooError: The manifest is missing or damaged.
    """
    path = folder / NAME
    values = read_json(path)
    if not values:
        raise damaged(path, "it lists no files", _RESTORE_HINT)
    return Manifest(folder, {name: _parse_entry(path, name, value) for name, value in values.items()})


def _parse_entry(file: Path, name: str, value: object) -> ManifestEntry:
    path = PurePosixPath(name)
    is_inside = path.parts and str(path) == name and not path.is_absolute() and ".." not in path.parts
    if not is_inside or not name.isprintable():
        raise damaged(file, f"{quote(name)} is not a valid file name", _RESTORE_HINT)
    try:
        return ENTRY.validate_python(value)
    except ValueError:
        raise damaged(file, f"the entry of {quote(name)} has no valid size and SHA-256", _RESTORE_HINT) from None


def write(folder: Path) -> None:
    """Write a manifest of all files that are in the folder now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / NAME)
    entries = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files
    }
    write_json(folder / NAME, entries)


def check(folder: Path, names: Iterable[str] | None = None, *, hashed_bytes: int | None = None) -> bool:
    """Check files in a folder against its manifest.

    Args:
        folder: Folder that contains the files and their manifest.
        names: The files to check. The default is all files in the manifest.
        hashed_bytes: Compare hashes if all files together have at most this many bytes, otherwise compare only sizes.
            If None, always compare hashes.

    Returns:
        Whether the files were hashed.

    Raises:
        ZooError: A file is missing or has changed. The error message contains its path.
    """
    manifest = read(folder)
    hashed = hashed_bytes is None or sum(entry.bytes for entry in manifest.entries.values()) <= hashed_bytes
    for name in names or manifest.entries:
        manifest.check_file(name, hashed=hashed)
    return hashed


def _require_size(path: Path, actual: int, entry: ManifestEntry) -> None:
    if actual != entry.bytes:
        actual_text, expected_text = sizes(actual, entry.bytes)
        raise damaged(path, f"it is {actual_text} instead of {expected_text}", _RESTORE_HINT)


def _changed(path: Path) -> ZooError:
    return damaged(path, f"its SHA-256 differs from the one in `{NAME}`", _RESTORE_HINT)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        ZooError: The file cannot be read.
    """
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_identity(file: Path) -> tuple[int, ...]:
    """Return properties of a file or folder, such as its size and inode, that change when it is modified or replaced.

    Raises:
        OSError: The file does not exist.
    """
    state = file.stat()
    return state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns

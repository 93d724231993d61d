"""`manifest.json`: the size and the SHA-256 of every file of a folder, so that no damage goes unseen."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256 as hashed_with
from pathlib import Path, PurePosixPath

from specs import ZooError
from specs.notation import quote
from zoo.files import digests
from zoo.files.content import MOST, content, opened
from zoo.files.files import read_json, sha256, write_json
from zoo.report import sizes

NAME = "manifest.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """A file as it was written."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a folder held when it was written, by the names of its files."""

    folder: Path
    entries: Mapping[str, Entry]
    identity: Mapping[str, int]
    """Of its own file: another one, once the folder was replaced."""

    @property
    def current(self) -> bool:
        """Whether it is still the one that stands in the folder."""
        try:
            return digests.identity(self.folder / NAME) == self.identity
        except OSError:
            return False

    def content(self, name: str, most: int = MOST) -> bytes:
        """All of a small file. Raises ZooError where it is not as it was written, or has more than `most` bytes."""
        entry, path = self._entry(name), self.place(name)
        found = content(path, most)
        self._check_size(path, len(found), entry)
        if hashed_with(found).hexdigest() != entry.sha256:
            raise _changed(path)
        return found

    def hold(self, name: str, *, anew: bool = False) -> None:
        """Raises ZooError where a file is not as it was written; hashed only if that was not done before, or `anew`."""
        entry, path = self._entry(name), self.place(name)
        self.check_size(name)
        if sha256(path) != entry.sha256 if anew else not digests.holds(path, entry.sha256, lambda: sha256(path)):
            raise _changed(path)

    def check_size(self, name: str) -> None:
        """Raises ZooError where a file is missing, or has another size than it was written with."""
        entry, path = self._entry(name), self.place(name)
        with opened(path) as file:
            self._check_size(path, os.fstat(file.fileno()).st_size, entry)

    def place(self, name: str) -> Path:
        """Of a file. Raises ZooError where a link leads out of the folder: who opens it has asked before."""
        path = self.folder / name
        inside = os.path.join(os.path.realpath(self.folder), "")
        if not os.path.realpath(path).startswith(inside):
            hint = "put the file itself in its place, if you trust where it leads"
            raise ZooError(f"`{path}` is damaged: it is a link out of its folder", hint=hint, exit_code=1)
        return path

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise _damaged(self.folder, f"it does not say enough ({quote(name)})")
        return self.entries[name]

    def _check_size(self, path: Path, found: int, entry: Entry) -> None:
        if found != entry.bytes:
            has, had = sizes(found, entry.bytes)
            raise ZooError(f"`{path}` is damaged: it has {has}, not {had}", exit_code=1)


def read(folder: Path) -> Manifest:
    """The manifest of a folder. Raises ZooError where it is not there, or damaged: no name in it leads elsewhere."""
    path = folder / NAME
    try:
        identity = digests.identity(path)  # before it is read: one that is replaced meanwhile is not the current one
    except OSError:
        identity = {}
    found = read_json(path)
    if not found:
        raise _damaged(folder, "it names no file")
    entries = {}
    for name, entry in found.items():
        inside = PurePosixPath(name)
        leads_in = inside.parts and str(inside) == name and not inside.is_absolute() and ".." not in inside.parts
        if not leads_in or not name.isprintable():
            raise _damaged(folder, f"{quote(name)} names no file of its folder")
        said = (entry.get("bytes"), entry.get("sha256")) if isinstance(entry, dict) else (None, None)
        if type(said[0]) is not int or not isinstance(said[1], str) or not _DIGEST.fullmatch(said[1]):
            raise _damaged(folder, f"it does not say enough ({quote(name)})")
        entries[name] = Entry(said[0], said[1])
    return Manifest(folder, entries, identity)


def write(folder: Path) -> None:
    """Of all files that are in the folder now."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / NAME)
    listed = {
        path.relative_to(folder).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files
    }
    write_json(folder / NAME, listed)


def check(folder: Path, names: Iterable[str] | None = None, *, hashed_bytes: int | None = None) -> bool:
    """Raises ZooError, naming the file, unless these files (all that are listed, without `names`) are as written.

    Where the folder has more than `hashed_bytes`, sizes alone are looked at, and False is returned.
    """
    listed = read(folder)
    hashed = hashed_bytes is None or sum(entry.bytes for entry in listed.entries.values()) <= hashed_bytes
    for name in names or listed.entries:
        if hashed:
            listed.hold(name, anew=True)
        else:
            listed.check_size(name)
    return hashed


def _damaged(folder: Path, reason: str) -> ZooError:
    return ZooError(f"`{folder / NAME}` is damaged: {reason}", exit_code=1)


def _changed(path: Path) -> ZooError:
    return ZooError(f"`{path}` is damaged: its content is not what was written", exit_code=1)

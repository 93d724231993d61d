"""`manifest.json`: the size and the SHA-256 of every file of a folder, so that no damage goes unseen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from specs import ZooError
from zoo.report import size
from zoo.storage.files import read_json, sha256, write_json

NAME = "manifest.json"


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
    listed = read_json(folder / NAME)
    if not listed:
        raise ZooError(f"`{folder / NAME}` is damaged: it names no file", exit_code=1)
    try:
        whole = sum(int(entry["bytes"]) for entry in listed.values())
        wanted = {name: (int(listed[name]["bytes"]), str(listed[name]["sha256"])) for name in names or listed}
    except (KeyError, TypeError, ValueError) as error:
        raise ZooError(f"`{folder / NAME}` is damaged: it does not say enough ({error})", exit_code=1) from None
    hashed = hashed_bytes is None or whole <= hashed_bytes
    for name, (bytes_, digest) in wanted.items():
        path = folder / name
        if not path.is_file():
            raise ZooError(f"`{path}` is missing", exit_code=1)
        if (found := path.stat().st_size) != bytes_:
            raise ZooError(f"`{path}` is damaged: it has {size(found)}, not {size(bytes_)}", exit_code=1)
        if hashed and sha256(path) != digest:
            raise ZooError(f"`{path}` is damaged: its content is not what was written", exit_code=1)
    return hashed

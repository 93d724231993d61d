"""A place that holds a registry's files, by paths with slashes between: what can be asked of any."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from specs import ZooError
from zoo.report import Progress, Report

MARK = "registry.json"
"""The file that says of a place that it is a registry."""


class Place(Protocol):
    """Where files can be read. All of it raises ZooError where the place cannot be reached."""

    @property
    def address(self) -> str: ...

    @property
    def outside(self) -> bool:
        """Whether it is on the network."""
        ...

    def read(self, path: str, most: int) -> bytes | None:
        """A small file; None where there is none. Raises ZooError where it has more than `most` bytes."""
        ...

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        """Brings a file of so many bytes into `partial`, which may hold its beginning; what has arrived stays."""
        ...

    def revisions(self) -> dict[str, int] | None:
        """The newest number of every name that leads to no other, of what is listed under models/.

        None where nothing can be listed.
        """
        ...


@runtime_checkable
class Writable(Place, Protocol):
    """Where files can be written, too: each is whole, or not there."""

    def has(self, path: str, size: int) -> bool:
        """Whether a file of this size is there."""
        ...

    def put(self, path: str, file: Path, progress: Progress) -> None:
        """Copies a file there."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Writes a file where there is none; whether it was this call that did, of all that try at once."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Writes a file, whatever is there."""
        ...


def missing(address: str, path: str) -> ZooError:
    """The error for a blob that a revision names."""
    hint = "publish the model there again, which brings what is missing; or pull another revision"
    return ZooError(f"`{address}/{path}` is missing", hint=hint, exit_code=1)


def newest_of(paths: list[str]) -> dict[str, int]:
    """The largest N of each NAME in paths that end in `NAME/N.json`, where none ends in `NAME/forward.json`."""
    found: dict[str, int] = {}
    old = {path.split("/")[-2] for path in paths if path.endswith("/forward.json")}
    for path in paths:
        name, _, file = path.rpartition("/")
        name, number = name.rpartition("/")[2], file.removesuffix(".json")
        if name not in old and number.isdecimal() and f"{number}.json" == file and len(number) < 10:
            found[name] = max(found.get(name, 0), int(number))
    return found

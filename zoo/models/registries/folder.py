"""A registry in a folder: of this machine, or of a disk that several share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from zoo.files.content import content, opened, stands
from zoo.files.files import create, explained, require_space, writing
from zoo.models.registries.place import missing, newest_of
from zoo.report import Progress, Report

_CHUNK = 1 << 20


@dataclass(frozen=True)
class Folder:
    """It may not exist yet."""

    folder: Path
    outside = False

    @property
    def address(self) -> str:
        return str(self.folder)

    def read(self, path: str, most: int) -> bytes | None:
        file = self.folder / path
        return content(file, most) if stands(file) else None

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        begun = partial.stat().st_size if partial.exists() else 0
        if not stands(self.folder / path):
            raise missing(self.address, path)
        with (
            report.progress(f"copying {partial.stem}", size, "bytes") as progress,
            explained(partial),
            partial.open("ab") as copy,
            opened(self.folder / path) as file,
        ):
            file.seek(begun)
            progress.advance(begun)
            while copy.tell() < size and (chunk := file.read(_CHUNK)):
                _written(chunk, copy, partial)
                progress.advance(len(chunk))

    def revisions(self) -> dict[str, int]:
        return newest_of([each.as_posix() for each in self.folder.glob("models/*/*.json")])

    def has(self, path: str, size: int) -> bool:
        file = self.folder / path
        return stands(file) and file.stat().st_size == size

    def put(self, path: str, file: Path, progress: Progress) -> None:
        place = self.folder / path
        require_space(place.parent, file.stat().st_size, f"`{path}`")
        with writing(place) as partial, partial.open("wb") as copy, opened(file) as source:
            while chunk := source.read(_CHUNK):
                _written(chunk, copy, place)
                progress.advance(len(chunk))

    def create(self, path: str, content: bytes) -> bool:
        return create(self.folder / path, content)

    def replace(self, path: str, content: bytes) -> None:
        with writing(self.folder / path) as partial:
            partial.write_bytes(content)


def _written(chunk: bytes, copy: BinaryIO, path: Path) -> None:
    """What goes wrong is told of this path, and not of the file that is read."""
    with explained(path):
        copy.write(chunk)
        copy.flush()

"""A registry wherever fsspec can read: s3://, hf://, gs://, and what else is installed; in S3 it is written, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import fsspec
from fsspec.callbacks import Callback

from specs import ZooError
from zoo.files.files import explained
from zoo.models.registries.place import missing, newest_of
from zoo.report import Progress, Report, size

_CHUNK = 1 << 23
_EXTRAS = {"s3": "s3", "hf": "hf"}


class Remote:
    """Read only: fsspec has no word for "where there is none" that all of its file systems keep."""

    outside = True

    def __init__(self, address: str) -> None:
        self.address = address
        self._scheme = address.partition("://")[0]

    @cached_property
    def files(self) -> Any:
        """fsspec's, and none of its memory: what is there changes under it."""
        try:
            return fsspec.filesystem(self._scheme, skip_instance_cache=True, use_listings_cache=False)
        except ImportError as error:
            extra = _EXTRAS.get(self._scheme)
            hint = f"`pip install 'transformer-zoo[{extra}]'`" if extra else "install what the message names"
            raise ZooError(f"`{self.address}` cannot be reached: {error}", hint=hint) from None
        except ValueError as error:
            hint = "a registry is a folder, or begins with https://, s3:// or hf://"
            raise ZooError(f"`{self.address}` is no address of a registry: {error}", hint=hint) from None

    def read(self, path: str, most: int) -> bytes | None:
        try:
            # One byte more, so that a larger one is seen.
            found: bytes = self._bytes(path, 0, most + 1)
        except FileNotFoundError:
            return None
        if len(found) > most:
            raise ZooError(f"`{self._at(path)}` has more than the {size(most)} that it may have", exit_code=1)
        return found

    def fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        try:
            self._fetch(path, partial, size, report)
        except FileNotFoundError:
            raise missing(self.address, path) from None

    def _fetch(self, path: str, partial: Path, size: int, report: Report) -> None:
        begun = partial.stat().st_size if partial.exists() else 0
        with report.progress(f"fetching {partial.stem}", size, "bytes") as progress:
            progress.advance(begun)
            while begun < size:
                chunk = self._bytes(path, begun, min(begun + _CHUNK, size))
                if not chunk:
                    return
                with explained(partial), partial.open("ab") as file:
                    file.write(chunk)
                begun += len(chunk)
                progress.advance(len(chunk))

    def revisions(self) -> dict[str, int]:
        with self._told():
            try:
                return newest_of(list(self.files.find(self._at("models"))))
            except FileNotFoundError:
                return {}

    def _bytes(self, path: str, start: int, end: int) -> bytes:
        with self._told():
            found: bytes = self.files.cat_file(self._at(path), start=start, end=end)
            return found

    def _at(self, path: str) -> str:
        return f"{self.address}/{path}"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Each file system has errors of its own."""
        try:
            yield
        except (ZooError, FileNotFoundError):
            raise
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            hint = "look at the address, at who may read and write there, and at the network"
            raise ZooError(f"`{self.address}` cannot be reached: {reason[:300]}", hint=hint, exit_code=1) from error

    def _size(self, path: str) -> int | None:
        """Of what is there."""
        with self._told():
            try:
                return int(self.files.info(self._at(path))["size"])
            except FileNotFoundError:
                return None


class Bucket(Remote):
    """S3, and what speaks like it: an object that is being written is not there before all of it is."""

    def has(self, path: str, size: int) -> bool:
        return self._size(path) == size

    def put(self, path: str, file: Path, progress: Progress) -> None:
        with self._written():
            self.files.put_file(str(file), self._at(path), callback=_Counted(progress))

    def create(self, path: str, content: bytes) -> bool:
        with self._written():
            try:
                self.files.pipe_file(self._at(path), content, mode="create")  # If-None-Match
            except FileNotFoundError:
                raise
            except Exception:  # each store says in another way that it is taken
                if self._size(path) is None:
                    raise
                return False
        return True

    def replace(self, path: str, content: bytes) -> None:
        with self._written():
            self.files.pipe_file(self._at(path), content)

    @contextmanager
    def _written(self) -> Iterator[None]:
        with self._told():
            try:
                yield
            except FileNotFoundError as error:
                raise ZooError(
                    f"`{self.address}` cannot be written to: {error}", hint="make the bucket first"
                ) from None


class _Counted(Callback):  # type: ignore[misc]
    """fsspec's word for progress."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self._progress = progress

    def relative_update(self, inc: int = 1) -> None:
        super().relative_update(inc)
        self._progress.advance(inc)

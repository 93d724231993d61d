"""Registries of published models, with revisions.

A registry has these files:

    blobs/sha256/HEX        content of the models' files (blobs), named after their SHA-256
    models/NAME/N.json      revision N of a model; N counts from 1 without gaps, and a revision never changes
    registry.json           marks a registry, and gives its format
    index.json              list of the newest revisions, written after each publication; only a cache

A registry on a web server cannot list its files. The newest revision is therefore found by trying numbers.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from compiler.lazy import LazyModule
from specs import ZooError
from specs.spec import Name
from zoo.files import manifest, storage
from zoo.files.manifest import ManifestEntry, sha256
from zoo.files.reading import damaged, file_exists, read_bytes
from zoo.files.transfer import is_offline
from zoo.models.registries.file_stores import MARKER, FileStore, FolderStore, WritableFileStore
from zoo.models.registries.revision import (
    MAX_BYTES,
    IndexEntry,
    Record,
    Reference,
    Revision,
    Summary,
    parse_record,
)
from zoo.report import Report

if TYPE_CHECKING:
    from zoo.models.registries import remote_stores
else:
    remote_stores = LazyModule("zoo.models.registries.remote_stores")  # its libraries are slow to import

VARIABLE = "ZOO_REGISTRIES"
INCLUDED = Path(__file__).parents[2] / "included"
"""Folder of the registry that is part of the package: its models are available without network access."""
INDEX = "index.json"
_MAX_INDEX_BYTES = 100_000_000
_MAX_NUMBERS = 1000
_MAX_INDEX_WRITES = 5
_MARKER_CONTENT = b'{"format": 1}\n'
_ADDRESS_HINT = (
    "write a folder (`./NAME` if its name contains a colon) or a complete address, such as https://models.org/zoo or "
    "s3://bucket/zoo"
)
_INCOMPLETE_SCHEME = re.compile(r"[a-z][a-z0-9]+:(?!//)")  # such as `s3:/bucket`


class Index(Record):
    """Content of `index.json`: for each model, the revision that was the newest when the file was written."""

    format: Literal[1] = 1
    models: tuple[IndexEntry, ...]


@dataclass(frozen=True)
class Registry:
    """Registry of published models. All methods raise ZooError if the registry is unreachable or a file is damaged."""

    store: FileStore

    @property
    def address(self) -> str:
        """The address of the registry."""
        return self.store.address

    @property
    def is_remote(self) -> bool:
        """Whether the registry is on a server instead of in a folder."""
        return not isinstance(self.store, FolderStore)

    def absence(self) -> str | None:
        """Return the reason why there is no registry at the address, such as "does not exist".

        Return None if there is a registry.
        """
        if isinstance(self.store, FolderStore) and not self.store.folder.exists():
            return "does not exist"
        return "is not a registry" if self.store.read(MARKER, MAX_BYTES) is None else None

    def find(self, reference: Reference) -> Revision | None:
        """Return the revision that a reference selects, or None if the registry does not have it."""
        if reference.revision is not None:
            return self.revision(reference.name, reference.revision)
        return self.newest(reference.name)

    def describe_failure(self, reference: Reference) -> str:
        """Return the reason why the registry does not have a model, for an error message. The reason may be empty.

        For example, ` (which has revisions 1 to 3 of `NAME`)` explains why revision 4 was not found.
        """
        with suppress(ZooError):
            if (absence := self.absence()) is not None:
                return f" (which {absence})"
            if reference.pinned and (newest := self.newest(reference.name)) is not None:
                numbers = f"revisions 1 to {newest.revision}" if newest.revision > 1 else "revision 1"
                return f" (which has {numbers} of `{reference.name}`)"
        return ""

    def newest(self, name: str) -> Revision | None:
        """Find the newest revision of a model by bisection. Return None if the registry does not have the model."""
        read = cache(partial(self.revision, name))
        absent = 1
        while read(absent) is not None:
            absent *= 2
        # Revisions 1 to `absent // 2` exist, and revision `absent` does not.
        count = bisect_left(range(1, absent), True, lo=absent // 2, key=lambda number: read(number) is None)
        return read(count) if count else None

    def revision(self, name: str, number: int) -> Revision | None:
        """Return a revision of a model by its number, or None if the registry does not have it."""
        path = revision_path(name, number)
        content = self.store.read(path, MAX_BYTES)
        if content is None:
            return None
        earlier = f"use the earlier revision `{Reference(name, number - 1)}`, or " if number > 1 else ""
        hint = f"{earlier}ask the registry's owner to restore the file, or to remove it and publish again"
        revision = parse_record(Revision, content, f"{self.address}/{path}", hint)
        if (revision.name, revision.revision) != (name, number):
            problem = f"it describes `{revision.pin}` instead of `{Reference(name, number)}`"
            raise damaged(f"{self.address}/{path}", problem, hint)
        return revision

    def entries(self, on_error: Callable[[ZooError], None]) -> tuple[IndexEntry, ...]:
        """Return the newest revision of each model, sorted by name.

        Args:
            on_error: Function to call with the error if a revision cannot be read. The model's entry in the index is
                returned instead, if there is one.
        """
        numbers = self.store.newest_revisions()
        try:
            content = self.store.read(INDEX, _MAX_INDEX_BYTES)
            index = () if content is None else parse_record(Index, content, f"{self.address}/{INDEX}").models
            indexed = {entry.name: entry for entry in index}
        except ZooError:
            if numbers is None:
                raise
            indexed = {}  # ignore a damaged index, because the next publication writes it again
        if numbers is None:
            return tuple(indexed[name] for name in sorted(indexed))
        entries = []
        for name, number in sorted(numbers.items()):
            entry = indexed.get(name)
            try:
                if entry is None or entry.revision != number:
                    entry = revision.entry if (revision := self.revision(name, number)) else None
            except ZooError as error:
                on_error(error)
            if entry is not None:
                entries.append(entry)
        return tuple(entries)

    def publish(self, name: Name, folder: Path, summary: Summary, report: Report) -> Revision:
        """Publish a folder as the next revision of a model. The folder must not change during the upload.

        The blobs (file contents) are uploaded first, and then the revision that refers to them is created. If another
        process creates a revision with this number first, the next number is used.

        Returns:
            The new revision, or the existing newest revision if its content is the same.

        Raises:
            ZooError: The registry cannot be written to.
        """
        store = self.writable_store
        files = {file.name: ManifestEntry(sha256(file), file.stat().st_size) for file in sorted(folder.iterdir())}
        missing = {name: file for name, file in files.items() if not store.has(blob_path(file.sha256), file.bytes)}
        with report.progress("uploading", sum(file.bytes for file in missing.values()), "bytes") as progress:
            for file_name, file in missing.items():
                store.put(blob_path(file.sha256), folder / file_name, progress)
        newest, digest = self.newest(name), files[manifest.NAME].sha256
        for _ in range(_MAX_NUMBERS):
            if newest is not None and newest.digest == digest:
                return newest
            number = newest.revision + 1 if newest is not None else 1
            revision = Revision(name=name, revision=number, digest=digest, files=files, summary=summary)
            if store.write(revision_path(name, number), _to_json(revision), replace=False):
                return revision
            newest = self.revision(name, number) or newest
        problem = (
            f"`{name}` could not be published to `{self.address}`: other processes created the same revisions first"
        )
        raise ZooError(problem, hint="run the command again later", exit_code=1)

    def write_index(self, report: Report) -> None:
        """Write `index.json`. Write it again if another process publishes a model in the meantime.

        Warn about each revision that cannot be read. The index then keeps the previous entry for the model.
        """
        store, previous, warnings = self.writable_store, None, dict[str, None]()
        for _ in range(_MAX_INDEX_WRITES):
            warnings.clear()
            entries = self.entries(lambda error: warnings.update({error.summary: None}))
            if entries == previous:
                break
            previous = entries
            store.write(INDEX, _to_json(Index(models=entries)), replace=True)
        for warning in warnings:
            report.warn(warning)

    def require_writable(self) -> WritableFileStore:
        """Return the registry's file store if it can be written to. The check does not access the network.

        Raises:
            ZooError: The store is read-only, its path is a file, or it is remote and `ZOO_OFFLINE` is set.
        """
        store, problem = self.store, f"cannot publish to `{self.address}`"
        if not isinstance(store, WritableFileStore):
            hint = "publish to a folder, which a web server can then serve, or to an s3:// or hf:// address"
            raise ZooError(f"{problem}: it is read-only", hint=hint)
        if self.is_remote and is_offline():
            raise ZooError(f"{problem}: ZOO_OFFLINE is set", hint="unset ZOO_OFFLINE, or publish to a folder")
        if isinstance(store, FolderStore) and store.folder.exists() and not store.folder.is_dir():
            raise ZooError(f"{problem}: it is a file, not a folder", hint="publish to a folder")
        return store

    @cached_property
    def writable_store(self) -> WritableFileStore:
        """The registry's file store, for publishing. The first access creates the registry if needed.

        Raises:
            ZooError: The registry is read-only, or does not protect existing files from being overwritten.
        """
        store = self.require_writable()
        if all(store.write(MARKER, _MARKER_CONTENT, replace=False) for _ in range(2)):
            hint = "publish to a folder, or to a service that supports the HTTP header If-None-Match, as S3 does"
            problem = f"cannot publish to `{self.address}`: two processes could overwrite each other's files there"
            raise ZooError(problem, hint=hint)
        return store


def open_registry(address: str) -> Registry:
    """Return the registry at an address. This does not access the network.

    Args:
        address: A folder, or an http(s)://, s3:// or hf:// address.

    Raises:
        ZooError: The address is not valid.
    """
    if not address.strip():
        raise ZooError("the registry address is empty", hint=_ADDRESS_HINT)
    scheme, remainder, _ = address.partition("://")
    try:
        host = unquote(urlsplit(address).netloc)
    except ValueError:
        host = ""
    is_local = not remainder or scheme == "file"
    if is_local and not host and not _INCOMPLETE_SCHEME.match(address):
        folder = url2pathname(urlsplit(address).path) if remainder else address
        return Registry(FolderStore(Path(os.path.expanduser(folder)).absolute()))
    if is_local or not host or scheme not in remote_stores.STORES:
        raise ZooError(f"`{address}` is not the address of a registry", hint=_ADDRESS_HINT)
    return Registry(remote_stores.STORES[scheme](address.rstrip("/")))


@dataclass(frozen=True)
class Registries:
    """The configured registries.

    Attributes:
        searched: The registries to search, in order.
        skipped: Addresses of the registries that are not searched because `ZOO_OFFLINE` is set.
    """

    searched: Sequence[Registry]
    skipped: Sequence[str]

    @classmethod
    def configured(cls) -> Self:
        """Return the registries in `ZOO_REGISTRIES` and `registries.txt`, and the registry included in the package.

        With `ZOO_OFFLINE=1`, registries on servers are skipped.

        Raises:
            ZooError: An address is not valid.
        """
        file = storage.registries()
        lines = read_bytes(file).decode("utf-8", "replace").splitlines() if file_exists(file) else []
        listed = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
        addresses = dict.fromkeys([*os.environ.get(VARIABLE, "").split(), *listed])
        registries = [*map(open_registry, addresses), included_registry()]
        skipped = [registry for registry in registries if is_offline() and registry.is_remote]
        searched = [registry for registry in registries if registry not in skipped]
        return cls(searched, [registry.address for registry in skipped])

    def find(self, reference: Reference, report: Report) -> tuple[Registry, Revision] | None:
        """Find a model in the first registry that has it. Return None if no registry has it.

        Raises:
            ZooError: A registry is unreachable or damaged, and no other registry has the model.
        """
        errors: list[ZooError] = []
        for registry in self.searched:
            try:
                if (revision := registry.find(reference)) is not None:
                    for error in errors:
                        report.warn(error.summary)
                    return registry, revision
            except ZooError as unusable:
                errors.append(unusable)
        if errors:
            raise errors[0]
        return None

    def names(self) -> list[str]:
        """Return the names of the models in all reachable registries."""
        names = []
        for registry in self.searched:
            with suppress(ZooError):
                names += [entry.name for entry in registry.entries(lambda _: None)]
        return names

    def describe_search(self, reference: Reference) -> str:
        """Describe the searched registries and the revisions of the model in them, for an error message."""
        searched = [f", `{registry.address}`{registry.describe_failure(reference)}" for registry in self.searched]
        skipped = [f" (`{address}` was not searched because ZOO_OFFLINE is set)" for address in self.skipped]
        return "".join([*searched, *skipped])


def included_registry() -> Registry:
    """Return the registry that is part of the package."""
    return Registry(FolderStore(INCLUDED))


def blob_path(sha256: str) -> str:
    """Return the path of the blob with this SHA-256 in a registry."""
    return f"blobs/sha256/{sha256}"


def revision_path(name: str, number: int) -> str:
    """Return the path of the file that describes a revision in a registry."""
    return f"models/{name}/{number}.json"


def _to_json(value: Revision | Index) -> bytes:
    return f"{value.model_dump_json(indent=2)}\n".encode()

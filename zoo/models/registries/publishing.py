"""Publish to a registry: upload the blobs (file contents) first, then create the revision that refers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest
from zoo.files.hashes import sha256
from zoo.files.transfer import is_offline
from zoo.models.registries.file_stores import MARKER, FolderStore, WritableFileStore
from zoo.models.registries.registry import INDEX, PAGE, Index, Registry, alias_path, blob_path, revision_path
from zoo.models.registries.revision import Alias, IndexEntry, PublishedFile, Revision, Summary
from zoo.report import Report

RenderPage = Callable[[Sequence[IndexEntry]], str]
"""Function that returns the HTML page of an index."""
_MAX_NUMBERS = 1000
_MAX_INDEX_WRITES = 5
_MARKER_CONTENT = b'{"format": 1}\n'


def publish(registry: Registry, name: Name, folder: Path, summary: Summary, report: Report) -> Revision:
    """Publish a folder as the next revision of a model. The folder must not change meanwhile.

    If another process creates a revision with this number first, the next number is used. If the newest revision has
    the same content, no revision is created.

    Returns:
        The new revision, or the existing one with the same content.

    Raises:
        ZooError: The registry cannot be written to.
    """
    store = require_writable(registry)
    files = {
        file.name: PublishedFile(sha256=sha256(file), bytes=file.stat().st_size) for file in sorted(folder.iterdir())
    }
    _upload(store, folder, files, report)
    newest, digest = registry.newest(name), files[manifest.NAME].sha256
    for _ in range(_MAX_NUMBERS):
        if newest is not None and newest.digest == digest:
            return newest
        number = newest.revision + 1 if newest is not None else 1
        revision = Revision(name=name, revision=number, digest=digest, files=files, summary=summary)
        if store.create(revision_path(name, number), _to_json(revision)):
            return revision
        newest = registry.revision(name, number) or newest
    problem = (
        f"`{name}` could not be published to `{registry.address}`: other processes created the same revisions first"
    )
    raise ZooError(problem, hint="run the command again later", exit_code=1)


def create_alias(registry: Registry, old: Name, new: Name) -> None:
    """Make an old name an alias of a new one. Revisions with the old name can still be loaded as `OLD@NUMBER`."""
    require_writable(registry).replace(alias_path(old), _to_json(Alias(to=new)))


def write_index(registry: Registry, render: RenderPage, report: Report | None = None) -> None:
    """Write `index.json` and `index.html`. Write them again if another process published meanwhile.

    Warn about each revision that cannot be read. The entry of its model in the index then stays unchanged.
    """
    store, previous = require_writable(registry), None
    report, warnings = report or Report(), dict[str, None]()
    for _ in range(_MAX_INDEX_WRITES):
        warnings.clear()
        entries = registry.entries(lambda error: warnings.update({error.summary: None}))
        if entries == previous:
            break
        previous = entries
        store.replace(INDEX, _to_json(Index(models=entries)))
        store.replace(PAGE, render(entries).encode())
    for warning in warnings:
        report.warn(warning)


def require_writable_kind(registry: Registry) -> WritableFileStore:
    """Return the registry's store if this kind of store is writable. This does not access the network.

    Raises:
        ZooError: The store is read-only or is a file, not a folder, or it is remote and `ZOO_OFFLINE` is set.
    """
    store = registry.store
    problem = f"cannot publish to `{registry.address}`"
    if not isinstance(store, WritableFileStore):
        hint = "publish to a folder, to s3:// or to hf://, which a web server can then serve"
        raise ZooError(f"{problem}: it is read-only", hint=hint)
    if store.is_remote and is_offline():
        raise ZooError(f"{problem}: ZOO_OFFLINE is set", hint="unset ZOO_OFFLINE, or publish to a folder")
    if isinstance(store, FolderStore) and store.folder.exists() and not store.folder.is_dir():
        raise ZooError(f"{problem}: it is a file, not a folder", hint="publish to a folder")
    return store


def require_writable(registry: Registry) -> WritableFileStore:
    """Return the registry's store, after checking that it can create files without overwriting existing ones.

    Raises:
        ZooError: The registry is read-only, or `create` overwrites an existing file.
    """
    store = require_writable_kind(registry)
    if store.create(MARKER, _MARKER_CONTENT) and store.create(MARKER, _MARKER_CONTENT):
        hint = "publish to a folder, or to a service that supports the HTTP header If-None-Match, as S3 does"
        problem = f"cannot publish to `{registry.address}`: two processes could overwrite each other's files there"
        raise ZooError(problem, hint=hint)
    return store


def _upload(store: WritableFileStore, folder: Path, files: Mapping[str, PublishedFile], report: Report) -> None:
    """Upload the files whose content the registry does not have."""
    missing = {name: file for name, file in files.items() if not store.has(blob_path(file.sha256), file.bytes)}
    total = sum(file.bytes for file in missing.values())
    with report.progress("uploading", total, "bytes") as progress:
        for name, file in missing.items():
            store.put(blob_path(file.sha256), folder / name, progress)


def _to_json(value: Revision | Index | Alias) -> bytes:
    return f"{value.model_dump_json(indent=2)}\n".encode()

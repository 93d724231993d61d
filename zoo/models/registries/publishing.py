"""Publishing to a registry: blobs first, then the revision that names them, at once or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest
from zoo.files.files import sha256
from zoo.files.transfer import offline
from zoo.models.registries.folder import Folder
from zoo.models.registries.place import MARK, Writable
from zoo.models.registries.registry import INDEX, PAGE, Index, Registry, blob_path, forward_path, revision_path
from zoo.models.registries.revision import Entry, File, Forward, Revision, Summary
from zoo.report import Report

Page = Callable[[Sequence[Entry]], str]
"""Writes the HTML of an index."""
_TRIES = 1000


def publish(registry: Registry, name: Name, folder: Path, summary: Summary, report: Report) -> Revision:
    """The revision that a bundle's folder is from now on; nothing in that folder may change meanwhile.

    The next number is taken by creating its file where there is none: of two that try at once, one is told that it is
    taken, and takes the one after. A bundle that is the newest revision already stays that one. Raises ZooError where
    the place cannot be written to.
    """
    place = writable(registry)
    files = {each.name: File(sha256=sha256(each), bytes=each.stat().st_size) for each in sorted(folder.iterdir())}
    _upload(place, folder, files, report)
    newest, digest = registry.newest(name), files[manifest.NAME].sha256
    for _ in range(_TRIES):
        if newest is not None and newest.digest == digest:
            return newest
        number = newest.revision + 1 if newest is not None else 1
        made = Revision(name=name, revision=number, digest=digest, files=files, summary=summary)
        if place.create(revision_path(name, number), _written(made)):
            return made
        newest = registry.revision(name, number) or newest
    raise ZooError(f"`{registry.address}` is written to again and again: `{name}` finds no number", exit_code=1)


def forward(registry: Registry, old: Name, new: Name) -> None:
    """From now on the old name leads to the new one; revisions that were published under it can still be pinned."""
    writable(registry).replace(forward_path(old), _written(Forward(to=new)))


def write_index(registry: Registry, page: Page, report: Report | None = None) -> None:
    """Makes `index.json` and `index.html` again, and once more where somebody published meanwhile.

    A revision that cannot be read is warned of, and its model stays in the index as that had it, if at all.
    """
    place, before = writable(registry), None
    report, unread = report or Report(), dict[str, None]()
    for _ in range(_ROUNDS):
        unread.clear()
        entries = registry.entries(lambda error: unread.update({error.summary: None}))
        if entries == before:
            break
        before = entries
        place.replace(INDEX, _written(Index(models=entries)))
        place.replace(PAGE, page(entries).encode())
    for each in unread:
        report.warn(each)


_ROUNDS = 5


def require_writable(registry: Registry) -> Writable:
    """Its place. Raises ZooError where it is of a kind to which nothing is written; nothing is asked there."""
    place = registry.place
    if not isinstance(place, Writable):
        hint = "publish to a folder, to s3:// or to hf://; a web server serves the folder or the bucket"
        raise ZooError(f"`{registry.address}` cannot be published to: it is only read", hint=hint)
    if place.outside and offline():
        hint = "unset ZOO_OFFLINE, or publish to a folder"
        raise ZooError(f"`{registry.address}` cannot be published to: ZOO_OFFLINE leaves the network alone", hint=hint)
    if isinstance(place, Folder) and place.folder.exists() and not place.folder.is_dir():
        raise ZooError(f"`{registry.address}` is a file, and no folder", hint="publish to a folder, or to a new one")
    return place


def writable(registry: Registry) -> Writable:
    """The same, where a first write shows that what is written loses nobody's revision. Raises ZooError otherwise."""
    place = require_writable(registry)
    # What is created must be refused to the next who tries: a store that does not heed that shows it here.
    if place.create(MARK, b'{"format": 1}\n') and place.create(MARK, b'{"format": 1}\n'):
        hint = "publish to a folder, or to a store that heeds If-None-Match as S3 does"
        raise ZooError(f"`{registry.address}` cannot be published to: what is there is written over", hint=hint)
    return place


def _upload(place: Writable, folder: Path, files: Mapping[str, File], report: Report) -> None:
    """What is not there yet."""
    lacking = {name: file for name, file in files.items() if not place.has(blob_path(file.sha256), file.bytes)}
    total = sum(file.bytes for file in lacking.values())
    with report.progress("uploading", total, "bytes") as progress:
        for name, file in lacking.items():
            place.put(blob_path(file.sha256), folder / name, progress)


def _written(value: Revision | Index | Forward) -> bytes:
    return f"{value.model_dump_json(indent=2)}\n".encode()

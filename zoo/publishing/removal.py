"""Remove caches and runs (`zoo clean`) and published models (`zoo remove`).

Files in use, files that zoo did not write, and the targets of links are never removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from zoo.files import manifest, storage
from zoo.files.atomic import leftovers, partial_target, remove_folder, restore_replaced
from zoo.files.download import records_file
from zoo.files.locks import existing_lock_file, try_exclusive
from zoo.files.reading import file_exists
from zoo.files.storage import folder_bytes
from zoo.models import catalogue, find, local_store
from zoo.models.find import not_published_error
from zoo.models.folder import RUNS
from zoo.models.local_store import bundle_digest
from zoo.models.registries.revision import Reference, parse_reference
from zoo.training.run import Run


class _Cache(NamedTuple):
    """Function that returns a cache's folder, and a regular expression for the names of zoo's files there."""

    folder: Callable[[], Path]
    name_pattern: str


_CACHES = {
    "compiled": _Cache(storage.compiled, r"(\w+|packed-.+)-[0-9a-f]{24}"),
    "prepared": _Cache(storage.prepared, r"[0-9a-f]{16}|(dev|test)-[0-9]+-.+|digits-.+"),
    "archives": _Cache(storage.archives, r"[0-9a-f]{8}-.+|members"),
    "pulls": _Cache(storage.pulls, r".+@([0-9a-f]{64}|catalogue)"),
    "synthetic": _Cache(storage.synthetic, r"[0-9a-f]{16}(\.partial)?"),
}
"""Caches by name. A removed entry is created again when it is needed. Files with other names are kept."""
_DEFAULT_CACHES = [name for name in _CACHES if name != "synthetic"]
"""Caches that are removed if no target is named. Generating synthetic text again takes hours or days."""


@dataclass(frozen=True)
class RemovableItem:
    """File or folder to remove.

    Attributes:
        kind: "run", "model", "leftover" (temporary file or folder of a killed process), or the name of a cache.
        path: Path of the file or folder.
        bytes: Disk space in bytes that the removal frees.
        inode: Inode of a published model's folder. If it has changed by the time of the removal, another model has
            been published under the same name, and that model is kept.
    """

    kind: str
    path: Path
    bytes: int
    inode: int | None = None


@dataclass(frozen=True)
class KeptItem:
    """File or folder that was selected for removal but is kept, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True)
class RemovalPlan:
    """Items that will be removed or kept. `bytes` is the disk space in bytes that the removal frees."""

    removable: tuple[RemovableItem, ...]
    kept: tuple[KeptItem, ...]
    bytes: int

    def remove(self) -> list[KeptItem]:
        """Remove the removable items. Return the items that were kept, for example because a process is using them."""
        return [kept for item in self.removable if (kept := _remove(item))]


def plan_cleanup(targets: Sequence[str] = ()) -> RemovalPlan:
    """Plan the removal of caches and runs. `corpus.lock` is kept, so that later downloads can be verified.

    Args:
        targets: Names of caches, "runs" for all runs in `runs/`, or single runs by folder or spec. The default is all
            caches except synthetic text.

    Raises:
        ZooError: A target does not exist.
    """
    candidates = {
        path.absolute(): (kind, path) for word in targets or _DEFAULT_CACHES for kind, path in _candidates(word)
    }
    removable, kept = [], []
    for kind, path in candidates.values():
        if reason := _reason_to_keep(kind, path):
            kept.append(KeptItem(path, reason))
        else:
            removable.append(RemovableItem(kind, path, folder_bytes(path)))
    return RemovalPlan(tuple(removable), tuple(kept), folder_bytes(*(item.path for item in removable)))


def plan_model_removal(names: Sequence[str]) -> RemovalPlan:
    """Plan the removal of models from the local model store. Revisions in registries are kept.

    Args:
        names: Names of models. `NAME` selects all revisions of a model, or all members of an ensemble. `NAME@2` selects
            one revision.

    Raises:
        ZooError: A model is not in the local model store.
    """
    folders = list(dict.fromkeys(folder for name in names for folder in _model_folders(name)))
    removable = (RemovableItem("model", folder, folder_bytes(folder), folder.stat().st_ino) for folder in folders)
    return RemovalPlan(tuple(removable), (), folder_bytes(*folders))


def _model_folders(name: str) -> list[Path]:
    reference = parse_reference(name)
    if reference is None:
        raise not_published_error(name)
    folders = _pinned_folder(reference) if reference.pinned else local_store.revisions_of(reference.name)
    if not folders and (card := catalogue.find(reference.name)) is not None and card.name == reference.name:
        folders = [folder for member in card.members for folder in local_store.revisions_of(member)]
    if not folders:
        raise not_published_error(name)
    return folders


def _pinned_folder(reference: Reference) -> list[Path]:
    """Return the folder of one revision in the local model store, as a list of one path or an empty list.

    A revision can be stored twice: as the current version of the model, and in a separate folder. In that case, return
    the separate folder.
    """
    folder = local_store.find_revision(reference)
    if folder is None:
        return []
    pinned = local_store.pinned_path(reference.name, bundle_digest(folder) or "")
    return [pinned if file_exists(pinned / manifest.NAME) else folder]


def _candidates(word: str) -> Iterator[tuple[str, Path]]:
    """Yield the kind and path of each item that a target of `zoo clean` selects. Do not follow symbolic links.

    Args:
        word: The target: the name of a cache, "runs", or a run.
    """
    if word in _CACHES:
        folder = _CACHES[word].folder()
        paths = [folder] if folder.is_symlink() else sorted(folder.iterdir()) if folder.is_dir() else []
        for path in paths:
            if not path.name.startswith(".") and path != records_file():  # hidden paths are being written
                yield word, path
        for parent in (folder, storage.models()) if word == "pulls" else (folder,):  # an import writes into `models`
            restore_replaced(parent)
            yield from (("leftover", path) for path in leftovers(parent))
    elif word == "runs":
        yield from (("run", folder) for folder in ([RUNS] if RUNS.is_symlink() else find.all_runs()))
    else:
        folder = find.run(word)
        yield "run", folder if folder.name not in ("", "..") else folder.resolve()


def _reason_to_keep(kind: str, path: Path) -> str | None:
    """Return the reason why a path must not be removed. None if it can be removed."""
    if path.is_symlink():
        return "it is a link; its target is never removed"
    if kind in _CACHES and not re.fullmatch(_CACHES[kind].name_pattern, path.name):
        return "zoo does not use this name, so another program may have written it"
    if kind == "run" and Run(path).published:
        return "it is a published model"
    if kind == "run" and (strangers := Run(path).foreign_files()):
        return f"it contains files that are not part of a run: {', '.join(strangers)}"
    if kind == "archives" and path.is_dir() and any(partial_target(file.name) for file in path.rglob(".*")):
        return "an archive is being extracted"
    with try_exclusive(_lock_path(kind, path)) as free:
        return None if free else _in_use(kind)


def _in_use(kind: str) -> str:
    return "it is being trained" if kind == "run" else "a process uses it"


def _lock_path(kind: str, path: Path) -> Path:
    """Return the lock file that processes lock while they use a path, or the path itself if it has no lock file."""
    if kind == "run":
        lock: Path | None = Run(path).lock
    else:
        lock = existing_lock_file(path) if kind in ("archives", "pulls", "synthetic") else None
    return lock if lock is not None and lock.exists() else path


def _remove(item: RemovableItem) -> KeptItem | None:
    """Remove an item. Return None if it was removed. Otherwise, return the reason why it was kept."""
    try:
        if reason := _reason_to_keep(item.kind, item.path):
            return KeptItem(item.path, reason)
        if item.kind == "model" and item.path.stat().st_ino != item.inode:
            return KeptItem(item.path, "another model was published there in the meantime")
        if item.kind == "run":
            Run(item.path).lock.touch()  # create the lock file, so that it can be locked and no training run starts
        with try_exclusive(_lock_path(item.kind, item.path)) as free:
            if not free:
                return KeptItem(item.path, _in_use(item.kind))
            if item.path.is_dir():
                if remainder := remove_folder(item.path):
                    return KeptItem(remainder, "you do not have permission to remove all of it")
            else:
                item.path.unlink()
    except FileNotFoundError:  # another process removed it
        pass
    return None

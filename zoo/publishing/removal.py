"""Remove caches and runs (`zoo clean`) and published models (`zoo remove`).

Files in use, files that zoo did not write, and the targets of links are never removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from zoo.files import storage
from zoo.files.atomic import complete_path, leftovers, partial_target, remove_folder
from zoo.files.download import records_file
from zoo.files.locks import existing_lock_file, try_exclusive
from zoo.files.storage import folder_bytes
from zoo.models import catalogue, find, local_store
from zoo.models.find import not_published_error
from zoo.models.folder import RUNS
from zoo.models.local_store import StoredModel
from zoo.models.registries.revision import Reference
from zoo.training.run import Run


@dataclass(frozen=True)
class KeptItem:
    """File or folder that was selected for removal but is kept, and the reason."""

    path: Path
    reason: str


@dataclass(frozen=True)
class RemovableItem:
    """File or folder that can be removed.

    Attributes:
        kind: "run", "model", the name of a cache, or "leftover" for a temporary file or folder of a killed process.
        path: Path of the file or folder.
        protection: Function that returns the reason why the item must not be removed even if no process uses it. It
            returns None if there is no such reason.
        lock: Lock file to use. The removal creates the file if it is missing. If None, the lock file next to the item
            is used if it exists. Otherwise, the item itself is locked.
        in_use: Reason to report if the item is kept because a process has locked it.
    """

    kind: str
    path: Path
    protection: Callable[[], str | None] = lambda: None
    lock: Path | None = None
    in_use: str = "a process uses it"

    @property
    def bytes(self) -> int:
        """Disk space in bytes that the removal frees."""
        return folder_bytes(self.path)

    def reason_to_keep(self) -> str | None:
        """Return the reason why the item must not be removed now. None if it can be removed."""
        reason = "it is a link; its target is never removed" if self.path.is_symlink() else self.protection()
        if reason is None:
            with self._try_lock() as free:
                return None if free else self.in_use
        return reason

    def _try_lock(self) -> AbstractContextManager[bool]:
        """Lock the item if no process uses it (see `try_exclusive`)."""
        lock = self.lock if self.lock and self.lock.exists() else existing_lock_file(complete_path(self.path))
        return try_exclusive(lock or self.path)

    def remove(self) -> KeptItem | None:
        """Remove the item. Return None if it was removed. Otherwise, return the reason why it was kept."""
        try:
            if reason := self.reason_to_keep():
                return KeptItem(self.path, reason)
            if self.lock:  # so that no process starts to use the item during the removal
                self.lock.touch()
            with self._try_lock() as free:
                if not free:
                    return KeptItem(self.path, self.in_use)
                if not self.path.is_dir():
                    self.path.unlink()
                elif remainder := remove_folder(self.path):
                    return KeptItem(remainder, "you do not have permission to remove all of its files")
        except FileNotFoundError:  # another process removed it
            pass
        return None


def _run(folder: Path) -> RemovableItem:
    run = Run(folder)

    def protection() -> str | None:
        if run.published:
            return "it is a published model"
        strangers = ", ".join(run.foreign_files())
        return f"it contains files that are not part of a run: {strangers}" if strangers else None

    return RemovableItem("run", folder, protection, run.lock, "it is being trained")


def _model(folder: Path) -> RemovableItem:
    inode = folder.stat().st_ino

    def protection() -> str | None:
        return None if folder.stat().st_ino == inode else "another model was published there in the meantime"

    return RemovableItem("model", folder, protection)


def _cache_entry(kind: str, path: Path) -> RemovableItem:
    cache = storage.CACHES[kind]

    def protection() -> str | None:
        if not re.fullmatch(cache.name_pattern, path.name):
            return "zoo does not use this name, so another program may have written it"
        is_written = cache.is_extracted and any(partial_target(file.name) for file in path.rglob(".*"))
        return "an archive is being extracted" if is_written else None

    return RemovableItem(kind, path, protection)


_DEFAULT_CACHES = [name for name in storage.CACHES if name != "synthetic"]
"""Caches that are removed if no target is named. Generating synthetic text again takes hours or days."""


@dataclass(frozen=True)
class RemovalPlan:
    """Items that will be removed or kept. `bytes` is the disk space in bytes that the removal frees."""

    removable: tuple[RemovableItem, ...]
    kept: tuple[KeptItem, ...]
    bytes: int

    def remove(self) -> list[KeptItem]:
        """Remove the removable items. Return the items that were kept, for example because a process is using them."""
        return [kept for item in self.removable if (kept := item.remove())]


def plan_cleanup(targets: Sequence[str] = ()) -> RemovalPlan:
    """Plan the removal of caches and runs. `corpus.lock` is kept, so that later downloads can be verified.

    Args:
        targets: Names of caches, "runs" for all runs in `runs/`, or single runs by folder or spec. The default is all
            caches except synthetic text.

    Raises:
        ZooError: A target does not exist.
    """
    candidates = {item.path.absolute(): item for word in targets or _DEFAULT_CACHES for item in _candidates(word)}
    reasons = [(item, item.reason_to_keep()) for item in candidates.values()]
    removable = tuple(item for item, reason in reasons if reason is None)
    kept = tuple(KeptItem(item.path, reason) for item, reason in reasons if reason is not None)
    return RemovalPlan(removable, kept, folder_bytes(*(item.path for item in removable)))


def plan_model_removal(names: Sequence[str]) -> RemovalPlan:
    """Plan the removal of models from the local model store. Revisions in registries are kept.

    Args:
        names: Names of models. `NAME` selects all revisions of a model, or all members of an ensemble. `NAME@2` selects
            one revision.

    Raises:
        ZooError: A model is not in the local model store.
    """
    folders = list(dict.fromkeys(model.folder for name in names for model in _stored_models(name)))
    return RemovalPlan(tuple(map(_model, folders)), (), folder_bytes(*folders))


def _stored_models(name: str) -> list[StoredModel]:
    if (reference := Reference.parse(name)) is not None:
        models = local_store.versions(reference.name)
        if reference.pinned:  # if it is the current version and also in a separate folder, remove the separate folder
            found = local_store.find(reference)
            models = [model for model in models if found and model.digest == found.digest][-1:]
        if not models and (card := catalogue.find(reference.name)) is not None and card.name == reference.name:
            models = [model for member in card.members for model in local_store.versions(member)]
        if models:
            return models
    raise not_published_error(name)


def _candidates(word: str) -> Iterator[RemovableItem]:
    """Yield each item that a target of `zoo clean` selects. Do not follow symbolic links.

    Args:
        word: The target: the name of a cache, "runs", or a run.
    """
    if word in storage.CACHES:
        folder = storage.CACHES[word].folder()
        paths = [folder] if folder.is_symlink() else sorted(folder.iterdir()) if folder.is_dir() else []
        for path in paths:
            if not path.name.startswith(".") and path != records_file():  # hidden paths are being written
                yield _cache_entry(word, path)
        for parent in (folder, storage.models()) if word == "pulls" else (folder,):  # an import writes into `models`
            yield from (RemovableItem("leftover", path) for path in leftovers(parent))
    elif word == "runs":
        yield from map(_run, [RUNS] if RUNS.is_symlink() else find.all_runs())
    else:
        folder = find.run(word)
        yield _run(folder if folder.name not in ("", "..") else folder.resolve())

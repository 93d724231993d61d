"""Pull a model from a registry: download its files, check their hashes, and add them to the local model store."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from specs import ZooError
from zoo.files import manifest, storage
from zoo.files.atomic import atomic_folder, convert_disk_errors, link_or_copy, partial_path, remove_path
from zoo.files.locks import exclusive
from zoo.files.manifest import ManifestEntry, sha256
from zoo.files.reading import file_exists
from zoo.files.storage import require_space
from zoo.files.transfer import discard
from zoo.models import local_store
from zoo.models.local_store import ORIGIN_FILE, Origin, StoredModel
from zoo.models.registries.registry import Registries, Registry, blob_path
from zoo.models.registries.revision import Reference, Revision
from zoo.report import Report


def pull(reference: Reference, report: Report) -> StoredModel | None:
    """Pull a model into the local model store: the newest revision, or the revision that the reference specifies.

    A revision that is specified by number gets a separate folder. If the model is already in the store, its
    hashes are checked, and damaged files are downloaded again. An interrupted pull is resumed by the next pull. If
    another process is pulling the same model, wait for it.

    Returns:
        The model. None if no registry has it.

    Raises:
        ZooError: A registry that may have the model cannot be reached, the hash of a downloaded file is wrong, a model
            that was published on this machine would be replaced, or the disk is full.
    """
    found = Registries.configured().find(reference, report)
    if found is None:
        return None
    registry, revision = found
    model = StoredModel.current(revision.name)
    if reference.pinned and model.digest != revision.digest:
        model = model.pinned(revision.digest)
    _Pull(registry, revision, model, report).run()
    return model


@dataclass(frozen=True)
class _Pull:
    """Download of a revision from a registry into the local model store."""

    registry: Registry
    revision: Revision
    model: StoredModel
    report: Report

    @property
    def downloads(self) -> Path:
        """Folder with the files that have been downloaded so far."""
        return storage.pulls() / f"{self.revision.name}@{self.revision.digest}"

    def run(self) -> None:
        """Download the files of the revision, then create or replace the model's folder in the local model store."""
        self._require_replaceable()
        origin, pin = Origin.of(self.revision, self.registry.address), self.revision.pin
        with convert_disk_errors(self.downloads), exclusive(self.downloads, self.report):
            if self._is_complete():
                self.report.info(f"`{pin}` of `{origin.registry}` is already in the local model store and is complete")
                if self.model.origin is None:
                    origin.write(self.model.folder)
            else:
                self.report.info(f"pulling `{pin}` from `{origin.registry}`")
                self.downloads.mkdir(parents=True, exist_ok=True)
                self._download_files()
                with atomic_folder(self.model.folder) as partial:
                    for name in self.revision.files:
                        link_or_copy(self.downloads / name, partial / name)
                    origin.write(partial)
                    self._require_replaceable()  # another process may have published to the folder in the meantime
            remove_path(self.downloads)

    def _require_replaceable(self) -> None:
        """Raise ZooError if pulling would replace a model that was only published locally."""
        folder, existing = self.model.folder, self.model.digest
        if existing is None or existing == self.revision.digest or file_exists(folder / ORIGIN_FILE):
            return
        raise ZooError(
            f"`{folder}` was published on this machine and is not a revision from `{self.registry.address}`, so "
            "pulling would replace it",
            hint=f"remove the local model with `zoo remove {folder.name}`, or keep both models with `zoo pull "
            f"{self.revision.pin}`",
        )

    def _is_complete(self) -> bool:
        """Return whether the local model store has all files of the revision. Warn if a file is damaged."""
        if self.model.digest != self.revision.digest:
            return False
        try:
            manifest.check(self.model.folder)
        except ZooError as error:
            self.report.warn(f"{error.summary}; downloading the damaged files of `{self.revision.pin}` again")
            return False
        return True

    def _download_files(self) -> None:
        """Download all files that are neither in `downloads` nor in the local model store."""
        files, pin = {self.downloads / name: file for name, file in self.revision.files.items()}, self.revision.pin
        missing = {path: file for path, file in files.items() if not self._reuse(path, file)}
        partial_sizes = [partial.stat().st_size for path in missing if (partial := partial_path(path)).exists()]
        require_space(self.downloads, sum(file.bytes for file in missing.values()) - sum(partial_sizes), f"`{pin}`")
        for path, file in missing.items():
            self.download(path, file)
        published = {name: file for name, file in self.revision.files.items() if name != manifest.NAME}
        if manifest.read(self.downloads).entries != published:
            problem = f"`{pin}` is damaged: the files in its manifest are not the files of the revision"
            hint = "pull another revision, or ask the owner of the registry to publish the model again"
            raise ZooError(problem, hint=hint, exit_code=1)

    def _reuse(self, path: Path, file: ManifestEntry) -> bool:
        """Return True if `path` now contains the file, so that it need not be downloaded.

        If `path` does not have the right content, look for the file in all versions of the model in the local model
        store, and link or copy it to `path`.
        """
        if _has_content(path, file):
            return True
        path.unlink(missing_ok=True)
        for model in local_store.versions(self.revision.name):
            source = model.folder / path.name
            if file_exists(source) and not source.is_symlink() and source.stat().st_size == file.bytes:
                link_or_copy(source, path)
                if _has_content(path, file):  # not before: another process may replace the model in the meantime
                    return True
                path.unlink()
        return False

    def download(self, path: Path, file: ManifestEntry) -> None:
        """Download a file and check its hash. If a resumed download has the wrong hash, download the whole file."""
        partial, blob = partial_path(path), blob_path(file.sha256)
        was_resumed = partial.exists()
        self.registry.store.fetch(blob, partial, file.bytes, self.report)
        has_content = _has_content(partial, file)
        if has_content:
            os.replace(partial, path)
        discard(partial)
        if was_resumed and not has_content:
            problem = f"the resumed download of `{path.name}` from `{self.registry.address}` is damaged"
            self.report.warn(f"{problem}; downloading the file from the beginning")
            self.download(path, file)
        elif not has_content:
            problem = f"`{self.registry.address}` is damaged: `{path.name}` does not have the published SHA-256"
            hint = f"remove `{blob}` there and publish `{self.revision.name}` again, or pull another revision"
            raise ZooError(problem, hint=hint, exit_code=1)


def _has_content(path: Path, file: ManifestEntry) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes and sha256(path) == file.sha256

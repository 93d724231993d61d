"""Pull a model from a registry: download its files, check their hashes, and add them to the local model store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from specs import ZooError
from zoo.files import manifest, storage
from zoo.files.atomic import atomic_folder, convert_disk_errors, link_or_copy, remove_path
from zoo.files.locks import exclusive
from zoo.files.manifest import ManifestEntry, sha256
from zoo.files.reading import file_exists
from zoo.files.storage import require_space
from zoo.files.transfer import discard, partial_path
from zoo.models import local_store
from zoo.models.local_store import ORIGIN_FILE, bundle_digest, read_origin, write_origin
from zoo.models.registries.registry import Registry, blob_path, configured_registries, skipped_registries
from zoo.models.registries.revision import Reference, Revision
from zoo.report import Report


class RegistryModel(NamedTuple):
    """A revision of a model, and the registry that contains it."""

    registry: Registry
    revision: Revision


def pull(reference: Reference, report: Report) -> Path | None:
    """Pull a model into the local model store: the newest revision, or the revision that the reference specifies.

    A revision that is specified by number gets a separate folder. If the model is already in the store, its
    hashes are checked, and damaged files are downloaded again. An interrupted pull is resumed by the next pull. If
    another process is pulling the same model, wait for it.

    Returns:
        The model's folder. None if no registry has the model.

    Raises:
        ZooError: A registry that may have the model cannot be reached, the hash of a downloaded file is wrong, a model
            that was published on this machine would be replaced, or the disk is full.
    """
    found = find_in_registries(reference, report)
    if found is None:
        return None
    revision = found.revision
    folder = local_store.model_path(revision.name)
    if reference.pinned and bundle_digest(folder) != revision.digest:
        folder = local_store.pinned_path(revision.name, revision.digest)
    _require_replaceable(folder, found)
    _download(found, folder, report)
    return folder


def find_in_registries(reference: Reference, report: Report) -> RegistryModel | None:
    """Find a model in the first registry that has it.

    Returns:
        The model. None if no registry has it.

    Raises:
        ZooError: A registry cannot be used, and no other registry has the model.
    """
    errors: list[ZooError] = []
    for registry in configured_registries():
        try:
            revision = registry.find(reference)
        except ZooError as error:
            errors.append(error)
            continue
        if revision is not None:
            for skipped in errors:
                report.warn(skipped.summary)
            return RegistryModel(registry, revision)
    if errors:
        raise errors[0]
    return None


def describe_search(reference: Reference) -> str:
    """Return text for an error message: the searched registries, and the revisions of the model that they have."""
    searched = [f", `{registry.address}`{_similar(registry, reference)}" for registry in configured_registries()]
    skipped = [f" (`{address}` was not searched because of ZOO_OFFLINE)" for address in skipped_registries()]
    return "".join([*searched, *skipped])


def registry_names() -> list[str]:
    """Return the names of the models in all reachable registries."""
    names = []
    for registry in configured_registries():
        with suppress(ZooError):
            names += [entry.name for entry in registry.entries(lambda _: None)]
    return names


def _similar(registry: Registry, reference: Reference) -> str:
    with suppress(ZooError):
        if (absence := registry.absence()) is not None:
            return f" (which {absence})"
        if reference.pinned and (newest := registry.newest(reference.name)) is not None:
            numbers = f"revisions 1 to {newest.revision}" if newest.revision > 1 else "revision 1"
            return f" (which has {numbers} of `{reference.name}`)"
    return ""


def _require_replaceable(folder: Path, found: RegistryModel) -> None:
    """Raise ZooError if pulling would replace a model that was only published locally."""
    existing = bundle_digest(folder)
    if existing is None or existing == found.revision.digest or file_exists(folder / ORIGIN_FILE):
        return
    raise ZooError(
        f"`{folder}` was published on this machine and is not a revision from `{found.registry.address}`, so pulling "
        "would replace it",
        hint=f"remove it with `zoo remove {folder.name}`, or keep both with `zoo pull {found.revision.pin}`",
    )


def _download(found: RegistryModel, folder: Path, report: Report) -> None:
    """Download the files of a revision, then create or replace its folder in the local model store."""
    revision, address = found.revision, found.registry.address
    downloads = storage.pulls() / f"{revision.name}@{revision.digest}"
    with convert_disk_errors(downloads), exclusive(downloads, report):
        if _is_complete(folder, revision, report):
            report.info(f"`{revision.pin}` of `{address}` is already in the local model store and is complete")
            if read_origin(folder) is None:
                write_origin(folder, revision, address)
        else:
            report.info(f"pulling `{revision.pin}` from `{address}`")
            downloads.mkdir(parents=True, exist_ok=True)
            _download_files(found, downloads, report)
            _require_consistent(downloads, revision)
            with atomic_folder(folder) as partial:
                for name in revision.files:
                    link_or_copy(downloads / name, partial / name)
                write_origin(partial, revision, address)
                _require_replaceable(folder, found)  # another process may have published to the folder in the meantime
        remove_path(downloads)


def _download_files(found: RegistryModel, downloads: Path, report: Report) -> None:
    """Download all files of a revision that are neither in `downloads` nor in the local model store."""
    revision = found.revision
    missing = {name: file for name, file in revision.files.items() if not _reuse(revision.name, downloads / name, file)}
    partial_sizes = [path.stat().st_size for name in missing if (path := partial_path(downloads / name)).exists()]
    require_space(downloads, sum(file.bytes for file in missing.values()) - sum(partial_sizes), f"`{revision.pin}`")
    for name, file in missing.items():
        _download_file(found, downloads / name, file, report)


def _is_complete(folder: Path, revision: Revision, report: Report) -> bool:
    """Return whether a folder has all files of a revision. Warn if a file is damaged."""
    if bundle_digest(folder) != revision.digest:
        return False
    try:
        manifest.check(folder)
    except ZooError as error:
        report.warn(f"{error.summary}; downloading the damaged files of `{revision.pin}` again")
        return False
    return True


def _reuse(model: str, path: Path, file: ManifestEntry) -> bool:
    """Return whether a file is already on this machine and need not be downloaded.

    If `path` does not have the right content, look for the file in other revisions in the local model store, and link
    `path` to it.
    """
    if _has_content(path, file):
        return True
    path.unlink(missing_ok=True)
    for source in _same_files(model, path.name, file):
        link_or_copy(source, path)
        if _has_content(path, file):
            return True
        path.unlink()
    return False


def _same_files(model: str, file_name: str, file: ManifestEntry) -> Iterator[Path]:
    """Yield the files of other revisions of a model that should have the same content, according to their manifests."""
    for folder in local_store.revisions_of(model):
        try:
            entry = manifest.read(folder).entries.get(file_name)
        except ZooError:
            continue
        path = folder / file_name
        if entry == file and file_exists(path) and not path.is_symlink():
            yield path


def _download_file(found: RegistryModel, path: Path, file: ManifestEntry, report: Report) -> None:
    """Download a file and check its hash. If a resumed download has the wrong hash, download it once more."""
    partial, blob = partial_path(path), blob_path(file.sha256)
    was_resumed = partial.exists()
    found.registry.store.fetch(blob, partial, file.bytes, report)
    has_content = _has_content(partial, file)
    if has_content:
        os.replace(partial, path)
    discard(partial)
    if was_resumed and not has_content:
        problem = f"the resumed download of `{path.name}` from `{found.registry.address}` is damaged"
        report.warn(f"{problem}; downloading the file from the beginning")
        _download_file(found, path, file, report)
    elif not has_content:
        problem = f"`{found.registry.address}` is damaged: `{path.name}` does not have the published SHA-256"
        hint = f"remove `{blob}` there and publish `{found.revision.name}` again, or pull another revision"
        raise ZooError(problem, hint=hint, exit_code=1)


def _require_consistent(folder: Path, revision: Revision) -> None:
    """Raise ZooError if the manifest and the revision do not list the same files."""
    published = {name: file for name, file in revision.files.items() if name != manifest.NAME}
    if manifest.read(folder).entries != published:
        problem = f"`{revision.pin}` is damaged: the manifest and the revision list different files"
        hint = "pull another revision, or ask the owner of the registry to publish the model again"
        raise ZooError(problem, hint=hint, exit_code=1)


def _has_content(path: Path, file: ManifestEntry) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes and sha256(path) == file.sha256

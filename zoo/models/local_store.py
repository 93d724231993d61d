"""The local model store: the published models on this machine. This module does not load torch.

The folder NAME has the current version of a model. The folder `NAME@DIGEST` has a revision that was pulled by its
number.
"""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from pathlib import Path

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest, storage
from zoo.files.atomic import restore_replaced, write_json
from zoo.files.manifest import Digest
from zoo.files.reading import file_exists, read_bytes
from zoo.models.registries.revision import Number, Record, Reference, Revision, is_name, parse_record

ORIGIN_FILE = "revision.json"
"""File with the `Origin` of a published model, in the model's folder. The manifest does not list it."""
_PIN_LENGTH = 16


class Origin(Record):
    """Registry that a published model was pulled from or published to, and the model's revision there."""

    registry: str
    name: Name
    revision: Number
    digest: Digest


def write_origin(folder: Path, revision: Revision, registry: str) -> None:
    """Write a revision and its registry's address to `revision.json` in the model's folder."""
    origin = Origin(registry=registry, name=revision.name, revision=revision.revision, digest=revision.digest)
    write_json(folder / ORIGIN_FILE, origin.model_dump())


def read_origin(folder: Path) -> Origin | None:
    """Read the registry and revision of a published model. None if the folder does not record them."""
    try:
        origin = parse_record(Origin, read_bytes(folder / ORIGIN_FILE), str(folder / ORIGIN_FILE))
    except ZooError:  # the model works without the file
        return None
    return origin if origin.digest == bundle_digest(folder) else None


def bundle_digest(folder: Path) -> str | None:
    """Return an identifier of a published model: the SHA-256 of its manifest. None if the folder has no manifest."""
    file = folder / manifest.NAME
    return hashlib.sha256(read_bytes(file)).hexdigest() if file_exists(file) else None


def names(pattern: str = "*") -> list[str]:
    """Return the sorted names of the published models that match a pattern, such as `*big*`."""
    return [folder.name for folder in all_folders() if "@" not in folder.name and fnmatchcase(folder.name, pattern)]


def all_folders() -> list[Path]:
    """Return the folders of all revisions in the local model store, sorted by name.

    For each model, the current version comes first.
    """
    store = storage.models()
    if not store.is_dir():
        return []
    restore_replaced(store)
    folders = (folder for folder in store.iterdir() if file_exists(folder / manifest.NAME) and _is_valid(folder.name))
    return sorted(folders, key=lambda folder: folder.name.partition("@"))


def _is_valid(folder_name: str) -> bool:
    name, at, pin = folder_name.partition("@")
    return is_name(name) and (not at or len(pin) == _PIN_LENGTH)


def model_path(name: str) -> Path:
    """Return the path of a published model's folder, even if there is no such folder yet.

    If a process was killed while replacing the folder, the folder is restored first.

    Raises:
        ZooError: The name is not valid (for example, "../x").
    """
    if not is_name(name):
        hint = "use only letters, digits and `-_.,`, start with a letter or digit, and do not write two dots in a row"
        raise ZooError(f"`{name}` is not a valid model name", hint=hint)
    restore_replaced(storage.models())
    return storage.models() / name


def pinned_path(name: str, digest: str) -> Path:
    """Return the path of the separate folder for a revision that is pulled by number, such as `NAME@2`.

    The folder does not have to exist yet.
    """
    return model_path(name).with_name(f"{name}@{digest[:_PIN_LENGTH]}")


def revisions_of(name: str) -> list[Path]:
    """Return the folders of all revisions of a model in the store, with the current version first."""
    return [folder for folder in all_folders() if folder.name.partition("@")[0] == name]


def find_revision(reference: Reference) -> Path | None:
    """Return the folder of the model that a reference selects. None if it is not in the store.

    Raises:
        ZooError: Two registries have different revisions with this number, and both are in the store.
    """
    matches = [folder for folder in revisions_of(reference.name) if _matches(folder, reference)]
    digests = {bundle_digest(folder): folder for folder in matches}
    if len(digests) > 1:
        choices = " or ".join(f"`{folder}`" for folder in digests.values())
        problem = (
            f"`{reference}` is ambiguous: two registries have different models with this number, and both are in the "
            "local model store"
        )
        raise ZooError(problem, hint=f"give the path of one of the folders: {choices}")
    return matches[0] if matches else None


def _matches(folder: Path, reference: Reference) -> bool:
    if reference.revision is None:
        return folder.name == reference.name
    origin = read_origin(folder)
    return origin is not None and (origin.name, origin.revision) == (reference.name, reference.revision)

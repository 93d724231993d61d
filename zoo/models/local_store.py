"""The local model store: the published models on this machine. This module does not load torch."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Self

from specs import ZooError
from specs.spec import Name
from zoo.files import storage
from zoo.files.atomic import restore_replaced, write_json
from zoo.files.manifest import Digest
from zoo.files.reading import read_bytes
from zoo.models.folder import ModelFolder
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

    @classmethod
    def of(cls, revision: Revision, registry: str) -> Self:
        """Return the origin of a revision in the registry at the given address."""
        return cls(registry=registry, name=revision.name, revision=revision.revision, digest=revision.digest)

    def write(self, folder: Path) -> None:
        """Write the origin to `revision.json` in the model's folder."""
        write_json(folder / ORIGIN_FILE, self.model_dump())


@dataclass(frozen=True)
class StoredModel(ModelFolder):
    """Version of a model in the local model store. Its folder may not exist yet.

    Attributes:
        name: Name of the model.
        pin: Beginning of the digest, for a revision that was pulled by its number. Its folder is `NAME@PIN`. None for
            the current version, whose folder is `NAME`.
    """

    name: str
    pin: str | None = None

    @classmethod
    def current(cls, name: str) -> Self:
        """Return the current version of a model.

        If a process was killed while replacing the folder, the folder is restored first.

        Raises:
            ZooError: The name is not valid (for example, "../x").
        """
        if not is_name(name):
            hint = (
                "use only letters, digits and `-_.,`, start with a letter or digit, and do not write two dots in a row"
            )
            raise ZooError(f"`{name}` is not a valid model name", hint=hint)
        restore_replaced(storage.models())
        return cls(storage.models() / name, name)

    @classmethod
    def at(cls, folder: Path) -> Self | None:
        """Return the model version in a folder, or None if the folder is not in the store or has an invalid name."""
        name, at, pin = folder.name.partition("@")
        is_valid = folder.parent == storage.models() and is_name(name) and len(pin) == _PIN_LENGTH * len(at)
        return cls(folder, name, pin or None) if is_valid else None

    def pinned(self, digest: str) -> Self:
        """Return the version of this model with the given digest. Its folder is `NAME@PIN`."""
        pin = digest[:_PIN_LENGTH]
        return type(self)(self.folder.with_name(f"{self.name}@{pin}"), self.name, pin)

    @property
    def origin(self) -> Origin | None:
        """Registry and revision of the files. None if the folder has no valid `revision.json` for them."""
        file = self.folder / ORIGIN_FILE
        try:
            origin = parse_record(Origin, read_bytes(file), str(file))
        except ZooError:  # the model works without the file
            return None
        return origin if origin.digest == self.digest else None


def models() -> list[StoredModel]:
    """Return all models in the local model store, sorted by name. The current version precedes other versions."""
    store = storage.models()
    if not store.is_dir():
        return []
    restore_replaced(store)
    found = filter(None, map(StoredModel.at, store.iterdir()))
    return sorted((model for model in found if model.published), key=lambda model: (model.name, model.pin or ""))


def names(pattern: str = "*") -> list[str]:
    """Return the sorted names of the models in the local model store that match a pattern, such as `*big*`."""
    return [model.name for model in models() if model.pin is None and fnmatchcase(model.name, pattern)]


def versions(name: str) -> list[StoredModel]:
    """Return all versions of a model in the local model store, with the current version first."""
    return [model for model in models() if model.name == name]


def find(reference: Reference) -> StoredModel | None:
    """Return the model version that a reference selects, or None if it is not in the local model store.

    Raises:
        ZooError: Two registries have different revisions with this number, and both are in the store.
    """
    if not reference.pinned:
        current = StoredModel.current(reference.name)
        return current if current.published else None
    matches = [
        model
        for model in versions(reference.name)
        if (origin := model.origin) is not None and Reference(origin.name, origin.revision) == reference
    ]
    digests = {model.digest: model.folder for model in matches}
    if len(digests) > 1:
        choices = " or ".join(f"`{folder}`" for folder in digests.values())
        problem = (
            f"`{reference}` is ambiguous: two registries have different revisions with this number, and both are in "
            "the local model store"
        )
        raise ZooError(problem, hint=f"use the path of one of the folders: {choices}")
    return matches[0] if matches else None

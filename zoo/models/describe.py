"""Describe a published model without downloading its weights (`zoo.describe`)."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import compiler
from specs import Spec, ZooError, parse
from zoo.files import manifest
from zoo.files.reading import damaged
from zoo.models import find
from zoo.models.folder import MAX_SPEC_BYTES, SCORES, SPEC, ModelFolder
from zoo.models.local_store import bundle_digest, read_origin
from zoo.models.pull import RegistryModel, find_in_registries
from zoo.models.registries.registry import blob_path
from zoo.models.registries.revision import parse_reference
from zoo.report import Report, WarningsReport

_MAX_SCORES_BYTES = 1_000_000


@dataclass(frozen=True)
class Description:
    """Properties of a published model.

    Attributes:
        name: Name of the model.
        spec: Spec of the model.
        parameters: Number of parameters. Tied matrices count once.
        files: Size in bytes of each file.
        scores: Content of `scores.json`.
        revision: Number of the revision in its registry. None if it was not published to a registry.
        digest: SHA-256 that identifies this revision, as in `NAME@sha256:...`.
        registry: Address of the registry that the model was pulled from or published to.
        folder: Folder of the model on this machine. None if the model is only in a registry.
    """

    name: str
    spec: Spec
    parameters: int
    files: Mapping[str, int]
    scores: Mapping[str, Any]
    revision: int | None
    digest: str
    registry: str | None
    folder: Path | None

    @property
    def bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(self.files.values())


def describe(name: str | os.PathLike[str], report: Report | None = None) -> Description:
    """Describe a published model. If it is not in the local model store, search the registries.

    The weights are not downloaded.

    Args:
        name: A name (also `NAME@2` and `NAME@sha256:...`), or the folder of a published model.
        report: Receives warnings. The default uses Python's `warnings`.

    Raises:
        ZooError: There is no such model, or one of its files is damaged.
    """
    report = report or WarningsReport()
    folder, reference = find.local_model(name), parse_reference(os.fspath(name))
    if folder is not None:
        return _describe_folder(folder)
    found = None if reference is None else find_in_registries(reference, report)
    if found is None:
        raise find.not_published_error(name, in_registries=True)
    return _describe_registry_model(found)


def _describe_folder(folder: Path) -> Description:
    bundle, origin = ModelFolder(folder), read_origin(folder)
    listed = manifest.read(folder)
    spec = bundle.parse_spec(listed.read_file(SPEC, MAX_SPEC_BYTES))
    return Description(
        name=origin.name if origin else spec.name,
        spec=spec,
        parameters=compiler.parameters(spec),
        files={file: entry.bytes for file, entry in listed.entries.items()},
        scores=_parse_scores(listed.read_file(SCORES, _MAX_SCORES_BYTES), str(bundle.scores)),
        revision=origin.revision if origin else None,
        digest=bundle_digest(folder) or "",
        registry=origin.registry if origin else None,
        folder=folder,
    )


def _describe_registry_model(found: RegistryModel) -> Description:
    revision = found.revision
    try:
        spec = parse(_read_file(found, SPEC, MAX_SPEC_BYTES).decode(), f"{SPEC} of {revision.pin}")
    except UnicodeDecodeError:
        raise _damaged(found, SPEC) from None
    return Description(
        name=revision.name,
        spec=spec,
        parameters=compiler.parameters(spec),
        files={name: file.bytes for name, file in revision.files.items() if name != manifest.NAME},
        scores=_parse_scores(_read_file(found, SCORES, _MAX_SCORES_BYTES), f"{SCORES} of {revision.pin}"),
        revision=revision.revision,
        digest=revision.digest,
        registry=found.registry.address,
        folder=None,
    )


def _parse_scores(content: bytes, location: str) -> dict[str, Any]:
    try:
        scores = json.loads(content)
    except (ValueError, RecursionError):
        raise damaged(location, "it is not valid JSON") from None
    return scores if isinstance(scores, dict) else {}


def _read_file(found: RegistryModel, name: str, max_bytes: int) -> bytes:
    """Return the content of a small file of a revision. Raise ZooError if it is missing or was changed."""
    file = found.revision.files.get(name)
    content = found.registry.store.read(blob_path(file.sha256), max_bytes) if file else None
    if file is None or content is None or hashlib.sha256(content).hexdigest() != file.sha256:
        raise _damaged(found, name)
    return content


def _damaged(found: RegistryModel, name: str) -> ZooError:
    problem = f"`{found.registry.address}` is damaged: `{name}` of `{found.revision.pin}` is missing or was changed"
    return ZooError(problem, hint="ask the owner of the registry to publish the model again", exit_code=1)

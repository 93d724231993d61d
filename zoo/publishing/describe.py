"""`zoo.describe`: what is known of a published model, without its weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import compiler
from specs import Spec, ZooError, parse
from zoo.files import manifest
from zoo.models import find
from zoo.models.folder import SCORES, SPEC, ModelFolder
from zoo.models.origin import digest, origin
from zoo.models.pull import Found, looked, published
from zoo.models.registries.reference import reference
from zoo.report import Report
from zoo.report import WarningsReport

_LONGEST = 1_000_000  # bytes of a spec, and of scores


@dataclass(frozen=True)
class Description:
    """A published model. `parameters` counts tied ones once; `scores` are those of its scores.json."""

    name: str
    spec: Spec
    parameters: int
    files: Mapping[str, int]
    """Their sizes in bytes."""
    scores: Mapping[str, Any]
    revision: int | None
    """Its number in the registry; None where it was published to none."""
    digest: str
    """Of this state of it: what `NAME@sha256:...` pins."""
    registry: str | None
    """That it was pulled from, or published to."""
    folder: Path | None
    """Where it stands; None where it has not been pulled."""

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(self.files.values())


def describe(name: str | os.PathLike[str], report: Report | None = None) -> Description:
    """What is known of a published model: on the shelf, else in the registries. Its weights are not fetched.

    `name` may be pinned, or the folder of a bundle. Raises ZooError where there is no such model, or where what is
    known of it is damaged.
    """
    report = report or WarningsReport()
    folder, wanted = find.on_shelf(name, report), reference(os.fspath(name))
    if folder is not None:
        return _of_folder(folder)
    found = None if wanted is None else published(wanted, report)
    if found is None:
        raise find.unpublished(name, "" if wanted is None else looked(wanted))
    return _of_registry(found)


def _of_folder(folder: Path) -> Description:
    bundle, known = ModelFolder(folder), origin(folder)
    listed = manifest.read(folder)
    spec = bundle.parsed(listed.content(SPEC, _LONGEST))
    return Description(
        name=known.name if known else spec.name,
        spec=spec,
        parameters=compiler.parameters(spec),
        files={file: entry.bytes for file, entry in listed.entries.items()},
        scores=_scores(listed.content(SCORES, _LONGEST), str(bundle.scores)),
        revision=known.revision if known else None,
        digest=digest(folder) or "",
        registry=known.registry if known else None,
        folder=folder,
    )


def _of_registry(found: Found) -> Description:
    revision = found.revision
    try:
        spec = parse(_content(found, SPEC).decode(), f"{SPEC} of {revision.pin}")
    except UnicodeDecodeError:
        raise _damaged(found, SPEC) from None
    return Description(
        name=revision.name,
        spec=spec,
        parameters=compiler.parameters(spec),
        files={name: file.bytes for name, file in revision.files.items() if name != manifest.NAME},
        scores=_scores(_content(found, SCORES), f"{SCORES} of {revision.pin}"),
        revision=revision.revision,
        digest=revision.digest,
        registry=found.registry.address,
        folder=None,
    )


def _scores(content: bytes, where: str) -> dict[str, Any]:
    try:
        scores = json.loads(content)
    except (ValueError, RecursionError):
        raise ZooError(f"`{where}` is damaged: it is not JSON", exit_code=1) from None
    return scores if isinstance(scores, dict) else {}


def _content(found: Found, name: str) -> bytes:
    """Of a small file. Raises ZooError where the registry has it not, or otherwise than it was published."""
    file = found.revision.files.get(name)
    content = found.registry.blob(file.sha256, _LONGEST) if file else None
    if file is None or content is None or sha256(content).hexdigest() != file.sha256:
        raise _damaged(found, name)
    return content


def _damaged(found: Found, name: str) -> ZooError:
    problem = f"`{found.registry.address}` is damaged: what it has of `{found.revision.pin}`'s `{name}` is no such file"
    return ZooError(problem, exit_code=1)

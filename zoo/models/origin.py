"""Which revision of which registry a bundle on the shelf is: a file beside it, which its manifest does not list."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from specs import ZooError
from specs.spec import Name
from zoo.files import manifest
from zoo.files.content import content, stands
from zoo.files.files import write_json
from zoo.models.registries.revision import Digest, Number, Revision, Written, parsed

FILE = "revision.json"


class Origin(Written):
    """Where it was pulled from, or published to."""

    registry: str
    name: Name
    revision: Number
    digest: Digest

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, self.model_dump())


def origin(folder: Path) -> Origin | None:
    """Of the bundle in a folder; None where it is no revision of any registry, as far as is known, or another now."""
    if not stands(folder / FILE):
        return None
    try:
        found = parsed(Origin, content(folder / FILE), str(folder / FILE))
    except ZooError:  # a note that nothing depends on
        return None
    return found if found.digest == digest(folder) else None


def of(revision: Revision, registry: str) -> Origin:
    return Origin(registry=registry, name=revision.name, revision=revision.revision, digest=revision.digest)


def digest(folder: Path) -> str | None:
    """By which `@sha256:` pins the bundle in a folder; None where there is none."""
    file = folder / manifest.NAME
    return sha256(content(file)).hexdigest() if stands(file) else None

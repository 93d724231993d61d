"""`zoo.describe(NAME)`: what a published model says of itself, without its weights (no torch is loaded)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import compiler
from specs import Spec
from zoo.model import find
from zoo.model.folder import CARD, SCORES, SPEC, ModelFolder
from zoo.shelf import facts
from zoo.shelf.facts import Facts
from zoo.storage import manifest
from zoo.storage.content import content
from zoo.storage.files import parsed_json


@dataclass(frozen=True)
class Description:
    """`digest` is that of its manifest, which names all of its files: what `NAME@sha256:...` pins."""

    name: str
    folder: Path
    digest: str
    spec: Spec
    parameters: int
    scores: Mapping[str, Any]
    facts: Facts
    card: str
    """Markdown."""


def describe(reference: str | os.PathLike[str]) -> Description:
    """Of the published model of this name, or in this folder.

    Raises ZooError where there is none, or where what it says is not what was published; `zoo verify` looks at the
    rest of it.
    """
    folder = find.published(reference)
    listed, of = manifest.read(folder), ModelFolder(folder)
    spec = of.parsed(listed.content(SPEC))
    return Description(
        name=spec.name,
        folder=folder,
        digest=sha256(content(folder / manifest.NAME)).hexdigest(),
        spec=spec,
        parameters=compiler.parameters(spec),
        scores=parsed_json(of.scores, listed.content(SCORES)),
        facts=facts.read(folder, listed),
        card=listed.content(CARD).decode("utf-8", errors="replace"),
    )

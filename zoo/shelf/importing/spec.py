"""The spec of an imported model: whole, of a corpus that nobody has here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import specs
from specs import Spec
from zoo.shelf.importing.imported import LANGUAGES, Wanted


def imported_spec(wanted: Wanted, description: str, **sections: Mapping[str, Any]) -> Spec:
    """Base's fields, and over them those of `sections`: `architecture`, `vocabulary`, `decoding`.

    Raises ZooError where they do not fit each other.
    """
    source, target = wanted.languages or LANGUAGES
    corpus = {"source": source, "target": target, "train": [], "dev": [], "test": []}
    spec = specs.load("base", {"name": wanted.name, "description": description, "corpus": corpus, **sections})
    return spec.called(wanted.name)

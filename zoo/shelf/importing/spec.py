"""The spec of an imported model: whole, of a corpus that nobody has here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import specs
from specs import Spec
from zoo.shelf.importing.imported import LANGUAGES, Wanted

_LONGEST = 256
"""Pieces of a sentence that it may be trained on with, as base's; of learned positions there may be fewer."""


def imported_spec(wanted: Wanted, description: str, **sections: Mapping[str, Any]) -> Spec:
    """Base's fields, and over them those of `sections`: `architecture`, `vocabulary`, `decoding`.

    Raises ZooError where they do not fit each other.
    """
    source, target = wanted.languages or LANGUAGES
    corpus: dict[str, Any] = {"source": source, "target": target, "train": [], "dev": [], "test": []}
    network = sections["architecture"]
    if network.get("positional_encoding") == "learned":
        corpus["max_length"] = min(_LONGEST, network["max_positions"] - 1)
    spec = specs.load("base", {"name": wanted.name, "description": description, "corpus": corpus, **sections})
    return spec.called(wanted.name)

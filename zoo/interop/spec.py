"""The spec of an imported model: whole, of a corpus that nobody has here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import specs
from specs import Spec
from zoo.interop.imported import LANGUAGES, Wanted

_LONGEST = 256
"""Tokens of a sentence that it may be trained on with, as base's; of learned positions there may be fewer."""


_MOST = 200
"""Signs of a description."""


def imported_spec(wanted: Wanted, description: str, **sections: Mapping[str, Any]) -> Spec:
    """Base's fields, and over them those of `sections`: `architecture`, `vocabulary`, `decoding`.

    The description may have words of strangers in it: one line of plain words is left. Raises ZooError
    where the sections do not fit each other.
    """
    source, target = wanted.languages or LANGUAGES
    corpus: dict[str, Any] = {"source": source, "target": target, "train": [], "dev": [], "test": []}
    network = sections["architecture"]
    if network.get("positional_encoding") == "learned":
        corpus["max_length"] = min(_LONGEST, network["max_positions"] - 1)
    said = {"name": wanted.name, "description": _plain(description), "corpus": corpus}
    return specs.load("base", {**said, **sections}).with_short_name(wanted.name)


def _plain(words: str) -> str:
    """Letters, digits and what stands between words and in names of files: nothing that a page would act upon."""
    kept = "".join(sign if sign.isalnum() or sign in "_-.,()'/" else " " for sign in words)
    return " ".join(kept.split())[:_MOST]

"""Sentence pairs and lists of files, for the scripts that speak or draw text."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

MAX_CHARACTERS = 60


def read_pairs(sources: Path, targets: Path, characters: Set[str] | None = None) -> list[tuple[str, str]]:
    """Return the pairs with short sources of given characters, one for each source, in random order."""
    lines = zip(*(file.read_text("utf-8").split("\n") for file in (sources, targets)), strict=True)
    short = [(source, target) for source, target in lines if 0 < len(source) <= MAX_CHARACTERS]
    pairs = {source: target for source, target in short if characters is None or characters >= {*source}}
    return random.Random(0).sample([*pairs.items()], len(pairs))


def write_lists(out: Path, name: str, lists: Mapping[str, Iterable[object]]) -> None:
    """Write lists of files and texts, one item per line. The keys of `lists` are the suffixes of the written files."""
    for suffix, items in lists.items():
        (out / f"{name}.{suffix}").write_text("".join(f"{item}\n" for item in items), "utf-8")

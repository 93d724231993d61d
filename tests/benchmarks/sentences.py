"""Arguments, sentence pairs and lists of files, for the scripts that speak, draw or read text."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

MAX_CHARACTERS = 60


def parser_for(description: str | None, **places: type) -> argparse.ArgumentParser:
    """Return a parser with the docstring of a script, and its required arguments with their types."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in places.items():
        parser.add_argument(name, type=kind)
    return parser


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

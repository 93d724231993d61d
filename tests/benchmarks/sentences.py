"""Parse arguments, read sentence pairs and write lists of files, for the scripts that speak, draw or read text."""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

MAX_CHARACTERS = 60


def parser_for(description: str | None, **places: type) -> argparse.ArgumentParser:
    """Return a parser for the required arguments of a script.

    Args:
        description: The docstring of the script, which `--help` prints.
        places: The names of the positional arguments, in order, and their types.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in places.items():
        parser.add_argument(name, type=kind)
    return parser


def read_pairs(sources: Path, targets: Path, characters: Set[str] | None = None) -> list[tuple[str, str]]:
    """Read sentence pairs from two files. Return the pairs that have a short source, in random order.

    If several pairs have the same source, only one is returned.

    Args:
        sources: The file with one source sentence per line.
        targets: The file with the translations.
        characters: The characters that a source may contain. If None, all characters are allowed.
    """
    lines = zip(*(file.read_text("utf-8").split("\n") for file in (sources, targets)), strict=True)
    short = [(source, target) for source, target in lines if 0 < len(source) <= MAX_CHARACTERS]
    pairs = {source: target for source, target in short if characters is None or characters >= {*source}}
    return random.Random(0).sample([*pairs.items()], len(pairs))


def write_lists(out: Path, name: str, lists: Mapping[str, Iterable[object]]) -> None:
    """Write each list, one item per line, to the file `NAME.SUFFIX` in the folder `out`. The keys are the suffixes."""
    for suffix, items in lists.items():
        (out / f"{name}.{suffix}").write_text("".join(f"{item}\n" for item in items), "utf-8")

"""Small specs, and examples from pairs of texts, for tests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import specs
from zoo.data.batches import Examples

SMALL: dict[str, Any] = {
    "architecture": {"N": 2, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4, "dropout": 0.1},
    "vocabulary": {"size": 101},
    "compilation": {"backend": "eager"},
}
"""All sizes differ, so that a test fails if two of them are mixed up."""
PAIRS = (
    ("the old dog sees a small house", "der alte Hund sieht ein kleines Haus"),
    ("we read two books today", "heute lesen wir zwei Bücher"),
    ("she does not know the man", "sie kennt den Mann nicht"),
    ("do you see the cat?", "siehst du die Katze?"),
)


def small(**architecture: Any) -> specs.Spec:
    """Return a much smaller `tiny`, with these fields of its architecture.

    With features as the source, it reads pictures, whose height is that of the patches times the rows.
    """
    overrides = {**SMALL, "architecture": {**SMALL["architecture"], **architecture}}
    if height := architecture.get("source", {}).get("width"):
        rows = architecture.get("positions", {}).get("rows", 1)
        patches = {"kind": "image", "height": rows * height, "patch": {"height": height, "width": 1}}
        overrides["task"] = {"kind": "recognition", "source": patches}
        overrides["corpus"] = {"train": [], "dev": [], "test": []}
    return specs.load("tiny", overrides)


def changed(spec: specs.Spec, section: str = "compilation", /, **fields: object) -> specs.Spec:
    """Return the spec with these fields of a section, which are not checked."""
    return spec.model_copy(update={section: getattr(spec, section).model_copy(update=fields)})


def examples(pairs: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Return an example for each (source, target) pair."""
    return [{"source": source, "target": target} for source, target in pairs]


def write_pairs(pairs: Iterable[Sequence[str]], folder: Path = Path(), name: str = "pairs") -> None:
    """Write the sources and the targets of pairs to the files `NAME.en` and `NAME.de`."""
    for lines, language in zip(zip(*pairs, strict=True), ("en", "de"), strict=True):
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def rows(sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]]) -> Examples:
    """Return the examples with these token IDs."""
    sides = {"source": sources, "target": targets}
    return Examples({name: [np.asarray(row, np.int32) for row in side] for name, side in sides.items()})

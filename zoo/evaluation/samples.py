"""A few sentences and what is made of them, for a person to look at."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 3
_CALLED = ("source", "reference", "ours")


def samples(sources: Sequence[str], references: Sequence[str], outputs: Sequence[str]) -> str:
    """The first MOST sentences that are not empty, each with its reference and our output under it."""
    found = [each for each in zip(sources, references, outputs, strict=True) if each[0].strip()]
    width = max(map(len, _CALLED))
    several = [
        "".join(f"\n  {name:<{width}}  {text}" for name, text in zip(_CALLED, each, strict=True))
        for each in found[:MOST]
    ]
    return "\n".join(several).removeprefix("\n")

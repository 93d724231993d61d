"""Examples from pairs of texts, for tests."""

from collections.abc import Iterable, Sequence

import numpy as np

from zoo.data.batches import Examples


def examples(pairs: Iterable[Sequence[str]]) -> list[dict[str, str]]:
    """Return an example for each (source, target) pair."""
    return [{"source": source, "target": target} for source, target in pairs]


def rows(sources: Iterable[Sequence[int]], targets: Iterable[Sequence[int]]) -> Examples:
    """Return the examples with these token IDs."""
    sides = {"source": sources, "target": targets}
    return Examples({name: [np.asarray(row, np.int32) for row in side] for name, side in sides.items()})

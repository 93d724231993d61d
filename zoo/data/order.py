"""Pairs in an order by their lengths: neighbours make a batch with little padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

_BLUR = 0.05  # of a length: costs one percent of padding, and halves how many pairs meet again in the next epoch


def by_length(source: Lengths, target: Lengths, random: np.random.Generator) -> Indices:
    """Pairs by length of the source, then of the target, each blurred a little, so that every epoch has other batches.

    Target lengths rise and fall by turns, so that neighbours are alike where the source's length changes, too.
    """
    order = random.permutation(len(source))
    source_key, target_key = (_blurred(each, random) for each in (source, target))
    for key in (np.where(source_key % 2 == 0, -target_key, target_key), source_key):
        order = order[np.argsort(key[order], kind="stable")]
    return order


def in_bands(source: Lengths, target: Lengths, count: int) -> Indices:
    """As `by_length`, but by so many bands of the source's length alone, and within each by the target's."""
    by_source = np.lexsort((target, source))
    band = np.empty(len(source), np.int64)
    band[by_source] = np.arange(len(source)) * count // max(1, len(source))
    return np.lexsort((np.where(band % 2 == 0, target, -target), band))


def _blurred(lengths: Lengths, random: np.random.Generator) -> npt.NDArray[np.integer[Any]]:
    """In 16 bits, if they do: numpy sorts those in linear time, tens of millions in a second."""
    blurred = np.rint(lengths * (1 + _BLUR * random.random(len(lengths), np.float32)))
    return blurred.astype(np.int16 if blurred.max(initial=0) < 1 << 15 else np.int32)


def runs(source: Lengths, target: Lengths, most_source: int, most_target: int) -> Indices:
    """Starts and ends of the longest runs, one after another, that both budgets allow: [batches, 2]."""
    bounds, start, count = [], 0, len(source)
    while start < count:
        # No more rows than the first pair's own lengths allow: the longest are no shorter.
        rows = min(most_source // source[start], most_target // target[start], count - start)
        numbers = np.arange(1, rows + 1)
        fits = np.ones(rows, bool)
        for lengths, most in ((source, most_source), (target, most_target)):
            fits &= np.maximum.accumulate(lengths[start : start + rows]) * numbers <= most
        end = start + (int(rows) if fits.all() else int(np.argmin(fits)))
        bounds.append((start, end))
        start = end
    return np.array(bounds, np.int64).reshape(-1, 2)

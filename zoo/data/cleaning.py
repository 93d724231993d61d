"""Cleaning of the training text: select the pairs to train on, and count the pairs that are dropped per reason."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from specs import Corpus, ZooError
from specs.corpus import Direction, Filter
from zoo.data.corpus import Pair
from zoo.data.languages import is_other_language
from zoo.system.memory import machine_memory, require_memory
from zoo.text.lines import clean

PairStatuses = npt.NDArray[np.uint8]
_BYTES_PER_PAIR, _BYTES_PER_HASHED_PAIR = 2, 40  # memory for its status, and for each hash and its sort index
_PAIRS_BETWEEN_MEMORY_CHECKS = 1 << 20
_MARKUP = re.compile(r"</?[a-z][a-z0-9]*(\s[^<>]*)?/?>|&(#\d+|#x[\da-f]+|[a-z]{2,8});", re.IGNORECASE)
_COUNTED = ("empty", "duplicate", "copy", "markup", "language", "kept")
_MEMORY_HINT = "train on fewer pairs, or set `corpus.deduplicate=false` and hold out no pairs"


class PairStatus(IntEnum):
    """How a pair of the training text is used."""

    KEPT = 0
    EMPTY = 1
    DUPLICATE = 2
    DEV = 3
    TEST = 4
    SAME_SOURCE = 5
    """Not used, because a held-out pair of dev or test has the same source."""
    COPY = 6
    MARKUP = 7
    LANGUAGE = 8


REASONS: dict[str, str] = {
    "empty": "with an empty side",
    "duplicate": "duplicates",
    "copy": "with equal sides",
    "markup": "with HTML",
    "language": "in another language",
    "held_out": "held out",
    "long": "too long",
    "ratio": "with too different lengths",
}
"""Each reason for which pairs are dropped, and its description. The reasons are also fields of `CleaningCounts`."""


@dataclass(frozen=True)
class CleaningCounts:
    """Numbers of training pairs that are kept, held out, and dropped for each reason."""

    read: int = 0
    empty: int = 0
    """Dropped, because the source or the target has no text."""
    duplicate: int = 0
    """Dropped, because the same pair occurred before."""
    held_out: int = 0
    """Not trained on, because they are held out for dev or test, or have the same source as a held-out pair."""
    long: int = 0
    """Dropped, because the source or the target has more than `corpus.max_length` tokens."""
    ratio: int = 0
    """Dropped, because one side has more than `corpus.max_ratio` times the tokens of the other."""
    copy: int = 0
    """Dropped by `corpus.filters`, because both sides are equal."""
    markup: int = 0
    """Dropped by `corpus.filters`, because a side contains HTML."""
    language: int = 0
    """Dropped by `corpus.filters`, because a side is in another language."""
    kept: int = 0
    control: int = 0
    """Pairs with control characters, which were replaced by spaces. These pairs also count in another field."""

    def __str__(self) -> str:
        """Return a description of all counts on one line."""
        counts = ((getattr(self, reason), description) for reason, description in REASONS.items())
        dropped = ", ".join(f"{count:,} {description}" for count, description in counts if count)
        control = f" (spaces replaced control characters in {self.control:,})" if self.control else ""
        return f"{self.read:,} pairs read{control}, {self.kept:,} kept; dropped: {dropped or 'none'}"


def classify_pairs(
    pairs: Iterable[Pair], *, deduplicate: bool, dev: int = 0, test: int = 0, filtered: Sequence[int] = ()
) -> tuple[PairStatuses, CleaningCounts]:
    """Determine how each training pair is used: kept, dropped, or held out for dev or test.

    The pairs whose sources have the smallest hashes are held out, so that the selection does not depend on the order of
    the sentences. All pairs with the same source are held out together. If the last source of dev or test has more
    pairs than are needed, the remaining pairs are not used.

    The function needs up to 2 bytes of memory per pair, 40 more bytes per pair to find duplicates, and 40 more bytes
    per pair to hold out pairs.

    Args:
        pairs: The training text.
        deduplicate: Whether to drop repeated pairs.
        dev: Number of pairs to hold out for dev.
        test: Number of pairs to hold out for test.
        filtered: Results of `apply_filters` for the pairs. Iterating over `pairs` may append them. Empty: no filters.

    Returns:
        Status of each pair, `[pairs]`, and the counts. Pairs with unsuitable lengths still count as kept (see
        `filter_by_length`).

    Raises:
        ZooError: There are fewer pairs than are to be held out, or there is too little memory.
    """
    statuses, source_hashes, pair_hashes = array("B"), array("Q"), array("Q")
    control = 0
    pair_bytes = _BYTES_PER_PAIR + _BYTES_PER_HASHED_PAIR * (bool(dev or test) + deduplicate)
    for source, target in pairs:
        if len(statuses) % _PAIRS_BETWEEN_MEMORY_CHECKS == 0:
            require_memory(
                len(statuses) * pair_bytes, machine_memory(), "to classify the pairs of `corpus.train`", _MEMORY_HINT
            )
        cleaned = clean(source), clean(target)
        control += (source.strip(), target.strip()) != cleaned
        found = filtered[len(statuses)] if filtered else PairStatus.KEPT
        statuses.append(found if all(cleaned) else PairStatus.EMPTY)
        if dev or test:
            source_hashes.append(_hash(cleaned[0]))
        if deduplicate:
            pair_hashes.append(_hash("\n".join(cleaned)))
    result = np.array(statuses, np.uint8)
    if deduplicate:
        _mark_duplicates(result, np.array(pair_hashes, np.uint64))
    if dev or test:
        _hold_out(result, np.array(source_hashes, np.uint64), ((PairStatus.DEV, dev), (PairStatus.TEST, test)))
    count = np.bincount(result, minlength=len(PairStatus))
    return result, CleaningCounts(
        read=len(result),
        **{name: int(count[PairStatus[name.upper()]]) for name in _COUNTED},
        held_out=int(count[PairStatus.DEV] + count[PairStatus.TEST] + count[PairStatus.SAME_SOURCE]),
        control=control,
    )


def apply_filters(pair: Pair, filters: Iterable[Filter], direction: Direction) -> PairStatus:
    """Return the status of the first of `corpus.filters` that drops a pair, or KEPT."""
    source, target = cleaned = clean(pair[0]), clean(pair[1])
    tests: dict[Filter, Callable[[], bool]] = {
        "copy": lambda: source == target,
        "markup": lambda: any(map(_MARKUP.search, cleaned)),
        "language": lambda: any(map(is_other_language, cleaned, direction)),
    }
    return next((PairStatus[name.upper()] for name in filters if tests[name]()), PairStatus.KEPT)


def pairs_with_status(pairs: Iterable[Pair], statuses: PairStatuses, status: PairStatus) -> Iterator[Pair]:
    """Yield the pairs that have this status, cleaned."""
    for (source, target), pair_status in zip(pairs, statuses, strict=False):
        if pair_status == status:
            yield clean(source), clean(target)


def filter_by_length(
    source: Sequence[list[int]], target: Sequence[list[int]], section: Corpus, counts: CleaningCounts
) -> tuple[list[int], CleaningCounts]:
    """Select the pairs that satisfy `corpus.max_length` and `corpus.max_ratio`.

    Returns:
        Indices of the selected pairs, and `counts` in which all other pairs now count as dropped.
    """
    lengths = np.array([[len(row) for row in side] for side in (source, target)], np.int64).reshape(2, -1)
    shorter, longer = lengths.min(0), lengths.max(0)
    empty = shorter == 0
    long = ~empty & (longer > section.max_length)
    uneven = ~empty & ~long & (longer > (section.max_ratio or np.inf) * np.maximum(shorter, 1))
    kept: list[int] = np.flatnonzero(~(empty | long | uneven)).tolist()
    counts = replace(
        counts,
        empty=counts.empty + int(empty.sum()),
        long=counts.long + int(long.sum()),
        ratio=counts.ratio + int(uneven.sum()),
        kept=counts.kept - len(shorter) + len(kept),
    )
    return kept, counts


def _hash(text: str) -> int:
    """Return a 64-bit hash. For ten million sentences, the probability of any collision is three in a million."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _mark_duplicates(statuses: PairStatuses, hashes: npt.NDArray[np.uint64]) -> None:
    kept = np.flatnonzero(statuses == PairStatus.KEPT)
    _, first = np.unique(hashes[kept], return_index=True)
    repeated = np.ones(len(kept), bool)
    repeated[first] = False
    statuses[kept[repeated]] = PairStatus.DUPLICATE


def _hold_out(statuses: PairStatuses, hashes: npt.NDArray[np.uint64], sets: Iterable[tuple[PairStatus, int]]) -> None:
    kept = np.flatnonzero(statuses == PairStatus.KEPT)
    # A stable sort leaves the pairs of one source in the order of the text.
    order = kept[np.argsort(hashes[kept], kind="stable")]
    sorted_hashes = hashes[order]
    start = 0
    for status, count in sets:
        end = start + count
        if end > len(order):
            raise ZooError(
                f"`corpus.{status.name.lower()}` holds out {count:,} pairs, but `corpus.train` has only "
                f"{len(order) - start:,} left",
                hint="hold out fewer pairs, or add training text",
            )
        statuses[order[start:end]] = status
        last = np.searchsorted(sorted_hashes, sorted_hashes[end - 1], side="right") if count else start
        statuses[order[end:last]] = PairStatus.SAME_SOURCE
        start = max(int(last), end)

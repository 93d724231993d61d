"""Which pairs of a corpus are trained on, and why the others are not."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import IntEnum
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from specs import ZooError
from zoo.data.parallel import Pair
from zoo.system.memory import machine_memory, require_memory
from zoo.text.lines import clean

Fates = npt.NDArray[np.uint8]
_PAIR, _TASK = 2, 40  # bytes a pair, and more for each task: its hashes, and their order
_LOOKED_AT = 1 << 20  # pairs
_FEWER = "train on fewer pairs, or hold none out and keep duplicates"


class Fate(IntEnum):
    """What becomes of a pair of the training text."""

    KEPT = 0
    EMPTY = 1
    DUPLICATE = 2
    DEV = 3
    TEST = 4
    BESIDE = 5


@dataclass(frozen=True)
class Counts:
    """Pairs of the training text, by what became of them; every pair that was read counts once but in `control`."""

    read: int = 0
    empty: int = 0
    """Dropped: a side has no text."""
    duplicate: int = 0
    """Dropped: the same pair came before."""
    held_out: int = 0
    """Not trained on: held out for dev or test, or of the same source as a pair that is."""
    long: int = 0
    """Dropped: a side has more than `corpus.max_length` tokens."""
    ratio: int = 0
    """Dropped: one side has more than `corpus.max_ratio` times the tokens of the other."""
    kept: int = 0
    control: int = 0
    """Control characters in it became spaces; not dropped for that."""

    def __str__(self) -> str:
        """All of it on a line for people."""
        reasons = {
            "with an empty side": self.empty,
            "seen before": self.duplicate,
            "held out": self.held_out,
            "too long": self.long,
            "of too uneven lengths": self.ratio,
        }
        told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
        spaced = f" (control characters became spaces in {self.control:,})" if self.control else ""
        return f"{self.read:,} pairs read{spaced}, {self.kept:,} kept; left out: {told or 'none'}"

    def as_dict(self) -> dict[str, int]:
        """The same as plain data."""
        return asdict(self)


def judge(pairs: Iterable[Pair], *, deduplicate: bool, dev: int = 0, test: int = 0) -> tuple[Fates, Counts]:
    """The fate of every training pair as far as its text alone decides it: [pairs], and the counts so far.

    `dev` and `test` pairs are held out: those of the sources with the smallest hashes, so that the choice follows
    from the sentences and not from their places. All pairs of one source go together; where those of a set's last
    source are more than the set takes, the rest is left out. Memory: 2 bytes a pair, and 40 for each of the
    two tasks while it works.

    Raises ZooError where there are too few sources to hold out `dev` and `test` pairs, and where the memory has no room
    for that.
    """
    fates, sources, both = array("B"), array("Q"), array("Q")
    control = 0
    takes = _PAIR + _TASK * (bool(dev or test) + deduplicate)
    for source, target in pairs:
        if len(fates) % _LOOKED_AT == 0:
            require_memory(len(fates) * takes, machine_memory(), "to judge the pairs of `corpus.train`", _FEWER)
        cleaned = clean(source), clean(target)
        control += (source.strip(), target.strip()) != cleaned
        fates.append(Fate.KEPT if all(cleaned) else Fate.EMPTY)
        if dev or test:
            sources.append(_hash(cleaned[0]))
        if deduplicate:
            both.append(_hash("\n".join(cleaned)))
    judged = np.array(fates, np.uint8)
    if deduplicate:
        _mark_duplicates(judged, np.array(both, np.uint64))
    if dev or test:
        _hold_out(judged, np.array(sources, np.uint64), ((Fate.DEV, dev), (Fate.TEST, test)))
    of = np.bincount(judged, minlength=len(Fate))
    return judged, Counts(
        read=len(judged),
        empty=int(of[Fate.EMPTY]),
        duplicate=int(of[Fate.DUPLICATE]),
        held_out=int(of[Fate.DEV] + of[Fate.TEST] + of[Fate.BESIDE]),
        kept=int(of[Fate.KEPT]),
        control=control,
    )


def with_fate(pairs: Iterable[Pair], fates: Fates, fate: Fate) -> Iterator[Pair]:
    """The cleaned pairs that have this fate."""
    for (source, target), given in zip(pairs, fates, strict=False):
        if given == fate:
            yield clean(source), clean(target)


@dataclass(frozen=True)
class Limits:
    """What tokens a training pair may have; `most` tokens a side, `ratio` of the longer side to the shorter."""

    most: int
    ratio: float | None

    def sift(
        self, source: Sequence[list[int]], target: Sequence[list[int]], counts: Counts
    ) -> tuple[list[int], Counts]:
        """Which of the pairs are within the limits, and `counts` with the others taken out."""
        lengths = np.array([[len(row) for row in side] for side in (source, target)], np.int64).reshape(2, -1)
        shorter, longer = lengths.min(0), lengths.max(0)
        empty = shorter == 0
        long = ~empty & (longer > self.most)
        uneven = ~empty & ~long & (longer > (np.inf if self.ratio is None else self.ratio) * np.maximum(shorter, 1))
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
    """64 bits: of ten million sentences about three in a million worlds share one by chance."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _mark_duplicates(fates: Fates, hashes: npt.NDArray[np.uint64]) -> None:
    kept = np.flatnonzero(fates == Fate.KEPT)
    _, first = np.unique(hashes[kept], return_index=True)
    again = np.ones(len(kept), bool)
    again[first] = False
    fates[kept[again]] = Fate.DUPLICATE


def _hold_out(fates: Fates, hashes: npt.NDArray[np.uint64], sets: Iterable[tuple[Fate, int]]) -> None:
    kept = np.flatnonzero(fates == Fate.KEPT)
    # Stable: by hash, and pairs of one source in the order of the text.
    order = kept[np.argsort(hashes[kept], kind="stable")]
    sorted_hashes = hashes[order]
    begin = 0
    for fate, wanted in sets:
        end = begin + wanted
        if end > len(order):
            raise ZooError(
                f"`corpus.{fate.name.lower()}` holds out {wanted:,} pairs, and train has {len(order) - begin:,} left",
                hint="hold out fewer pairs, or give train more",
            )
        fates[order[begin:end]] = fate
        last = np.searchsorted(sorted_hashes, sorted_hashes[end - 1], side="right") if wanted else begin
        fates[order[end:last]] = Fate.BESIDE
        begin = max(int(last), end)

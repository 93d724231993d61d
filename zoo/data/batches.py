"""Batches: pairs of about the same length, within a budget of source and of target tokens (paper, section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Int64
from torch import Tensor

from specs import BOS, EOS, PAD, ZooError
from zoo.data.order import Indices, Lengths, by_length, in_bands, runs
from zoo.data.store import Store
from zoo.system.memory import machine_memory, require_memory

Tokens = npt.NDArray[np.int32]

_ORDERED = 64  # bytes a pair: where it stands, how long it is, and what it is sorted by
_BANDS = 1.5  # to the square root of the batches: measured, a little more of them than of batches in each


@dataclass(frozen=True)
class Batch:
    """Pairs of sentences, padded with PAD. A row of `source` ends with EOS; one of `target` is BOS ... EOS."""

    source: Int64[Tensor, "batch source"]
    target: Int64[Tensor, "batch 1+target"]
    source_tokens: int
    """Tokens of all sources, with their EOS, without padding."""
    target_tokens: int
    """What is to be predicted: tokens of all targets, with their EOS, without padding and BOS."""

    @classmethod
    def of(cls, source: Tensor, target: Tensor) -> Self:
        """With the tokens counted."""
        return cls(source, target, int((source != PAD).sum()), int((target != PAD).sum()) - len(target))

    @classmethod
    def nothing(cls) -> Self:
        """A row with nothing to predict: it has neither loss nor gradients."""
        return cls.of(torch.tensor([[EOS]]), torch.tensor([[BOS, PAD]]))

    def __len__(self) -> int:
        return len(self.source)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch there; the copy does not wait."""
        source, target = (each.to(device, non_blocking=True) for each in (self.source, self.target))
        return Batch(source, target, self.source_tokens, self.target_tokens)

    def split(self, parts: int) -> list[Batch]:
        """At most `parts` batches of about as many rows, none empty, each trimmed to its own longest rows."""
        rows = [len(part) for part in np.array_split(np.arange(len(self)), parts) if len(part)]
        if len(rows) == 1:
            return [self]
        pairs = zip(torch.split(self.source, rows), torch.split(self.target, rows), strict=True)
        return [Batch.of(_trimmed(source), _trimmed(target)) for source, target in pairs]


class BatchSize(NamedTuple):
    """Of a batch: what it has without padding, EOS counted, and how many places its tensors have with it."""

    rows: int
    source_tokens: int
    target_tokens: int
    places: int

    def share(self, count: int) -> BatchSize:
        """Of one of `count` parts of it."""
        return BatchSize(*(-(-number // max(1, count)) for number in self))


class EpochBatches(Sequence[Indices]):
    """The batches of one epoch, each an array of indices of pairs: every pair in exactly one of them."""

    def __init__(self, order: Indices, bounds: Indices, total: BatchSize) -> None:
        self._order, self._bounds = order, bounds
        self.total = total
        """Of all of them together."""

    @property
    def padding(self) -> float:
        """Share of all places of the batches, source and target, that are padding."""
        tokens = self.total.source_tokens + self.total.target_tokens
        return 1 - tokens / self.total.places if self.total.places else 0.0

    @property
    def mean(self) -> BatchSize:
        """Of a batch."""
        return self.total.share(len(self))

    def __len__(self) -> int:
        return len(self._bounds)

    @overload
    def __getitem__(self, index: int) -> Indices: ...
    @overload
    def __getitem__(self, index: slice) -> list[Indices]: ...
    def __getitem__(self, index: int | slice) -> Indices | list[Indices]:
        if isinstance(index, slice):
            return [self._order[start:end] for start, end in self._bounds[index]]
        start, end = self._bounds[index]
        return self._order[start:end]

    def __iter__(self) -> Iterator[Indices]:
        return (self._order[start:end] for start, end in self._bounds)


class Pairs(NamedTuple):
    """Tokens of some pairs, without BOS and EOS: for each an array [length]."""

    sources: Sequence[Tokens]
    targets: Sequence[Tokens]

    @classmethod
    def of(cls, store: Store, indices: npt.ArrayLike) -> Self:
        """The pairs at `indices`, in this order."""
        rows = [int(index) for index in np.asarray(indices)]
        return cls([store.source(row) for row in rows], [store.target(row) for row in rows])

    @property
    def size(self) -> BatchSize:
        """Of the batch that they make."""
        source, target = ([len(row) + 1 for row in side] for side in self)
        return BatchSize(len(source), sum(source), sum(target), len(source) * (max(source) + max(target)))

    def share(self, rank: int, count: int) -> Pairs:
        """Every so many of them: where they are sorted by length, the shares are alike."""
        return Pairs(self.sources[rank::count], self.targets[rank::count])

    def batch(self) -> Batch:
        """As one batch; of none, `Batch.nothing`."""
        if not self.sources:
            return Batch.nothing()
        return Batch.of(_padded(self.sources, first=()), _padded(self.targets, first=(BOS,)))


def epoch_batches(
    store: Store, source_tokens: int, target_tokens: int, seed: int, epoch: int, weights: Sequence[float] = ()
) -> EpochBatches:
    """Batches with rows * (longest source + EOS) <= source_tokens, and the same of the targets.

    Which pairs meet and the order of the batches follow from `seed` and `epoch` alone. With `weights`, one for each
    part of the corpus, an epoch has each of its pairs so many times; of a fraction others in each epoch. Raises
    ZooError where a pair is longer than a budget, and where the weights leave no pair.
    """
    pairs = _drawn(store, weights, seed, epoch)
    source, target = store.source_lengths[pairs] + 1, store.target_lengths[pairs] + 1
    _check_longest(source, source_tokens, "source")
    _check_longest(target, target_tokens, "target")
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
    order = by_length(source, target, random)
    source, target = source[order], target[order]
    bounds = runs(source, target, source_tokens, target_tokens)
    random.shuffle(bounds)
    return EpochBatches(order if isinstance(pairs, slice) else pairs[order], bounds, _total(source, target, bounds))


def cut(pairs: Pairs, source_tokens: int, target_tokens: int, seed: int) -> list[Pairs]:
    """These pairs in batches within both budgets, by the lengths that they have here, in an order by the seed alone.

    For a few thousand pairs, which have been drawn anew: batches are too few for `epoch_batches`, whose targets would
    differ in each. No pair may be longer than a budget.
    """
    source, target = (np.array([len(row) + 1 for row in side], np.int32) for side in pairs)
    batches = max(source.sum() / source_tokens, target.sum() / target_tokens)
    order = in_bands(source, target, max(1, round(_BANDS * math.sqrt(batches))))
    bounds = runs(source[order], target[order], source_tokens, target_tokens)
    np.random.default_rng(seed).shuffle(bounds)
    sources, targets = ([side[index] for index in order] for side in pairs)
    return [Pairs(sources[start:end], targets[start:end]) for start, end in bounds]


def _drawn(store: Store, weights: Sequence[float], seed: int, epoch: int) -> Indices | slice:
    """The pairs of an epoch, by the weights of their parts."""
    if all(weight == 1.0 for weight in weights):
        return slice(None)
    many = sum(count * weight for count, weight in zip(store.parts, weights, strict=True))
    hint = "lower the weights of `corpus.train`"
    require_memory(many * _ORDERED, machine_memory(), f"to order an epoch of {many:,.0f} pairs", hint)
    random, start, drawn = np.random.default_rng([seed, epoch, 1]), 0, []
    for count, weight in zip(store.parts, weights, strict=True):
        whole = int(weight)
        drawn += [np.arange(start, start + count)] * whole
        drawn.append(start + random.permutation(count)[: round((weight - whole) * count)])
        start += count
    if not sum(map(len, drawn)):
        hint = "raise them: the weight of a part times its pairs is how many an epoch has of it"
        raise ZooError("an epoch has no pair at all: so small are the weights of `corpus.train`", hint=hint)
    return np.concatenate(drawn)


def _total(source: Lengths, target: Lengths, bounds: Indices) -> BatchSize:
    starts = np.sort(bounds[:, 0])
    rows = np.diff(np.append(starts, len(source)))
    longest = (np.maximum.reduceat(each, starts) if len(starts) else starts for each in (source, target))
    places = sum(int((each * rows).sum()) for each in longest)
    return BatchSize(len(source), int(source.sum(dtype=np.int64)), int(target.sum(dtype=np.int64)), places)


def _check_longest(lengths: Lengths, most: int, side: str) -> None:
    longest = int(lengths.max(initial=0))
    if longest > most:
        raise ZooError(
            f"a {side} of {longest - 1:,} tokens and its EOS do not fit into `training.{side}_tokens` ({most:,})",
            hint=f"write `training.{side}_tokens={longest}` or more, or lower `corpus.max_length`",
        )


def _padded(rows: Sequence[Tokens], first: tuple[int, ...]) -> Int64[Tensor, "batch longest"]:
    """Rows as `first`, their tokens, EOS, and PAD up to the longest."""
    before = len(first)
    width = max(map(len, rows), default=0) + before + 1
    array = np.full((len(rows), width), PAD, np.int64)
    array[:, :before] = first
    for place, row in zip(array, rows, strict=True):
        place[before : before + len(row)] = row
        place[before + len(row)] = EOS
    return torch.from_numpy(array)


def _trimmed(rows: Int64[Tensor, "batch longest"]) -> Int64[Tensor, "batch shorter"]:
    return rows[:, : int((rows != PAD).sum(1).max())]

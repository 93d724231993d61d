"""Batches of sentence pairs with similar lengths. Each batch has a maximum number of tokens (paper, section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch

from compiler.stream import Stream
from specs import BOS, EOS, PAD, ZooError
from zoo.data.store import Store
from zoo.system.memory import machine_memory, require_memory

Tokens = npt.NDArray[np.int32]
Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]

_BYTES_PER_ORDERED_PAIR = 64  # index, lengths and sort keys of a pair
_LENGTH_NOISE = 0.05
"""Relative random noise that is added to lengths before pairs are sorted by length.

The noise adds one percent of padding, but halves the number of pairs that share a batch again in the next epoch.
"""
_BANDS_PER_SQRT_BATCHES = 1.5
"""Number of bands (groups of similar source lengths), divided by the square root of the number of batches.

In measurements, there was least padding with slightly more bands than batches in each band.
"""


@dataclass(frozen=True)
class Batch:
    """Padded token IDs of sentence pairs.

    Attributes:
        source: Tokens of each source, then EOS.
        target: BOS, then the tokens of each target, then EOS.
        source_tokens: Number of source tokens, with EOS, without padding.
        target_tokens: Number of target tokens to predict, with EOS, without BOS and padding.
    """

    source: Stream
    target: Stream
    source_tokens: int
    target_tokens: int

    @classmethod
    def of(cls, source: Stream, target: Stream) -> Self:
        """Return a batch of these sources and targets, and count its tokens. The lengths must be on the CPU."""
        return cls(source, target, int(source.lengths.sum()), int(target.lengths.sum()) - len(target.lengths))

    @classmethod
    def empty(cls) -> Self:
        """Return a batch of one pair without tokens to predict, so that its loss and its gradients are zero."""
        return cls.of(Stream.pad([[EOS]]), Stream(torch.tensor([[BOS, PAD]]), torch.tensor([1])))

    def __len__(self) -> int:
        return len(self.source.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """Return a copy of the batch on a device. The copy is made asynchronously."""
        return Batch(self.source.to(device), self.target.to(device), self.source_tokens, self.target_tokens)

    def split_packed(self, source_tokens: int, target_tokens: int) -> list[Batch]:
        """Return parts with at most these numbers of tokens. Each pair must fit."""
        lengths = self.source.lengths.numpy(), self.target.lengths.numpy() - 1
        bounds = packed_bounds(*lengths, source_tokens, target_tokens)
        if len(bounds) == 1:
            return [self]
        return [Batch.of(*(side.rows(*part) for side in (self.source, self.target))) for part in bounds.tolist()]

    def split(self, parts: int) -> list[Batch]:
        """Return at most `parts` smaller batches with nearly equal numbers of pairs, without superfluous padding."""
        rows = [len(part) for part in np.array_split(np.arange(len(self)), parts) if len(part)]
        if len(rows) == 1:
            return [self]
        ends = np.cumsum(rows).tolist()
        return [Batch.of(*(side.rows(*part) for side in (self.source, self.target))) for part in pairwise([0, *ends])]


class BatchSize(NamedTuple):
    """Numbers of pairs (rows) and tokens in a batch, or in several batches together."""

    rows: int
    source_tokens: int
    """Source tokens with EOS, without padding."""
    target_tokens: int
    """Target tokens with EOS, without BOS and padding."""
    padded_tokens: int
    """Source and target tokens, with EOS and padding."""

    def share(self, count: int) -> BatchSize:
        """Return the size divided by `count`, with all numbers rounded up."""
        return BatchSize(*(-(-number // max(1, count)) for number in self))


class EpochBatches:
    """Batches of one epoch. Each batch is an array of indices of sentence pairs in the training text.

    Attributes:
        total: Size of all batches together.
    """

    def __init__(self, order: Indices, bounds: Indices, total: BatchSize) -> None:
        """Divide ordered pairs into batches.

        Args:
            order: Indices of all pairs of the epoch, ordered so that each batch is a slice of this array.
            bounds: Start and end of each batch in `order`, `[batches, 2]`.
            total: Size of all batches together.
        """
        self._order, self._bounds = order, bounds
        self.total = total

    @property
    def padding(self) -> float:
        """Fraction of source and target tokens that are padding."""
        tokens = self.total.source_tokens + self.total.target_tokens
        return 1 - tokens / self.total.padded_tokens if self.total.padded_tokens else 0.0

    @property
    def mean(self) -> BatchSize:
        """Mean size of a batch, rounded up."""
        return self.total.share(len(self))

    def __len__(self) -> int:
        return len(self._bounds)

    def __getitem__(self, index: int) -> Indices:
        start, end = self._bounds[index]
        return self._order[start:end]

    def __iter__(self) -> Iterator[Indices]:
        return (self._order[start:end] for start, end in self._bounds)


class Pairs(NamedTuple):
    """Token IDs of sentence pairs, without BOS and EOS. Each source and each target is an array `[length]`."""

    sources: Sequence[Tokens]
    targets: Sequence[Tokens]

    @classmethod
    def from_store(cls, store: Store, indices: npt.ArrayLike) -> Self:
        """Return the pairs of a token store that have these indices, in this order."""
        rows = [int(index) for index in np.asarray(indices)]
        return cls([store.source(row) for row in rows], [store.target(row) for row in rows])

    @property
    def size(self) -> BatchSize:
        """Size of the batch that consists of these pairs."""
        source, target = ([len(row) + 1 for row in side] for side in self)
        return BatchSize(len(source), sum(source), sum(target), len(source) * (max(source) + max(target)))

    def share(self, rank: int, count: int) -> Pairs:
        """Return the share of process `rank` of `count` processes: every `count`-th pair, starting at `rank`.

        If the pairs are sorted by length, the sentences of all shares have similar lengths.
        """
        return Pairs(self.sources[rank::count], self.targets[rank::count])

    def to_batch(self) -> Batch:
        """Return the pairs as a padded batch. If there are no pairs, return `Batch.empty()`."""
        if not self.sources:
            return Batch.empty()
        return Batch.of(_pad(self.sources, prefix=()), _pad(self.targets, prefix=(BOS,)))


def epoch_batches(
    store: Store,
    source_tokens: int,
    target_tokens: int,
    seed: int,
    epoch: int,
    weights: Sequence[float] = (),
    *,
    packed: bool = False,
) -> EpochBatches:
    """Return the batches of an epoch. The pairs of a batch have similar lengths.

    In each batch, the number of rows times the length of the longest source with EOS is at most `source_tokens` or, if
    batches are packed, the number of source tokens with EOS. The same applies to targets. The result depends only on
    `seed`, `epoch` and `packed`.

    Args:
        store: Tokens of the training text.
        source_tokens: Maximum number of source tokens per batch, with padding.
        target_tokens: Maximum number of target tokens per batch, with padding.
        seed: Seed of the training run.
        epoch: Number of the epoch.
        weights: How often an epoch contains the pairs of each part of the corpus. For a fraction such as 0.5, each
            epoch draws that fraction of the pairs at random. Empty: 1 for all parts.
        packed: Whether padding does not count, because batches are trained as packed rows.

    Raises:
        ZooError: A pair is too long for a batch, or the weights are so small that no pair is left.
    """
    pairs = _draw_pairs(store, weights, seed, epoch)
    source, target = store.source_lengths[pairs] + 1, store.target_lengths[pairs] + 1
    _check_longest(source, source_tokens, "source")
    _check_longest(target, target_tokens, "target")
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
    order = _order_by_length(source, target, random)
    source, target = source[order], target[order]
    bounds = _batch_bounds(source, target, source_tokens, target_tokens, packed)
    random.shuffle(bounds)
    indices = order if isinstance(pairs, slice) else pairs[order]
    total = _total_size(source, target, bounds)
    if packed:
        total = total._replace(padded_tokens=len(bounds) * (source_tokens + target_tokens))
    return EpochBatches(indices, bounds, total)


def batch_pairs(
    pairs: Pairs, source_tokens: int, target_tokens: int, seed: int, *, packed: bool = False
) -> list[Pairs]:
    """Return a few thousand pairs as batches with at most these numbers of tokens, in an order given by the seed.

    For so few pairs, the method of `epoch_batches` would put very different target lengths into one batch. Each pair
    must fit into a batch. `packed` means the same as in `epoch_batches`.
    """
    source, target = (np.array([len(row) + 1 for row in side], np.int32) for side in pairs)
    batches = max(source.sum() / source_tokens, target.sum() / target_tokens)
    order = _order_in_bands(source, target, max(1, round(_BANDS_PER_SQRT_BATCHES * math.sqrt(batches))))
    bounds = _batch_bounds(source[order], target[order], source_tokens, target_tokens, packed)
    np.random.default_rng(seed).shuffle(bounds)
    sources, targets = ([side[index] for index in order] for side in pairs)
    return [Pairs(sources[start:end], targets[start:end]) for start, end in bounds]


def _draw_pairs(store: Store, weights: Sequence[float], seed: int, epoch: int) -> Indices | slice:
    """Return the indices of the pairs of an epoch. `weights` says how often it contains each part of the corpus."""
    if all(weight == 1.0 for weight in weights):
        return slice(None)
    total = sum(count * weight for count, weight in zip(store.parts, weights, strict=True))
    hint = "lower the weights of `corpus.train`"
    require_memory(total * _BYTES_PER_ORDERED_PAIR, machine_memory(), f"to order an epoch of {total:,.0f} pairs", hint)
    random, start, indices = np.random.default_rng([seed, epoch, 1]), 0, []
    for count, weight in zip(store.parts, weights, strict=True):
        whole = int(weight)
        indices += [np.arange(start, start + count)] * whole
        indices.append(start + random.permutation(count)[: round((weight - whole) * count)])
        start += count
    if not sum(map(len, indices)):
        hint = "raise the weights: an epoch contains the weight of a part times its number of pairs"
        raise ZooError("the weights of `corpus.train` are so small that an epoch has no pair", hint=hint)
    return np.concatenate(indices)


def _order_by_length(source: Lengths, target: Lengths, random: np.random.Generator) -> Indices:
    """Return indices that order pairs by source length, then by target length. Random noise varies the order.

    Target lengths rise for one source length and fall for the next one, so that neighbours always have similar lengths.
    """
    order = random.permutation(len(source))
    source_key, target_key = (_noisy_lengths(lengths, random) for lengths in (source, target))
    for key in (np.where(source_key % 2 == 0, -target_key, target_key), source_key):
        order = order[np.argsort(key[order], kind="stable")]
    return order


def _order_in_bands(source: Lengths, target: Lengths, count: int) -> Indices:
    """Return indices that order pairs by band, then by target length. `count` equal bands divide the source lengths."""
    by_source = np.lexsort((target, source))
    band = np.empty(len(source), np.int64)
    band[by_source] = np.arange(len(source)) * count // max(1, len(source))
    return np.lexsort((np.where(band % 2 == 0, target, -target), band))


def _noisy_lengths(lengths: Lengths, random: np.random.Generator) -> npt.NDArray[np.integer[Any]]:
    """Return lengths with noise. They have 16 bits if possible, because numpy sorts such integers in linear time."""
    noisy = np.rint(lengths * (1 + _LENGTH_NOISE * random.random(len(lengths), np.float32)))
    return noisy.astype(np.int16 if noisy.max(initial=0) < 1 << 15 else np.int32)


def _batch_bounds(source: Lengths, target: Lengths, max_source: int, max_target: int, packed: bool) -> Indices:
    """Divide ordered pairs into consecutive batches, each with as many pairs as both token limits allow.

    Returns:
        Start and end of each batch, `[batches, 2]`.
    """
    if packed:
        return packed_bounds(source, target, max_source, max_target)
    bounds, start, count = [], 0, len(source)
    while start < count:
        # The first pair gives an upper bound of the number of rows, because the longest pair is at least as long.
        rows = min(max_source // source[start], max_target // target[start], count - start)
        row_counts = np.arange(1, rows + 1)
        fits = np.ones(rows, bool)
        for lengths, max_tokens in ((source, max_source), (target, max_target)):
            fits &= np.maximum.accumulate(lengths[start : start + rows]) * row_counts <= max_tokens
        end = start + (int(rows) if fits.all() else int(np.argmin(fits)))
        bounds.append((start, end))
        start = end
    return np.array(bounds, np.int64).reshape(-1, 2)


def packed_bounds(source: Lengths, target: Lengths, max_source: int, max_target: int) -> Indices:
    """Divide pairs into consecutive batches with at most these numbers of tokens, as many pairs in each as possible.

    Returns:
        Start and end of each batch, `[batches, 2]`.
    """
    bounds, start, count = [], 0, len(source)
    read, written = source.cumsum(dtype=np.int64), target.cumsum(dtype=np.int64)
    while start < count:
        before = (read[start - 1], written[start - 1]) if start else (0, 0)
        limits = ((read, before[0] + max_source), (written, before[1] + max_target))
        end = min(int(np.searchsorted(sums, limit, "right")) for sums, limit in limits)
        bounds.append((start, end))
        start = end
    return np.array(bounds, np.int64).reshape(-1, 2)


def _total_size(source: Lengths, target: Lengths, bounds: Indices) -> BatchSize:
    starts = np.sort(bounds[:, 0])
    rows = np.diff(np.append(starts, len(source)))
    longest = (np.maximum.reduceat(side, starts) if len(starts) else starts for side in (source, target))
    padded = sum(int((lengths * rows).sum()) for lengths in longest)
    return BatchSize(len(source), int(source.sum(dtype=np.int64)), int(target.sum(dtype=np.int64)), padded)


def _check_longest(lengths: Lengths, budget: int, side: str) -> None:
    longest = int(np.max(lengths, initial=0))
    if longest > budget:
        raise ZooError(
            f"a {side} of {longest - 1:,} tokens and its EOS exceed `training.{side}_tokens` ({budget:,})",
            hint=f"set `training.{side}_tokens={longest}` or more, or lower `corpus.max_length`",
        )


def _pad(rows: Sequence[Tokens], prefix: tuple[int, ...]) -> Stream:
    """Return sequences of token IDs as a padded stream. Each row has the IDs in `prefix`, the tokens and EOS."""
    width = max(map(len, rows), default=0) + len(prefix) + 1
    array = np.full((len(rows), width), PAD, np.int64)
    array[:, : len(prefix)] = prefix
    for padded, row in zip(array, rows, strict=True):
        end = len(prefix) + len(row)
        padded[len(prefix) : end] = row
        padded[end] = EOS
    return Stream(torch.from_numpy(array), torch.tensor([len(prefix) + len(row) + 1 for row in rows]))

"""Batches of examples with similar lengths. The number of tokens in a batch is limited (paper, section 5.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch

from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD, ZooError
from specs.sections import OUTPUT
from zoo.data.store import Store, Values, are_tokens
from zoo.system.memory import machine_memory, require_memory

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]
Bounds = Callable[[Sequence[Lengths], Sequence[int]], Indices]
"""Function that divides ordered examples into batches: `padded_bounds` or `packed_bounds`."""

_BYTES_PER_ORDERED_EXAMPLE = 64  # index, lengths and sort keys
_LENGTH_NOISE = 0.05
"""Relative random noise that is added to lengths before examples are sorted by length.

The noise adds one percent of padding, but halves the number of examples that share a batch in the next epoch again.
"""
_BANDS_PER_SQRT_BATCHES = 1.5
"""Number of bands (groups of similar source lengths), divided by the square root of the number of batches.

In measurements, padding was lowest with slightly more bands than batches in each band.
"""


class BatchSize(NamedTuple):
    """Numbers of examples (rows) and tokens in one batch, or in several batches together."""

    rows: int
    source_tokens: int
    """Source tokens, including EOS, excluding padding."""
    target_tokens: int
    """Target tokens, including EOS, excluding BOS and padding."""
    padded_tokens: int
    """Source and target tokens, including EOS and padding."""

    @classmethod
    def of(cls, lengths: Mapping[str, Sequence[int] | Lengths]) -> Self:
        """Return the size of a batch, given the length of each row in each stream. Lengths include EOS, but not BOS."""
        rows = len(lengths[OUTPUT])
        tokens = {name: int(np.sum(each, dtype=np.int64)) for name, each in lengths.items()}
        padded = rows * sum(int(np.max(each, initial=0)) for each in lengths.values())
        return cls(rows, tokens.get("source", 0), tokens[OUTPUT], padded)

    @classmethod
    def total(cls, sizes: Iterable[Self]) -> Self:
        """Return the total size of several batches. There must be at least one batch."""
        return cls(*map(sum, zip(*sizes, strict=True)))

    @property
    def padding(self) -> float:
        """Fraction of source and target tokens that are padding."""
        tokens = self.source_tokens + self.target_tokens
        return 1 - tokens / self.padded_tokens if self.padded_tokens else 0.0

    def divided_by(self, count: int) -> BatchSize:
        """Return the size divided by `count`, with all numbers rounded up."""
        return BatchSize(*(-(-number // count) for number in self))


@dataclass(frozen=True)
class Batch:
    """Batch of padded examples.

    Attributes:
        streams: Values of each stream. Input streams end with EOS. The output stream begins with BOS and ends with EOS.
        size: Size of the whole batch over all processes. `streams` may contain only some of its examples.
    """

    streams: Mapping[str, PaddedBatch]
    size: BatchSize

    @classmethod
    def empty(cls, streams: Iterable[str], width: int | None, size: BatchSize) -> Self:
        """Return a batch of one example without tokens to predict, so that its loss and its gradients are zero.

        Args:
            streams: Names of the streams.
            width: Number of features per frame of the inputs. None if the inputs are tokens.
            size: Size of the batch over all processes.
        """
        nothing = PaddedBatch(torch.tensor([[BOS, PAD]]), torch.tensor([1]))
        source = PaddedBatch.pad([[EOS] if width is None else torch.zeros(1, width)])
        return cls({name: nothing if name == OUTPUT else source for name in streams}, size)

    @property
    def source(self) -> PaddedBatch:
        """The input stream: the padded sequences that the encoder reads."""
        return self.streams["source"]

    @property
    def target(self) -> PaddedBatch:
        """The output stream: the padded sequences that the decoder predicts."""
        return self.streams[OUTPUT]

    def __len__(self) -> int:
        return len(self.target.lengths)

    def to(self, device: torch.device | str) -> Batch:
        """Copy the batch to a device asynchronously, and return the copy."""
        return Batch({name: stream.to(device) for name, stream in self.streams.items()}, self.size)

    def split_packed(self, budgets: Mapping[str, int]) -> list[Batch]:
        """Split a batch of token IDs into batches of at most `budgets[stream]` tokens per stream, excluding padding.

        Each example must fit into a batch of this size.
        """
        limits = [budgets[name] for name in self.streams]
        # Including EOS, excluding BOS
        lengths = [stream.lengths.numpy() - (name == OUTPUT) for name, stream in self.streams.items()]
        return self._parts(packed_bounds(lengths, limits).tolist())

    def split(self, parts: int) -> list[Batch]:
        """Split the batch into at most `parts` batches with nearly equal row counts, without unnecessary padding."""
        rows = [len(part) for part in np.array_split(np.arange(len(self)), parts) if len(part)]
        return self._parts(list(pairwise([0, *np.cumsum(rows).tolist()])))

    def _parts(self, bounds: Sequence[Sequence[int]]) -> list[Batch]:
        if len(bounds) == 1:
            return [self]
        return [replace(self, streams={name: x.rows(*part) for name, x in self.streams.items()}) for part in bounds]


class Examples(dict[str, Sequence[Values]]):
    """Token IDs or features of several examples, without BOS and EOS: `{stream: [values of each example]}`."""

    @classmethod
    def from_store(cls, store: Store, indices: npt.ArrayLike) -> Self:
        """Read the examples with these indices from a store, in this order."""
        chosen = np.asarray(indices, np.int64)
        return cls((name, store.rows(name, chosen)) for name in store.lengths)

    @property
    def lengths(self) -> dict[str, Lengths]:
        """Length of each example in each stream, including EOS. Features have no EOS."""
        return {name: np.array([len(row) + are_tokens(row) for row in rows], np.int32) for name, rows in self.items()}

    @property
    def size(self) -> BatchSize:
        """Size of a batch with these examples."""
        return BatchSize.of(self.lengths)

    def rows(self, indices: Iterable[int]) -> Examples:
        """Return the examples with these indices."""
        chosen = list(indices)
        return Examples((name, [values[index] for index in chosen]) for name, values in self.items())

    def to_batch(self, rank: int = 0, count: int = 1) -> Batch:
        """Return the padded batch for one of several processes: every `count`-th example, starting at index `rank`.

        If the examples are sorted by length, the batches of all processes have similar lengths. If there is no example
        for this process, return an empty batch.

        Args:
            rank: Rank of the process, from 0.
            count: Number of processes.
        """
        size = self.size
        own = self.rows(range(rank, size.rows, count))
        if not own[OUTPUT]:
            width = next((rows[0].shape[1] for rows in self.values() if rows[0].ndim > 1), None)
            return Batch.empty(self, width, size)
        return Batch({name: _pad(rows, begins=name == OUTPUT) for name, rows in own.items()}, size)


def padded_bounds(lengths: Sequence[Lengths], limits: Sequence[int]) -> Indices:
    """Divide ordered examples into consecutive batches as large as possible. Padding counts towards the limits.

    See `packed_bounds` for the arguments and the result.
    """
    bounds, start, count = [], 0, len(lengths[0])
    while start < count:
        # The first example limits the number of rows, because the longest example is at least as long.
        rows = min(count - start, *(limit // each[start] for each, limit in zip(lengths, limits, strict=True)))
        row_counts = np.arange(1, rows + 1)
        fits = np.ones(rows, bool)
        for each, limit in zip(lengths, limits, strict=True):
            fits &= np.maximum.accumulate(each[start : start + rows]) * row_counts <= limit
        end = start + int(np.count_nonzero(fits))
        bounds.append((start, end))
        start = end
    return np.array(bounds, np.int64).reshape(-1, 2)


def packed_bounds(lengths: Sequence[Lengths], limits: Sequence[int]) -> Indices:
    """Divide ordered examples into consecutive batches as large as possible. Padding does not count.

    Args:
        lengths: Lengths of each stream, `[examples]`.
        limits: Maximum number of tokens in each stream per batch.

    Returns:
        Start and end of each batch, `[batches, 2]`.
    """
    bounds, start, count = [], 0, len(lengths[0])
    sums = [np.append(0, each.cumsum(dtype=np.int64)) for each in lengths]
    while start < count:
        ends = (each.searchsorted(limit + each[start], "right") for each, limit in zip(sums, limits, strict=True))
        bounds.append((start, end := int(min(ends)) - 1))
        start = end
    return np.array(bounds, np.int64).reshape(-1, 2)


def epoch_batches(
    store: Store,
    budgets: Mapping[str, int],
    seed: int,
    epoch: int,
    weights: Sequence[float] = (),
    bounds_of: Bounds = padded_bounds,
) -> list[Indices]:
    """Divide the examples of an epoch into batches. The examples of a batch have similar lengths.

    With `padded_bounds`, the size of a stream in a batch is the number of rows times the length of the longest row,
    including EOS. The result depends only on the arguments and the content of the store.

    Args:
        store: Store of the training set.
        budgets: Maximum number of tokens in each stream per batch.
        seed: Seed for the training run.
        epoch: Index of the epoch, from 0.
        weights: How often an epoch contains the examples of each corpus part. For a fraction such as 0.5, each
            epoch samples that fraction of the examples. Empty: 1 for all parts.
        bounds_of: `padded_bounds`, or `packed_bounds` if the examples of a batch are concatenated instead of padded.

    Returns:
        The indices of the examples in each batch.

    Raises:
        ZooError: An example is too long for a batch, or the weights are so small that no example is left.
    """
    chosen, limits = _draw(store, weights, seed, epoch), [budgets[name] for name in store.lengths]
    lengths = [each[chosen] + store.has_eos(name) for name, each in store.lengths.items()]
    for name, each in zip(store.lengths, lengths, strict=True):
        if (longest := int(np.max(each, initial=0))) > budgets[name]:
            raise ZooError(
                f"the longest {name} (length {longest:,}) exceeds `training.{name}_tokens` ({budgets[name]:,})",
                hint=f"set `training.{name}_tokens` to at least {longest}, or lower `corpus.max_length`",
            )
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, epoch])))
    order = _order_by_length(lengths, random)
    bounds = bounds_of([each[order] for each in lengths], limits)
    random.shuffle(bounds)
    indices = order if isinstance(chosen, slice) else chosen[order]
    return [indices[start:end] for start, end in bounds.tolist()]


def batch_examples(
    examples: Examples, budgets: Mapping[str, int], seed: int, bounds_of: Bounds = padded_bounds
) -> list[Examples]:
    """Divide a few thousand examples into batches, in an order that the seed determines.

    With so few examples, the algorithm of `epoch_batches` would combine very different target lengths in one batch.

    Args:
        examples: The examples. Each example must fit into a batch.
        budgets: Maximum number of tokens in each stream per batch.
        seed: Seed for the order of the batches.
        bounds_of: `padded_bounds`, or `packed_bounds` if the examples of a batch are concatenated instead of padded.
    """
    lengths, limits = list(examples.lengths.values()), [budgets[name] for name in examples]
    batches = max(each.sum() / limit for each, limit in zip(lengths, limits, strict=True))
    order = _order_in_bands(lengths, max(1, round(_BANDS_PER_SQRT_BATCHES * math.sqrt(batches))))
    bounds = bounds_of([each[order] for each in lengths], limits)
    np.random.default_rng(seed).shuffle(bounds)
    return [examples.rows(order[start:end]) for start, end in bounds]


def _draw(store: Store, weights: Sequence[float], seed: int, epoch: int) -> Indices | slice:
    """Sample the examples of an epoch, and return their indices. See `epoch_batches` for the arguments."""
    if all(weight == 1.0 for weight in weights):
        return slice(None)
    total = sum(count * weight for count, weight in zip(store.parts, weights, strict=True))
    hint = "lower the weights of `corpus.train`"
    require_memory(
        total * _BYTES_PER_ORDERED_EXAMPLE, machine_memory(), f"ordering an epoch of {total:,.0f} examples", hint
    )
    random, start, indices = np.random.default_rng([seed, epoch, 1]), 0, []
    for count, weight in zip(store.parts, weights, strict=True):
        whole = int(weight)
        indices += [np.arange(start, start + count)] * whole
        indices.append(start + random.permutation(count)[: round((weight - whole) * count)])
        start += count
    if not sum(map(len, indices)):
        hint = "raise the weights: an epoch contains each part's number of examples times the part's weight"
        raise ZooError("the weights of `corpus.train` are so small that an epoch has no examples", hint=hint)
    return np.concatenate(indices)


def _order_by_length(lengths: Sequence[Lengths], random: np.random.Generator) -> Indices:
    """Return indices that order examples by source length, then by target length, after adding random noise.

    Target lengths ascend for one source length and descend for the next, so that adjacent examples always have similar
    lengths.
    """
    order = random.permutation(len(lengths[0]))
    keys = [_noisy_lengths(each, random) for each in lengths]
    alternating = [np.where(before % 2 == 0, -key, key) for before, key in pairwise(keys)]
    for key in (*reversed(alternating), keys[0]):
        order = order[np.argsort(key[order], kind="stable")]
    return order


def _order_in_bands(lengths: Sequence[Lengths], count: int) -> Indices:
    """Return indices that order examples by bands of similar source length, then by target length.

    All bands contain about the same number of examples.
    """
    by_first, target = np.lexsort(tuple(reversed(lengths))), lengths[-1]
    band = np.empty(len(target), np.int64)
    band[by_first] = np.arange(len(target)) * count // max(1, len(target))
    return np.lexsort((np.where(band % 2 == 0, target, -target), band))


def _noisy_lengths(lengths: Lengths, random: np.random.Generator) -> npt.NDArray[np.integer[Any]]:
    """Add random noise to lengths. Return 16-bit integers if possible, because NumPy sorts them in linear time."""
    noisy = np.rint(lengths * (1 + _LENGTH_NOISE * random.random(len(lengths), np.float32)))
    return noisy.astype(np.int16 if noisy.max(initial=0) < 1 << 15 else np.int32)


def _pad(rows: Sequence[Values], *, begins: bool) -> PaddedBatch:
    """Pad the sequences of one stream with PAD or zeros. Append EOS to token IDs. If `begins` is true, prepend BOS."""
    tokens = are_tokens(rows[0])
    start = int(begins and tokens)
    lengths = np.array([start + len(row) + tokens for row in rows])
    # NumPy pads the sequences, because torch would also start OpenMP threads for this thread. If there are more of
    # these threads than cores, they sleep between operations, and an LSTM takes 1.6 times as long.
    values = np.zeros((len(rows), lengths.max(), *rows[0].shape[1:]), np.int64 if tokens else np.float32)
    for padded, row in zip(values, rows, strict=True):
        padded[start : start + len(row)] = row
    if tokens:
        values[:, :start] = BOS
        values[np.arange(len(rows)), lengths - 1] = EOS
    return PaddedBatch(torch.from_numpy(values), torch.from_numpy(lengths))

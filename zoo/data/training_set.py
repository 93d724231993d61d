"""Training set: batches to train on, with or without subword regularisation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import NamedTuple, Self, cast

import numpy as np
import sentencepiece

from compiler.seeds import stream
from specs import Corpus, Spec
from specs.corpus import Direction
from zoo.data.batches import (
    BatchSize,
    Examples,
    Indices,
    batch_examples,
    epoch_batches,
    packed_bounds,
    padded_bounds,
)
from zoo.data.prefetch import prefetch
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.data.store import Store, Values, are_tokens
from zoo.features.modality import Frames, modality_of
from zoo.text.vocabulary import Vocabulary

POOL_BATCHES = 64
"""With subword regularisation, number of consecutive batches whose examples are tokenised together, as a pool.

With 25,000 tokens per side, sampling a pool takes a few seconds and 30 MB, while the model trains on the previous pool.
A larger pool would need less padding.
"""


class SubwordSampler:
    """Sampler for random tokenisations of the same sentences (subword regularisation), based on SentencePiece.

    With a BPE vocabulary, merges are skipped at random (BPE-dropout). With a unigram vocabulary, tokenisations are
    sampled according to their probabilities.
    """

    def __init__(self, vocabulary: Vocabulary, alpha: float, max_length: int) -> None:
        """Create a sampler.

        Args:
            vocabulary: Vocabulary of the sentences.
            alpha: Probability of skipping a merge (BPE), or exponent of the probabilities (unigram).
            max_length: Maximum number of tokens per sentence. If a sample is longer, the original tokens are used.
        """
        self._vocabulary, self._alpha, self._max_length = vocabulary, alpha, max_length

    def __call__(self, examples: Examples, seed: int) -> Examples:
        """Sample a new tokenisation of each example. For given examples, the result depends only on the 63-bit seed."""
        # SentencePiece seeds its random numbers once per thread, so each call needs a new thread.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._sample_examples, examples, seed).result()

    def _sample_examples(self, examples: Examples, seed: int) -> Examples:
        sentencepiece.set_random_generator_seed(seed % 2**32)
        return Examples((name, [self._sample(row, name) for row in rows]) for name, rows in examples.items())

    def _sample(self, row: Values, stream: str) -> Values:
        if not are_tokens(row):
            return row
        sample = self._vocabulary.stream(stream).sample(row.tolist(), self._alpha)
        return np.array(sample, np.int32) if 0 < len(sample) <= max(self._max_length, len(row)) else row


class Position(NamedTuple):
    """Position in the training data after a batch. Checkpoints store this position."""

    epoch: int
    batch: int
    """Number of finished batches in the epoch. With subword regularisation, the current pool's batches do not count."""
    pool_batch: int
    """Number of finished batches in the current pool (see POOL_BATCHES). 0 without subword regularisation."""


_Batches = Generator[tuple[Examples, Position], None, None]


class TrainingSet:
    """Batches for a training run. Their content depends only on the data, the spec and the position in the data.

    Subword regularisation changes the lengths of sentences, so batches planned for the stored lengths could become too
    large. Therefore the examples for POOL_BATCHES batches (a pool) are tokenised again before they are put in batches.
    """

    def __init__(self, spec: Spec, store: Store, sampler: SubwordSampler | None = None, packed: bool = False) -> None:
        """Create a training set that divides a store into batches, according to the training settings in a spec.

        Args:
            spec: Spec with the `training` and `corpus` sections.
            store: Token IDs or features of the training set.
            sampler: Sampler for subword regularisation. If None, there is no subword regularisation.
            packed: Whether the training step concatenates the examples of a batch instead of padding them. If true,
                padding does not count towards the batch size.
        """
        self._spec, self.store, self._sampler = spec, store, sampler
        self._modality, self._bounds_of = modality_of(spec.task), packed_bounds if packed else padded_bounds
        self._budgets = {name: getattr(spec.training, f"{name}_tokens") for name in store.lengths}
        self._epochs: dict[int, list[Indices]] = {}

    @classmethod
    def from_prepared(cls, spec: Spec, prepared: PreparedCorpus, *, packed: bool = False) -> Self:
        """Create the training set from a prepared corpus, with subword regularisation if the spec enables it."""
        alpha = spec.training.subword_regularization
        sampler = None if alpha is None else SubwordSampler(prepared.vocabulary, alpha, spec.corpus.max_length)
        return cls(spec, prepared.store("train"), sampler, packed=packed)

    def epoch_batches(self, epoch: int) -> list[Indices]:
        """Return the indices of the examples in each batch of an epoch.

        The batches are computed from the stored lengths, without subword regularisation. The last requested epoch is
        cached. The method is not thread-safe.

        Raises:
            ZooError: See `zoo.data.batches.epoch_batches`.
        """
        if epoch not in self._epochs:
            self._epochs.clear()  # free the memory of the previous epoch before computing the next epoch
            seed, weights = self._spec.training.seed, part_weights(self._spec.corpus, self.store.parts)
            self._epochs[epoch] = epoch_batches(self.store, self._budgets, seed, epoch, weights, self._bounds_of)
        return self._epochs[epoch]

    def mean_size(self) -> BatchSize:
        """Return the mean size of a batch in the first epoch. The method is not thread-safe.

        With subword regularisation, batch sizes depend on the sampled tokens. The mean is then estimated from the first
        POOL_BATCHES batches.
        """
        if self._sampler is not None:
            sizes = [examples.size for examples in self._sample_pool(0, 0)]
        else:
            lengths = {name: each + self.store.has_eos(name) for name, each in self.store.lengths.items()}
            first = self.epoch_batches(0)
            sizes = [BatchSize.of({name: each[batch] for name, each in lengths.items()}) for batch in first]
        return BatchSize.total(sizes).divided_by(len(sizes))

    def batches_from(self, epoch: int, batch: int = 0, pool_batch: int = 0) -> _Batches:
        """Iterate over the examples of each batch and the position after the batch. The iteration never ends.

        No other thread may use the training set during the iteration.

        Args:
            epoch: Epoch of the first batch.
            batch: Number of finished batches in the epoch.
            pool_batch: Number of finished batches in the pool (see `TrainingSet`) that begins at `batch`.
        """
        if self._sampler is None:
            return self._stored_batches(epoch, batch)
        return self._sampled_batches(epoch, batch, pool_batch)

    def _stored_batches(self, epoch: int, batch: int) -> _Batches:
        for at, number in self._positions(epoch, batch, 1):
            position = Position(at, number + 1, 0)
            yield self._augmented(Examples.from_store(self.store, self.epoch_batches(at)[number]), position), position

    def _augmented(self, examples: Examples, position: Position) -> Examples:
        """Augment the features in a batch at random, if the source has features.

        The result depends only on the examples, the seed and the position.
        """
        modality = self._modality
        if modality is None:
            return examples
        random = np.random.default_rng(stream(self._spec.training.seed, "augmentation", *position))
        source = [modality.augment(cast(Frames, row), random) for row in examples["source"]]
        return Examples({**examples, "source": source})

    def _sampled_batches(self, epoch: int, batch: int, pool_batch: int) -> _Batches:
        pools = ((*position, self._sample_pool(*position)) for position in self._positions(epoch, batch, POOL_BATCHES))
        with closing(prefetch(pools, max_items=1)) as prefetched:
            for at, start, pool in prefetched:
                for number in range(pool_batch, len(pool)):
                    position = Position(at, start, number + 1)
                    yield self._augmented(pool[number], position), position
                pool_batch = 0

    def _positions(self, epoch: int, batch: int, step: int) -> Iterator[tuple[int, int]]:
        """Yield (epoch, batch number) pairs endlessly, starting with the given pair, in steps of `step` batches."""
        while True:
            for number in range(batch, len(self.epoch_batches(epoch)), step):
                yield epoch, number
            epoch, batch = epoch + 1, 0

    def _sample_pool(self, epoch: int, start: int) -> list[Examples]:
        """Return the batches of the pool (see `TrainingSet`) that begins at batch `start`."""
        assert self._sampler is not None
        indices = np.concatenate(self.epoch_batches(epoch)[start : start + POOL_BATCHES])
        # The names of the random streams must not change, because the sampled tokens depend on these names.
        token_seed, order_seed = (stream(self._spec.training.seed, name, epoch, start) for name in ("pieces", "order"))
        examples = self._sampler(Examples.from_store(self.store, indices), token_seed)
        return batch_examples(examples, self._budgets, order_seed, self._bounds_of)


def part_weights(corpus: Corpus, counts: Sequence[int]) -> list[float]:
    """Return how often each part of the training set is repeated in an epoch.

    For multilingual models, `corpus.temperature` T balances the translation directions. The fraction p of examples
    in a direction becomes proportional to p^(1/T) (Arivazhagan et al. 2019, section 4.3). The number of examples per
    epoch stays the same.

    Args:
        corpus: The corpus.
        counts: Number of examples in each part of the training set.
    """
    weights = [getattr(part, "weight", 1.0) for part in corpus.train]
    if corpus.temperature == 1.0:
        return weights
    directions, sizes = [corpus.direction(part) for part in corpus.train], defaultdict[Direction, float](float)
    for direction, weight, count in zip(directions, weights, counts, strict=True):
        sizes[direction] += weight * count
    total = sum(sizes.values())
    flattened = {direction: (size / total) ** (1 / corpus.temperature) for direction, size in sizes.items()}
    scale = total / sum(flattened.values())
    factors = {direction: scale * flattened[direction] / size for direction, size in sizes.items() if size}
    return [weight * factors.get(direction, 1.0) for direction, weight in zip(directions, weights, strict=True)]

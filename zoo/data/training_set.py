"""What is trained on: the pairs of a store in the batches of each epoch, by a spec's rules."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import closing
from typing import NamedTuple, Self

import numpy as np

from compiler.seeds import stream
from specs import Spec
from zoo.data.ahead import ahead
from zoo.data.batches import BatchSize, EpochBatches, Pairs, cut, epoch_batches
from zoo.data.prepare import Prepared
from zoo.data.sampling import Sampling
from zoo.data.store import Store

POOL = 64
"""Batches of an epoch whose pairs are drawn and cut anew together: at 25,000 tokens a side some seconds of drawing, in
which the pool before is trained on, and 30 MB. More of them would need less padding."""


class Given(NamedTuple):
    """A batch to train on, and the place in the data after it."""

    pairs: Pairs
    """In the tokens that they are trained in."""
    epoch: int
    batch: int
    """Batches of the epoch that are done; of those that are cut anew, those before the pool."""
    drawn: int
    """Batches that are done of the pool after these; 0 where none is cut anew."""


class TrainingSet:
    """The batches of a training. What is in a batch follows from the spec's seed and its place in the data.

    Where tokens are drawn anew, they have other lengths than those by which an epoch is cut: so the pairs of POOL of
    its batches are drawn together, and then cut into batches that are within the budgets.
    """

    def __init__(
        self, spec: Spec, store: Store, sampling: Sampling | None = None, verified: Future[None] | None = None
    ) -> None:
        """`sampling` draws the tokens of each pool anew; `verified` comes once the store has been found whole."""
        self._spec, self.store, self._sampling, self._verified = spec, store, sampling, verified
        self._planned: tuple[int, EpochBatches] | None = None
        self._pool: tuple[tuple[int, int], list[Pairs]] | None = None

    @classmethod
    def of(cls, spec: Spec, prepared: Prepared, verified: Future[None] | None = None) -> Self:
        """Of a prepared corpus, whose tokens are drawn anew where the spec says so."""
        alpha = spec.training.subword_regularization
        sampling = None if alpha is None else Sampling(prepared.vocabulary, alpha, spec.corpus.max_length)
        return cls(spec, prepared.store("train"), sampling, verified)

    @property
    def draws(self) -> bool:
        """Whether tokens are drawn anew."""
        return self._sampling is not None

    def batches(self, epoch: int) -> EpochBatches:
        """Of an epoch, by the tokens of the store; the one that was asked for last is kept.

        Raises ZooError as `epoch_batches` does. Not for two threads at a time.
        """
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # before the next, so that there is one of them at a time
            training, parts = self._spec.training, self._spec.corpus.train
            self._planned = (
                epoch,
                epoch_batches(
                    self.store,
                    training.source_tokens,
                    training.target_tokens,
                    seed=training.seed,
                    epoch=epoch,
                    weights=[getattr(part, "weight", 1.0) for part in parts],
                ),
            )
        return self._planned[1]

    def mean(self, epoch: int, batch: int = 0) -> BatchSize:
        """Of a batch of an epoch; where tokens are drawn anew, of the pool from there on. Not for two threads."""
        if not self.draws:
            return self.batches(epoch).mean
        sizes = [pairs.size for pairs in self._drawn(*next(self._places(epoch, batch, POOL)))]
        return BatchSize(*(sum(each) for each in zip(*sizes, strict=True))).share(len(sizes))

    def given(self, epoch: int, batch: int = 0, drawn: int = 0) -> Generator[Given, None, None]:
        """What is trained on from this place on, without end. Nobody else may ask for batches while it lasts."""
        if self.draws:
            yield from self._cut_anew(epoch, batch, drawn)
        for at, number in self._places(epoch, batch, 1):
            yield Given(Pairs.of(self.store, self.batches(at)[number]), at, number + 1, 0)

    def _cut_anew(self, epoch: int, batch: int, drawn: int) -> Iterator[Given]:
        pools = ((*place, self._drawn(*place)) for place in self._places(epoch, batch, POOL))
        with closing(ahead(pools, most=1)) as coming:
            for at, start, pool in coming:
                for number in range(drawn, len(pool)):
                    yield Given(pool[number], at, start, number + 1)
                drawn = 0

    def _places(self, epoch: int, batch: int, step: int) -> Iterator[tuple[int, int]]:
        """Epochs, and the numbers of their batches from this one on, by steps of so many."""
        while True:
            for number in range(batch, len(self.batches(epoch)), step):
                yield epoch, number
            epoch, batch = epoch + 1, 0

    def _drawn(self, epoch: int, start: int) -> list[Pairs]:
        """The batches of the pool that starts there; the one that was asked for last is kept."""
        if self._pool is None or self._pool[0] != (epoch, start):
            assert self._sampling is not None
            self._pool, training = None, self._spec.training
            indices = np.concatenate(self.batches(epoch)[start : start + POOL])
            seeds = (stream(training.seed, what, epoch, start) for what in ("tokens", "order"))
            pairs = self._sampling(Pairs.of(self.store, indices), next(seeds))
            self._pool = (epoch, start), cut(pairs, training.source_tokens, training.target_tokens, next(seeds))
        return self._pool[1]

    def verify(self, *, wait: bool = True) -> None:
        """Returns where the store is as it was written, or, without `wait`, where that is not known yet.

        Raises ZooError, naming the file, where it is not.
        """
        if self._verified and (wait or self._verified.done()):
            self._verified.result()

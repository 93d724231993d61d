"""What is trained on: the pairs of a store in the batches of each epoch, by a spec's rules."""

from __future__ import annotations

from concurrent.futures import Future

from compiler.seeds import stream
from specs import Spec
from zoo.corpus.batches import EpochBatches, Pairs, epoch_batches
from zoo.corpus.sampling import Sampling
from zoo.corpus.store import Store


class TrainingSet:
    """The batches of a training. What is in a batch follows from the spec's seed, the epoch and its number there."""

    def __init__(
        self, spec: Spec, store: Store, sampling: Sampling | None = None, verified: Future[None] | None = None
    ) -> None:
        """`sampling` draws the pieces of each batch anew; `verified` comes once the store has been found whole."""
        self._spec, self._store, self._sampling, self._verified = spec, store, sampling, verified
        self._planned: tuple[int, EpochBatches] | None = None

    def batches(self, epoch: int) -> EpochBatches:
        """Of an epoch; the one that was asked for last is kept. Raises ZooError as `epoch_batches` does.

        Not for two threads at a time.
        """
        if self._planned is None or self._planned[0] != epoch:
            self._planned = None  # before the next, so that there is one of them at a time
            training, parts = self._spec.training, self._spec.corpus.train
            self._planned = (
                epoch,
                epoch_batches(
                    self._store,
                    training.source_tokens,
                    training.target_tokens,
                    seed=training.seed,
                    epoch=epoch,
                    weights=[getattr(part, "weight", 1.0) for part in parts],
                ),
            )
        return self._planned[1]

    def pairs(self, epoch: int, number: int) -> Pairs:
        """Of batch `number` of an epoch, in the pieces that it is trained in."""
        pairs = Pairs.of(self._store, self.batches(epoch)[number])
        if self._sampling is None:
            return pairs
        return self._sampling(pairs, stream(self._spec.training.seed, "pieces", epoch, number))

    def verify(self, *, wait: bool = True) -> None:
        """Returns where the store is as it was written, or, without `wait`, where that is not known yet.

        Raises ZooError, naming the file, where it is not.
        """
        if self._verified and (wait or self._verified.done()):
            self._verified.result()

"""The batches of a training: those of the epoch, kept for as long as it lasts, and a store that is verified."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

import specs
from specs import ZooError
from zoo.corpus.batches import Pairs, epoch_batches
from zoo.corpus.store import Store, StoreWriter
from zoo.corpus.training_set import TrainingSet

SPEC = specs.load("tiny", ["training.source_tokens=80", "training.target_tokens=90", "corpus.max_length=20"])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    random = np.random.default_rng(1)
    rows = [random.integers(4, 99, random.integers(1, 20)).tolist() for _ in range(60)]
    with StoreWriter(tmp_path, 100, shard_pairs=25) as writer:
        writer.add(rows, rows[::-1])
    return Store(tmp_path)


def test_batches_are_those_of_the_epoch_by_the_spec(store: Store) -> None:
    data = TrainingSet(SPEC, store)
    for epoch in (3, 0, 3):
        expected = epoch_batches(store, 80, 90, seed=SPEC.training.seed, epoch=epoch)
        assert [batch.tolist() for batch in data.batches(epoch)] == [batch.tolist() for batch in expected]
    assert data.batches(3) is data.batches(3)
    pairs = data.pairs(3, 1)
    assert [row.tolist() for row in pairs.sources] == [store.source(i).tolist() for i in data.batches(3)[1]]
    assert [row.tolist() for row in pairs.targets] == [store.target(i).tolist() for i in data.batches(3)[1]]


def test_pieces_are_drawn_by_seed_epoch_and_number(store: Store) -> None:
    seeds = []

    def sampling(pairs: Pairs, seed: int) -> Pairs:
        seeds.append(seed)
        return Pairs(pairs.sources[:1], pairs.targets[:1])

    data = TrainingSet(SPEC, store, sampling)  # type: ignore[arg-type]
    assert len(data.pairs(0, 0).sources) == 1
    for epoch, number in ((0, 1), (1, 0), (0, 0)):
        data.pairs(epoch, number)
    assert len(set(seeds)) == 3
    assert seeds[0] == seeds[-1]


def test_a_store_is_verified_when_it_is_asked_for(store: Store) -> None:
    TrainingSet(SPEC, store).verify()
    verified: Future[None] = Future()
    data = TrainingSet(SPEC, store, verified=verified)
    data.verify(wait=False)  # nobody knows yet
    verified.set_exception(ZooError("`00001.source.tokens` is damaged"))
    for wait in (False, True):
        with pytest.raises(ZooError, match="damaged"):
            data.verify(wait=wait)

"""The batches of a training: those of the epoch, kept for as long as it lasts, and a store that is verified."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest

import specs
from specs import ZooError
from zoo.data import training_set
from zoo.data.batches import Pairs, epoch_batches
from zoo.data.store import Store, StoreWriter
from zoo.data.training_set import TrainingSet

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
    size = len(expected)
    for place in ((3, 0), (3, size - 1), (3, size)):
        for each, (epoch, number) in zip(data.given(*place), plain_places(data, *place), strict=False):
            assert (each.epoch, each.batch, each.drawn) == (epoch, number + 1, 0)
            indices = expected[number] if epoch == 3 else data.batches(epoch)[number]
            assert lists(each.pairs) == lists(Pairs.from_store(store, indices))
            if epoch > 3:
                break
    assert data.mean(3) == expected.mean


def plain_places(data: TrainingSet, epoch: int, number: int) -> Iterator[tuple[int, int]]:
    yield from ((epoch, each) for each in range(number, len(data.batches(epoch))))
    yield epoch + 1, 0


def lists(pairs: Pairs) -> list[list[list[int]]]:
    return [[row.tolist() for row in side] for side in pairs]


def longer(pairs: Pairs, seed: int) -> Pairs:
    """Stands for a sampling: up to four more tokens each, by the seed."""
    random = np.random.default_rng(seed)
    more = ([np.append(row, np.full(random.integers(5), 99))[:25] for row in side] for side in pairs)
    return Pairs(*more)


def words(pairs: Pairs) -> list[tuple[list[int], ...]]:
    """The pairs as they were before `longer`."""
    return [tuple([p for p in row if p != 99] for row in pair) for pair in zip(*pairs, strict=True)]


@pytest.fixture
def drawing(store: Store, monkeypatch: pytest.MonkeyPatch) -> TrainingSet:
    """A set that draws its tokens, in pools of three batches."""
    monkeypatch.setattr(training_set, "POOL_BATCHES", 3)
    return TrainingSet(SPEC, store, longer)  # type: ignore[arg-type]


def test_what_is_drawn_longer_is_within_the_budgets_and_each_pair_once_an_epoch(
    store: Store, drawing: TrainingSet
) -> None:
    epochs: list[list[tuple[list[int], ...]]] = [[], []]
    sizes = []
    for each in drawing.given(0):
        if each.epoch == 2:
            break
        assert 0 < max(len(row) + 1 for row in each.pairs.sources) * len(each.pairs.sources) <= 80
        assert max(len(row) + 1 for row in each.pairs.targets) * len(each.pairs.targets) <= 90
        epochs[each.epoch] += words(each.pairs)
        sizes.append(each.pairs.size)
    every = sorted(words(Pairs.from_store(store, range(60))))
    assert [sorted(epoch) for epoch in epochs] == [every, every]
    assert epochs[0] != epochs[1]
    first = [each.pairs.size for each in islice(drawing.given(0), len(sizes)) if (each.epoch, each.batch) == (0, 0)]
    assert drawing.mean(0).source_tokens == -(-sum(size.source_tokens for size in first) // len(first))


def test_what_is_drawn_follows_from_the_place(store: Store, drawing: TrainingSet) -> None:
    whole = list(islice(drawing.given(0), 60))
    assert {each.epoch for each in whole} >= {0, 1}
    for at in range(0, 50, 7):
        other = TrainingSet(SPEC, store, longer)  # type: ignore[arg-type]
        later = islice(other.given(*whole[at][1:]), 9)
        assert [(lists(e.pairs), *e[1:]) for e in later] == [(lists(e.pairs), *e[1:]) for e in whole[at + 1 : at + 10]]


def test_a_pool_begins_wherever_batches_are_done(store: Store, drawing: TrainingSet) -> None:
    """As a run was left whose batches were not cut anew: the rest of its epoch is what it had not seen."""
    rest = [pair for each in takewhile(lambda each: each.epoch == 0, drawing.given(0, 4)) for pair in words(each.pairs)]
    indices = [index for batch in drawing.batches(0)[4:] for index in batch]
    assert sorted(rest) == sorted(words(Pairs.from_store(store, indices)))
    done = len(drawing.batches(0))
    assert drawing.mean(0, done) == drawing.mean(1)


def test_a_store_is_verified_when_it_is_asked_for(store: Store) -> None:
    TrainingSet(SPEC, store).verify()
    verified: Future[None] = Future()
    data = TrainingSet(SPEC, store, verified=verified)
    data.verify(wait=False)  # nobody knows yet
    verified.set_exception(ZooError("`00001.source.tokens` is damaged"))
    for wait in (False, True):
        with pytest.raises(ZooError, match="damaged"):
            data.verify(wait=wait)

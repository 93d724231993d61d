"""Training batches, with and without subword regularisation."""

from itertools import islice, takewhile

import numpy as np
import pytest

import specs
from specs import UNK
from tests.examples import examples, rows
from zoo.data import training_set
from zoo.data.batches import BatchSize, Examples, epoch_batches
from zoo.data.builtin import sentences
from zoo.data.prefetch import run_in_thread
from zoo.data.store import Store, StoreWriter
from zoo.data.training_set import SubwordSampler, TrainingSet
from zoo.text.vocabulary import Vocabulary

SPEC = specs.load("tiny", ["training.source_tokens=80", "training.target_tokens=90", "corpus.max_length=20"])


@pytest.fixture
def store(tmp_path):
    random = np.random.default_rng(1)
    rows = [random.integers(4, 99, random.integers(1, 20)).tolist() for _ in range(60)]
    with StoreWriter(tmp_path, {"source": "uint16", "target": "uint16"}) as writer:
        writer.add({"source": rows, "target": rows[::-1]})
    return Store(tmp_path)


def as_lists(pairs):
    return [[row.tolist() for row in side] for side in pairs.values()]


def test_batches_are_those_of_the_epoch(store):
    data = TrainingSet(SPEC, store)
    for epoch in (3, 0, 3):
        expected = epoch_batches(store, {"source": 80, "target": 90}, seed=SPEC.training.seed, epoch=epoch)
        assert [batch.tolist() for batch in data.epoch_batches(epoch)] == [batch.tolist() for batch in expected]
    assert data.epoch_batches(3) is data.epoch_batches(3)
    sizes = [Examples.from_store(store, batch).size for batch in data.epoch_batches(0)]
    assert data.mean_size() == BatchSize.total(sizes).divided_by(len(sizes))
    count = len(expected)
    for start in (0, count - 1, count):
        positions = [*((3, number) for number in range(start, count)), (4, 0)]
        for (found, position), (epoch, number) in zip(data.batches_from(3, start), positions, strict=False):
            assert position == (epoch, number + 1, 0)
            indices = data.epoch_batches(epoch)[number]
            assert as_lists(found) == as_lists(Examples.from_store(store, indices))


def lengthen(pairs, seed):
    """Replace the subword sampler: append up to four tokens, depending on the seed."""
    random = np.random.default_rng(seed)
    sides = ([np.append(row, np.full(random.integers(5), 99))[:25] for row in side] for side in pairs.values())
    return Examples(zip(pairs, sides, strict=True))


def original(pairs):
    """Return the pairs without the tokens that `lengthen` appends."""
    sides = ([[token for token in row if token != 99] for row in side] for side in pairs.values())
    return list(zip(*sides, strict=True))


@pytest.fixture
def sampled(store, monkeypatch):
    """Return a training set that samples tokens in pools of three batches."""
    monkeypatch.setattr(training_set, "POOL_BATCHES", 3)
    return TrainingSet(SPEC, store, lengthen)


def test_sampled_batches_are_within_the_budgets_and_contain_each_pair_once(store, sampled):
    epochs, sizes = [[], []], []
    for batch, position in takewhile(lambda each: each[1].epoch < 2, sampled.batches_from(0)):
        for side, budget in (("source", 80), ("target", 90)):
            assert 0 < max(len(row) + 1 for row in batch[side]) * len(batch[side]) <= budget
        epochs[position.epoch] += original(batch)
        if position[:2] == (0, 0):
            sizes.append(batch.size)
    all_pairs = sorted(original(Examples.from_store(store, range(60))))
    assert [sorted(epoch) for epoch in epochs] == [all_pairs, all_pairs]
    assert epochs[0] != epochs[1]
    assert sampled.mean_size().source_tokens == -(-sum(size.source_tokens for size in sizes) // len(sizes))


def test_sampled_batches_depend_on_the_position_alone(store, sampled):
    batches = list(islice(sampled.batches_from(0), 60))
    assert {position.epoch for _, position in batches} >= {0, 1}
    for index in range(0, 50, 7):
        resumed = islice(TrainingSet(SPEC, store, lengthen).batches_from(*batches[index][1]), 9)
        expected = [(as_lists(pairs), position) for pairs, position in batches[index + 1 : index + 10]]
        assert [(as_lists(pairs), position) for pairs, position in resumed] == expected


def test_a_pool_can_begin_at_any_batch(store, sampled):
    """A run that began without pools resumes with the remaining pairs of its epoch."""
    rest = takewhile(lambda each: each[1].epoch == 0, sampled.batches_from(0, 4))
    indices = [index for batch in islice(sampled.epoch_batches(0), 4, None) for index in batch]
    pairs = [pair for batch, _ in rest for pair in original(batch)]
    assert sorted(pairs) == sorted(original(Examples.from_store(store, indices)))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subword_sampling(kind):
    text = [(pair.source, pair.target) for pair in sentences("train", 300)]
    section = specs.load("tiny", ["vocabulary.size=300", f"vocabulary.kind={kind}"]).vocabulary
    vocabulary = Vocabulary.learn(lambda: examples(text), section)
    pairs = rows(*([vocabulary.encode(line) for line in side] for side in zip(*text[:50], strict=True)))
    sampler = SubwordSampler(vocabulary, 0.3, 100)
    sample = as_lists(sampler(pairs, 5))
    assert sample == as_lists(run_in_thread(lambda: sampler(pairs, 5)).result())
    assert sample == as_lists(sampler(pairs, 5)) != as_lists(sampler(pairs, 6))
    assert sample != as_lists(pairs)
    for new, old in zip(sample, as_lists(pairs), strict=True):
        assert list(map(vocabulary.decode, new)) == list(map(vocabulary.decode, old))

    # A small exponent flattens the probabilities of a unigram model, so that sentences have more tokens.
    little, much = (0.05, 0.6) if kind == "bpe" else (0.9, 0.05)
    lengths = [sum(map(len, SubwordSampler(vocabulary, alpha, 500)(pairs, 1)["source"])) for alpha in (little, much)]
    assert lengths[0] < lengths[1]
    limited = SubwordSampler(vocabulary, much, 1)(pairs, 1)
    assert all(len(new) <= len(old) for new, old in zip(limited["source"], pairs["source"], strict=True))

    unknown = np.array([*vocabulary.encode("the old dog sees a small house"), UNK])
    assert sampler(rows([unknown], [unknown]), 1)["source"][0].tolist() == unknown.tolist()

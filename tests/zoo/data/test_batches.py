"""Batches of pairs."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specs import BOS, EOS, PAD
from tests.refusals import refused
from zoo.data.batches import Examples, batch_examples, epoch_batches
from zoo.data.store import Store, StoreWriter


class ToyStore:
    """Store in memory. Token p of source i is 4 + (i + p) % 90."""

    def __init__(self, source, target):
        self.lengths = {"source": np.array(source, np.int32), "target": np.array(target, np.int32)}

    def __len__(self):
        return len(self.lengths["source"])

    def has_eos(self, stream):
        return True

    def row(self, stream, index):
        first = index if stream == "source" else 3 * index
        return 4 + (first + np.arange(self.lengths[stream][index], dtype=np.int32)) % 90

    def rows(self, stream, indices):
        return [self.row(stream, index) for index in indices]


def budgets(source, target=None):
    return {"source": source, "target": source if target is None else target}


def realistic_store(count):
    """Return a store with lengths that are distributed like those of sentences."""
    random = np.random.default_rng(0)
    source = random.gamma(4, 6, count).astype(int).clip(1, 99)
    return ToyStore(source, (source * random.normal(1.1, 0.15, count)).astype(int).clip(1, 99))


LENGTHS = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=60)
STORES = LENGTHS.map(lambda pairs: ToyStore([source for source, _ in pairs], [target for _, target in pairs]))


@settings(max_examples=200, deadline=None)
@given(STORES, st.integers(20, 90), st.integers(20, 90), st.integers(0, 3), st.integers(0, 3))
def test_each_pair_is_in_one_batch_and_each_batch_within_both_budgets(store, max_source, max_target, seed, epoch):
    batches = epoch_batches(store, budgets(max_source, max_target), seed, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(store)))
    padded_batches = [Examples.from_store(store, batch).to_batch() for batch in batches]
    for batch in padded_batches:
        assert 0 < batch.source.values.numel() <= max_source
        assert batch.target.values.numel() - len(batch) <= max_target  # BOS is not predicted
        assert batch.size.padded_tokens == batch.source.values.numel() + batch.target.values.numel() - len(batch)


# Lengths that do not fit into 16 bits are sorted in another way.
LONG = np.random.default_rng(3).integers(1, 60_001, (2, 500))


@pytest.mark.parametrize(("store", "size"), [(realistic_store(500), 600), (ToyStore(*LONG), 540_000)])
def test_batches_equal_those_of_a_simple_implementation(store, size):
    """A resumed run needs the same batches as before, so the order must not change between versions."""
    source, target = store.lengths["source"] + 1, store.lengths["target"] + 1
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([7, 2])))
    order = random.permutation(500)
    keys = [np.rint(each * (1 + 0.05 * random.random(500, np.float32))).astype(int) for each in (source, target)]
    up_and_down = [-key if band % 2 == 0 else key for band, key in zip(*keys, strict=True)]
    order = sorted(order, key=lambda index: (keys[0][index], up_and_down[index]))
    expected = [[]]
    for index in order:
        longer = [*expected[-1], index]
        if len(longer) * source[longer].max() > size or len(longer) * target[longer].max() > size + 100:
            expected.append([])
        expected[-1].append(index)
    starts = np.cumsum([0, *map(len, expected)])
    bounds = np.stack([starts[:-1], starts[1:]], 1)
    random.shuffle(bounds)
    store.parts = (300, 200)
    for weights in ((), (1.0, 1.0)):
        batches = epoch_batches(store, budgets(size, size + 100), 7, 2, weights=weights)
        assert [batch.tolist() for batch in batches] == [order[start:end] for start, end in bounds]
    assert len(batches) == len(bounds) > 3
    assert batches[-1].tolist() == order[slice(*bounds[-1])]
    with pytest.raises(IndexError):
        batches[len(batches)]


def test_batch_examples_gives_little_padding_in_an_order_by_the_seed():
    pairs = Examples.from_store(realistic_store(4000), range(4000))
    batches = batch_examples(pairs, budgets(2000), 1)
    sizes = [batch.size for batch in batches]
    tokens = sum(size.source_tokens + size.target_tokens for size in sizes)
    assert tokens > 0.9 * sum(size.padded_tokens for size in sizes)
    lengths = [np.mean([len(row) for row in batch["source"]]) for batch in batches]
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.4
    again, other = ([b.size for b in batch_examples(pairs, budgets(2000), seed)] for seed in (1, 2))
    assert again == [b.size for b in batches] != other
    assert sorted(again) == sorted(other)


@pytest.mark.parametrize(("side", "longest", "limits"), [("source", 8, (8, 100)), ("target", 5, (100, 5))])
def test_too_long_pairs_are_reported(side, longest, limits):
    store, budget = ToyStore([3, 8], [5, 2]), f"training.{side}_tokens`"
    error = refused(rf"length {longest + 1}\) .*`{budget}", epoch_batches, store, budgets(*limits), 1, 0)
    assert f"{budget} to at least {longest + 1}" in error.hint
    assert len(epoch_batches(store, budgets(9, 6), 1, 0)) == 2


def test_rows_are_padded_with_bos_and_eos():
    batch = Examples.from_store(ToyStore([2, 4, 0], [3, 1, 0]), [1, 0, 2]).to_batch()
    assert batch.source.values.tolist() == [[5, 6, 7, 8, EOS], [4, 5, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]
    assert batch.target.values.tolist() == [[BOS, 7, EOS, PAD, PAD], [BOS, 4, 5, 6, EOS], [BOS, EOS, PAD, PAD, PAD]]
    assert batch.source.values.dtype == batch.target.values.dtype == torch.int64
    assert (batch.source.lengths.tolist(), batch.target.lengths.tolist()) == ([5, 3, 1], [3, 5, 2])
    assert (batch.size[1:3], len(batch)) == ((9, 7), 3)


@pytest.mark.parametrize("parts", [1, 3, 20])
def test_splitting_a_batch_keeps_its_rows(parts):
    store = realistic_store(7)
    batch = Examples.from_store(store, range(7)).to_batch()
    for part, indices in zip(batch.split(parts), np.array_split(np.arange(7), min(parts, 7)), strict=True):
        alone = Examples.from_store(store, indices).to_batch()
        for actual, expected in zip((*part.source, *part.target), (*alone.source, *alone.target), strict=True):
            assert torch.equal(actual, expected)
        assert part.size == batch.size


def test_weights_decide_how_often_parts_occur_in_an_epoch():
    store = realistic_store(900)
    store.parts = (500, 300, 100)
    weights = [1.0, 0.25, 2.5]
    epochs = [np.concatenate([*epoch_batches(store, budgets(1000), 1, epoch, weights)]) for epoch in (0, 1)]
    for indices in epochs:
        of = np.bincount(indices, minlength=900)
        assert (of[:500] == 1).all()
        assert (of[500:800].max(), of[500:800].sum()) == (1, 75)
        assert (set(of[800:]), of[800:].sum()) == ({2, 3}, 250)
    drawn = [set(indices[(indices >= 500) & (indices < 800)]) for indices in epochs]
    assert drawn[0] != drawn[1]


def test_too_small_and_too_large_weights_are_reported():
    store = realistic_store(5)
    small = "so small that an epoch has no examples"
    large = r"an epoch of 5,000,000,000,000 examples needs 320\S* TB of memory"
    for count, weight, problem in ((5, 0.0001, small), (5, 1e-300, small), (5_000_000, 1e6, large)):
        store.parts = (count,)
        refused(problem, epoch_batches, store, budgets(1000), 1, 0, weights=[weight])


def test_shares_divide_the_pairs_evenly():
    pairs = Examples.from_store(realistic_store(50), range(50))
    shares = [pairs.to_batch(rank, 3) for rank in range(3)]
    lengths = sorted(int(length) - 1 for share in shares for length in share.source.lengths)
    assert lengths == sorted(map(len, pairs["source"]))
    assert [len(share) for share in shares] == [17, 17, 16]
    batch = pairs.to_batch()
    padded = batch.source.values.numel() + batch.target.values.numel() - 50
    tokens = int(batch.source.lengths.sum()), int(batch.target.lengths.sum()) - 50
    assert pairs.size == batch.size == shares[1].size == (50, *tokens, padded)
    empty = pairs.to_batch(50, 60)
    assert (len(empty), empty.size, int(empty.target.lengths.sum())) == (1, batch.size, 1)


def test_a_stream_of_features_is_stored_and_padded_without_eos(tmp_path):
    frames = [np.array([[0.5], [-1.5], [2.0]], np.float32), np.array([[0.25]], np.float32)]
    with StoreWriter(tmp_path, {"source": ("float16", (1,)), "target": "uint16"}) as writer:
        writer.add({"source": frames, "target": [[7], [8, 9]]})
    store = Store(tmp_path)
    batch = Examples.from_store(store, [0, 1]).to_batch()
    assert (batch.size.source_tokens, batch.size.target_tokens) == (4, 5)
    assert batch.source.values.tolist() == [[[0.5], [-1.5], [2.0]], [[0.25], [0.0], [0.0]]]
    assert (batch.source.values.dtype, batch.source.lengths.tolist()) == (torch.float32, [3, 1])
    assert batch.target.values.tolist() == [[BOS, 7, EOS, PAD], [BOS, 8, 9, EOS]]


def test_a_number_per_example_is_stored_and_padded_without_bos_and_eos(tmp_path):
    numbers = [[0.1], [-7.25], [1e6]]
    with StoreWriter(tmp_path, {"source": "uint16", "target": "float32"}) as writer:
        writer.add({"source": [[5, 6], [7], [8]], "target": numbers})
    batch = Examples.from_store(Store(tmp_path), [2, 0, 1]).to_batch()
    assert batch.target.values.tolist() == np.float32([numbers[2], numbers[0], numbers[1]]).tolist()
    assert batch.size.target_tokens == 3

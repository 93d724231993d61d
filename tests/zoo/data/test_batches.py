"""Batches of pairs."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specs import BOS, EOS, PAD, ZooError
from zoo.data.batches import Batch, Pairs, batch_pairs, epoch_batches


class Toy:
    """A store in memory; token p of pair i is 4 + (i + p) % 90."""

    def __init__(self, source, target):
        self.source_lengths, self.target_lengths = (np.array(each, np.int32) for each in (source, target))

    def __len__(self):
        return len(self.source_lengths)

    def source(self, index):
        return 4 + (index + np.arange(self.source_lengths[index], dtype=np.int32)) % 90

    def target(self, index):
        return 4 + (3 * index + np.arange(self.target_lengths[index], dtype=np.int32)) % 90


def real(count=3000, seed=0):
    """Lengths as sentences have them."""
    random = np.random.default_rng(seed)
    source = random.gamma(4, 6, count).astype(int).clip(1, 99)
    return Toy(source, (source * random.normal(1.1, 0.15, count)).astype(int).clip(1, 99))


STORES = st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), max_size=60).map(
    lambda pairs: Toy([source for source, _ in pairs], [target for _, target in pairs])
)


@settings(max_examples=200, deadline=None)
@given(STORES, st.integers(20, 90), st.integers(20, 90), st.integers(0, 3), st.integers(0, 3))
def test_every_pair_is_in_one_batch_and_every_batch_within_both_budgets(store, most_source, most_target, seed, epoch):
    batches = epoch_batches(store, most_source, most_target, seed, epoch)
    indices = [index for batch in batches for index in batch]
    assert sorted(indices) == list(range(len(store)))
    for batch in batches:
        made = Pairs.from_store(store, batch).batch()
        assert len(batch) > 0
        assert made.source.numel() <= most_source
        assert made.target.numel() - len(batch) <= most_target  # BOS is not predicted


@settings(max_examples=50, deadline=None)
@given(STORES, st.integers(20, 90), st.integers(20, 90))
def test_padding_is_the_share_that_it_says(store, most_source, most_target):
    batches = epoch_batches(store, most_source, most_target, 1, 1)
    made = [Pairs.from_store(store, batch).batch() for batch in batches]
    places = sum(batch.source.numel() + batch.target.numel() - len(batch) for batch in made)
    tokens = sum(batch.source_tokens + batch.target_tokens for batch in made)
    assert batches.padding == pytest.approx(1 - tokens / places if places else 0.0)
    assert sum(batches.total[1:3]) == tokens
    assert (batches.total.rows, batches.total.places) == (len(store), places)
    assert batches.mean.rows == -(-len(store) // max(1, len(made)))


@pytest.mark.parametrize("budget", [500, 2000])
def test_little_is_padding_and_budgets_are_used(budget):
    store = real(10_000)
    batches = epoch_batches(store, budget, budget, 1, 0)
    assert batches.padding < 0.08
    tokens = max(store.source_lengths.sum(), store.target_lengths.sum()) + len(store)
    assert len(batches) < 1.2 * tokens / budget


def test_seed_and_epoch_decide_alone():
    store = real()

    def order(seed, epoch):
        return [batch.tolist() for batch in epoch_batches(store, 1000, 1000, seed, epoch)]

    assert order(1, 2) == order(1, 2)
    others = [order(1, 3), order(2, 2), order(2, 1)]
    for index, each in enumerate(others):
        assert each != order(1, 2)
        # Not only the order of the batches: also which pairs meet.
        assert {frozenset(batch) for batch in each} != {frozenset(batch) for batch in order(1, 2)}
        assert each not in others[:index]


def test_batches_do_not_come_by_length():
    store = real()
    lengths = np.array([store.source_lengths[batch].mean() for batch in epoch_batches(store, 1000, 1000, 1, 0)])
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.4


ELSEWHERE = """
import hashlib, numpy as np
from types import SimpleNamespace
from zoo.data.batches import epoch_batches
lengths = np.arange(2000, dtype=np.int32) % 37
store = SimpleNamespace(source_lengths=lengths, target_lengths=lengths[::-1].copy())
print(hashlib.sha256(b"".join(np.sort(b).tobytes() for b in epoch_batches(store, 300, 400, 7, 5))).hexdigest())
"""


def test_another_process_makes_the_same_batches(request):
    printed = {
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE], cwd=request.config.rootpath, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(printed) == 1


def test_batches_are_a_sequence():
    batches = epoch_batches(real(), 1000, 1000, 1, 0)
    assert len(batches) == len(list(batches)) > 3
    assert batches[-1].tolist() == list(batches)[-1].tolist()
    assert [batch.tolist() for batch in batches[1:3]] == [batches[1].tolist(), batches[2].tolist()]
    with pytest.raises(IndexError):
        batches[len(batches)]


@pytest.mark.parametrize("longest", [60, 60_000])
def test_batches_are_even_whatever_the_lengths(longest):
    """Lengths that fit into 16 bits are sorted another way than those that do not."""
    lengths = np.random.default_rng(3).integers(1, longest + 1, 3000)
    batches = epoch_batches(Toy(lengths, lengths), 9 * longest, 9 * longest, 1, 0)
    assert np.median([np.ptp(lengths[batch]) for batch in batches]) < 0.1 * longest


def test_batches_are_the_longest_runs_that_the_budgets_allow():
    """Of a run that goes on, too: those of an epoch stay what they were. Said again plainly, a pair at a time."""
    store = real(500)
    source, target = store.source_lengths + 1, store.target_lengths + 1
    random = np.random.Generator(np.random.Philox(np.random.SeedSequence([7, 2])))
    order = random.permutation(500)
    keys = [np.rint(each * (1 + 0.05 * random.random(500, np.float32))).astype(int) for each in (source, target)]
    up_and_down = [-key if band % 2 == 0 else key for band, key in zip(*keys, strict=True)]
    order = sorted(order, key=lambda index: (keys[0][index], up_and_down[index]))
    expected = [[]]
    for index in order:
        longer = [*expected[-1], index]
        if len(longer) * source[longer].max() > 600 or len(longer) * target[longer].max() > 700:
            expected.append([])
        expected[-1].append(index)
    starts = np.cumsum([0, *map(len, expected)])
    bounds = np.stack([starts[:-1], starts[1:]], 1)
    random.shuffle(bounds)
    found = [batch.tolist() for batch in epoch_batches(store, 600, 700, 7, 2)]
    assert found == [order[start:end] for start, end in bounds]


@settings(max_examples=100, deadline=None)
@given(STORES, st.integers(20, 90), st.integers(20, 90), st.integers(0, 2**63 - 1))
def test_pairs_that_are_cut_are_each_in_one_batch_within_both_budgets(store, most_source, most_target, seed):
    pairs = Pairs.from_store(store, range(len(store)))
    batches = batch_pairs(pairs, most_source, most_target, seed)
    for batch in batches:
        made = batch.batch()
        assert made.source.numel() <= most_source
        assert made.target.numel() - len(made) <= most_target
    every = [(s.tolist(), t.tolist()) for batch in batches for s, t in zip(*batch, strict=True)]
    assert sorted(every) == sorted((s.tolist(), t.tolist()) for s, t in zip(*pairs, strict=True))


def test_few_batches_that_are_cut_have_little_padding_and_come_in_an_order_by_the_seed():
    pairs = Pairs.from_store(real(4000), range(4000))
    batches = batch_pairs(pairs, 2000, 2000, 1)
    tokens, places = (sum(f(batch.size) for batch in batches) for f in (lambda s: sum(s[1:3]), lambda s: s.places))
    assert 1 - tokens / places < 0.1
    lengths = [np.mean([len(row) for row in batch.sources]) for batch in batches]
    assert abs(np.corrcoef(lengths, np.arange(len(lengths)))[0, 1]) < 0.4
    again, other = ([b.size for b in batch_pairs(pairs, 2000, 2000, seed)] for seed in (1, 2))
    assert again == [b.size for b in batches] != other
    assert sorted(again) == sorted(other)


def test_no_pairs_are_no_batches():
    batches = epoch_batches(Toy([], []), 10, 10, 1, 0)
    assert (len(batches), batches.padding) == (0, 0.0)
    assert batch_pairs(Pairs([], []), 10, 10, 1) == []


@pytest.mark.parametrize(("side", "budgets"), [("source", (8, 100)), ("target", (100, 5))])
def test_a_pair_that_is_too_long_is_told(side, budgets):
    store = Toy([3, 8], [5, 2])
    with pytest.raises(
        ZooError, match=rf"a {side} of {8 if side == 'source' else 5} tokens .*`training.{side}_tokens`"
    ) as told:
        epoch_batches(store, *budgets, 1, 0)
    assert f"training.{side}_tokens={9 if side == 'source' else 6}" in told.value.hint
    assert len(epoch_batches(store, 9, 6, 1, 0)) == 2


def test_rows_end_and_begin_as_they_must():
    batch = Pairs.from_store(Toy([2, 4, 0], [3, 1, 0]), [1, 0, 2]).batch()
    assert batch.source.tolist() == [[5, 6, 7, 8, EOS], [4, 5, EOS, PAD, PAD], [EOS, PAD, PAD, PAD, PAD]]
    assert batch.target.tolist() == [[BOS, 7, EOS, PAD, PAD], [BOS, 4, 5, 6, EOS], [BOS, EOS, PAD, PAD, PAD]]
    assert batch.source.dtype == batch.target.dtype == torch.int64
    assert (batch.source_tokens, batch.target_tokens) == (9, 7)
    assert len(batch) == 3


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_parts_are_the_batch(parts):
    store = real(7)
    batch = Pairs.from_store(store, range(7)).batch()
    split = batch.split(parts)
    assert len(split) == min(parts, 7)
    assert sum(part.source_tokens for part in split) == batch.source_tokens
    assert sum(part.target_tokens for part in split) == batch.target_tokens
    sizes = [len(part) for part in split]
    assert max(sizes) - min(sizes) <= 1
    first = 0
    for part in split:
        alone = Pairs.from_store(store, range(first, first + len(part))).batch()
        assert torch.equal(part.source, alone.source)
        assert torch.equal(part.target, alone.target)
        assert (part.source_tokens, part.target_tokens) == (alone.source_tokens, alone.target_tokens)
        first += len(part)


def test_a_batch_goes_to_a_device():
    batch = Pairs.from_store(real(5), range(5)).batch()
    there = batch.to("meta")
    assert isinstance(there, Batch)
    assert there.source.device.type == there.target.device.type == "meta"
    assert there.target_tokens == batch.target_tokens


def test_an_epoch_has_each_part_as_often_as_its_weight_says():
    store = real(900)
    store.parts = (500, 300, 100)
    epochs = [
        np.concatenate(list(epoch_batches(store, 1000, 1000, 1, epoch, weights=[1.0, 0.25, 2.5]))) for epoch in (0, 1)
    ]
    for indices in epochs:
        of = np.bincount(indices, minlength=900)
        assert (of[:500] == 1).all()
        assert of[500:800].max() == 1
        assert of[500:800].sum() == 75
        assert set(of[800:]) == {2, 3}
        assert of[800:].sum() == 250
    drawn = [set(indices[(indices >= 500) & (indices < 800)]) for indices in epochs]
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("weight", [0.0001, 1e-300])
def test_weights_that_leave_nothing_are_told(weight):
    store = real(5)
    store.parts = (5,)
    with pytest.raises(ZooError, match="an epoch has no pair at all"):
        epoch_batches(store, 1000, 1000, 1, 0, weights=[weight])


def test_weights_that_fill_the_memory_are_told():
    store = real(5)
    store.parts = (5_000_000,)
    with pytest.raises(ZooError, match=r"an epoch of 5,000,000,000,000 pairs needs 320\S* TB of memory"):
        epoch_batches(store, 1000, 1000, 1, 0, weights=[1e6])


def test_weights_of_one_change_nothing():
    store = real(900)
    store.parts = (500, 400)
    plain, weighted = (epoch_batches(store, 1000, 1000, 1, 3, weights=weights) for weights in ((), (1.0, 1.0)))
    assert all(np.array_equal(a, b) for a, b in zip(plain, weighted, strict=True))


def test_shares_are_the_whole_and_alike():
    pairs = Pairs.from_store(real(50), range(50))
    shares = [pairs.share(rank, 3) for rank in range(3)]
    assert sorted(len(row) for share in shares for row in share.sources) == sorted(map(len, pairs.sources))
    assert [len(share.sources) for share in shares] == [17, 17, 16]
    assert pairs.size.rows == 50
    batch = pairs.to_batch()
    assert pairs.size == (
        50,
        batch.source_tokens,
        batch.target_tokens,
        batch.source.numel() + batch.target.numel() - 50,
    )
    empty = pairs.share(50, 60).batch()
    assert (len(empty), empty.target_tokens) == (1, 0)

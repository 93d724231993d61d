"""Token stores on disk."""

import tracemalloc
from contextlib import suppress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refusals import refused
from zoo.data.store import Store, StoreWriter

ROWS = st.lists(st.lists(st.integers(4, 99), max_size=6), max_size=12)


def write(folder, chunks, size=100):
    folder.mkdir(parents=True, exist_ok=True)
    one = "uint16" if size <= 1 << 16 else "uint32"
    with StoreWriter(folder, {"source": one, "target": one}) as writer:
        for source, target in chunks:
            writer.add({"source": source, "target": target})
    return Store(folder)


@settings(max_examples=40, deadline=None)
@given(chunks=st.lists(ROWS, max_size=3), size=st.sampled_from([100, 1 << 16, (1 << 16) + 1]))
def test_stores_return_what_was_written(tmp_path_factory, chunks, size):
    pairs = [(rows, [[*row[::-1], 5] for row in rows]) for rows in chunks]
    store = write(tmp_path_factory.mktemp("store"), pairs, size)
    order = np.random.default_rng(1).permutation(len(store))
    for name, side in (("source", 0), ("target", 1)):
        written = [row for pair in pairs for row in pair[side]]
        assert len(store) == len(written)
        assert [store.row(name, index).tolist() for index in range(len(store))] == written
        assert [row.tolist() for row in store.rows(name, order)] == [written[index] for index in order]
        assert store.lengths[name].tolist() == [len(row) for row in written]


def test_memory_does_not_grow_with_the_number_of_tokens(tmp_path):
    row, pairs = [7] * 250, 4000
    tracemalloc.start()
    store = write(tmp_path / "store", (([row] * 100, [row] * 100) for _ in range(pairs // 100)))
    written = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    for index in range(0, pairs, 7):
        store.row("source", index)
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "store" / "00000.source.values").stat().st_size == 2_000_000
    assert written < 1_000_000
    assert read < 500_000


def test_an_unfinished_store_cannot_be_opened(tmp_path):
    with suppress(KeyboardInterrupt), StoreWriter(tmp_path, {"source": "uint16"}) as writer:
        writer.add({"source": [[4]]})
        raise KeyboardInterrupt
    refused("is missing", Store, tmp_path)

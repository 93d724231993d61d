"""A batch that does not fit the memory is split; what is found stays the same."""

import threading
import weakref

import pytest
import torch

from specs import EOS, ZooError
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import search
from zoo.system.device_memory import is_out_of_memory

ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."
SOURCES = [Source(index, (*[4 + index % 5] * (1 + index % 7), EOS), 5, (), f"text {index}") for index in range(30)]


@pytest.fixture
def tight(toy):
    class Tight(toy):
        """Has memory for states of so many rows in all threads together, and for the source `forbidden` never."""

        def __init__(self, most, error, forbidden=()):
            super().__init__(9, 1, 50)
            self.most, self.error, self.forbidden, self.failed = most, error, set(forbidden), 0
            self.states, self.lock = weakref.WeakSet(), threading.Lock()

        def encode(self, source):
            return self._kept(super().encode(source))

        def decode_step(self, state, token):
            log_probabilities, state = super().decode_step(state, token)
            return log_probabilities, self._kept(state)

        def select(self, state, sentences, parents):
            return self._kept(super().select(state, sentences, parents))

        def join(self, first, second):
            return self._kept(super().join(first, second))

        def _kept(self, state):
            with self.lock:
                self.states.add(state)
                rows = sum(len(each.sources) * len(each.rows[0]) for each in list(self.states) if not each.used)
                if rows > self.most or self.forbidden & set(state.sources):
                    state.used, self.failed = True, self.failed + 1
                    raise type(self.error)(*self.error.args)
            return state

    return Tight


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA"), RuntimeError(ALLOCATOR)], ids=str)
@pytest.mark.parametrize("most", [3, 10, 25])
def test_the_room_halves_until_it_fits(toy, tight, error, most):
    program = tight(most, error)
    found = dict(search(program, [SOURCES], BeamSearch(3, 0.6), 4096))
    assert found == dict(search(toy(9, 1, 50), [SOURCES], BeamSearch(3, 0.6), 4096))
    assert 1 <= program.failed <= 6
    assert max(program.read) <= most


@pytest.mark.parametrize("most", [7, 20])
def test_workers_that_are_in_each_others_way_give_way(toy, tight, most):
    program = tight(most, MemoryError())
    done = dict(search(program, [SOURCES], BeamSearch(3, 0.6), 4096, 3))
    assert done == dict(search(toy(9, 1, 50), [SOURCES], BeamSearch(3, 0.6), 4096))


@pytest.mark.parametrize("workers", [1, 3])
def test_one_sentence_that_does_not_fit_is_named(tight, workers):
    program = tight(1000, MemoryError(), [SOURCES[17].tokens])
    with pytest.raises(
        ZooError, match=r"not enough memory to translate sentence 18 alone: 'text 17', 4 tokens"
    ) as caught:
        list(search(program, [SOURCES[10:20]], BeamSearch(3, 0.6), 4096, workers))
    assert caught.value.exit_code == 1
    assert "smaller beam" in caught.value.hint


def test_other_failures_are_not_of_memory(tight):
    with pytest.raises(RuntimeError, match="a fault"):
        list(search(tight(2, RuntimeError("a fault")), [SOURCES], BeamSearch(3, 0.6), 4096))
    assert is_out_of_memory(RuntimeError("CUDA error: out of memory"))
    assert not is_out_of_memory(ValueError("not enough memory"))

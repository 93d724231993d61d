"""The engine: worker threads share a queue, batches are refilled and stay within their size, and memory can run out."""

import os
import random
import subprocess
import sys
import threading
import weakref

import pytest
import torch

from specs import EOS, PAD, ZooError
from zoo.generation.batching import MIN_ROW_TOKENS, Source, group_by_length, pad_sequences
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import RequestQueue, resolve_workers, search

BEAM = BeamSearch(2, 0.6)


def sources(count, length=3):
    return [Source(index, (*(4 + (index + i) % 5 for i in range(length)), EOS), 6) for index in range(count)]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


# batches


def test_groups_hold_each_sentence_once_and_fit_the_batch():
    draw = random.Random(1)
    for max_batch_tokens in (1, 40, 500, 10_000):
        lengths = [draw.randrange(1, 90) for _ in range(200)]
        groups = group_by_length(lengths, max_batch_tokens)
        by_length = sorted(range(200), key=lambda index: (-lengths[index], index))
        assert [index for group in groups for index in group] == by_length
        for group in groups:
            assert len(group) == 1 or len(group) * max(lengths[index] for index in group) <= max_batch_tokens
    assert [len(group) for group in group_by_length([2] * 10, 4 * MIN_ROW_TOKENS)] == [4, 4, 2]
    assert group_by_length([], 100) == []
    assert pad_sequences([[5, 3], [3]], "cpu").tolist() == [[5, 3], [3, PAD]]


@pytest.fixture
def uneven(toy):
    class Uneven(toy):
        """Program whose translations are as long as the source's first token says."""

        def row(self, source, prefix):
            if len(prefix) >= source[0] - 4:
                return [-9.0, -9.0, -9.0, -0.01, -9.0, -9.0, -9.0]
            return [-1.0, -2.0, -1.0, -30.0, -0.5, -3.0, -3.0]

    return Uneven(7, 5, 40)


# The tests below use `run_search`, the fixture `search`, under another name: `search` is the engine's function.
@pytest.fixture
def run_search(request):
    return request.getfixturevalue("search")


def test_finished_sentences_leave_the_batch(uneven, run_search):
    run_search(uneven, [(4,), (6,), (8,)], [20, 20, 20], beam=2, alpha=0.0)
    assert uneven.read[0] == 3
    assert uneven.read[1] == 4  # the first sentence ended at once, the other two have two hypotheses each
    assert uneven.read[-1] == 2


def test_queued_sentences_replace_finished_ones(uneven, run_search):
    lengths = (30, 30, 30, 30, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)
    run_search(uneven, [(4 + length,) for length in lengths], [40] * 14, beam=2, alpha=0.0, max_batch_tokens=8 * 16)
    # Eight fit, and four of them end soon. Then four join, and later the last two.
    assert [shape[0] for shape in uneven.encoded] == [8, 4, 2]
    assert uneven.joined == [(4, 4), (4, 2)]
    assert max(uneven.read) == 16
    assert len(uneven.read) < 31 + 4  # the steps of the longest, and the first steps of the sentences that joined


def test_batches_never_exceed_their_size(toy, run_search):
    class Watching(toy):
        def _record(self, state):
            shapes.append((len(state.sources), max(map(len, state.sources))))
            return state

        def select(self, state, sentences, parents):
            return self._record(super().select(state, sentences, parents))

        def join(self, first, second):
            return self._record(super().join(first, second))

    draw = random.Random(1)
    texts = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 60))) for _ in range(40)]
    for size in (20, 90, 300):
        shapes, program = [], Watching(9, 3, 30)
        run_search(program, texts, [5] * 40, beam=2, alpha=0.6, max_batch_tokens=size, chunk_size=16)
        assert len(program.joined) > 3 or size == 20
        assert all(rows == 1 or rows * longest <= size for rows, longest in shapes)


def test_no_source_is_no_work(toy, run_search):
    for workers in (1, 2):
        assert run_search(toy(), [], [], beam=4, alpha=0.6, workers=workers) == []


# workers


@pytest.fixture
def meeting(toy):
    class Meeting(toy):
        """Program in whose first step each thread waits until all threads have come so far."""

        def __init__(self, parties):
            super().__init__(9, 1, 50)
            self.barrier, self.seen, self.lock = threading.Barrier(parties), set(), threading.Lock()

        def top_k(self, state, tokens, count, allowed=None):
            with self.lock:
                new = threading.get_ident() not in self.seen
                self.seen.add(threading.get_ident())
            if new:
                self.barrier.wait(timeout=60)
            return super().top_k(state, tokens, count, allowed)

    return Meeting


@pytest.mark.parametrize("sizes", [[40], [10, 10, 20], [1] * 40])
def test_every_worker_gets_sentences(toy, meeting, sizes):
    """This holds although all sentences would fit into one worker's batch."""
    program, sentences = meeting(3), sources(40)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    chunks = (sentences[start : start + size] for start, size in zip(starts, sizes, strict=True))
    results = dict(search(program, chunks, BEAM, 4096, 3))
    assert len(program.seen) == 3
    assert results == dict(search(toy(9, 1, 50), [sentences], BEAM, 4096))


def test_an_error_in_a_worker_is_raised_in_the_caller(toy):
    class Failing(toy):
        def encode(self, source):
            if 8 in source.values[:, 0].tolist():
                raise ValueError("a fault of the program")
            return super().encode(source)

    with pytest.raises(ValueError, match="a fault of the program"):
        list(search(Failing(9, 1, 50), [sources(40)], BEAM, 20, 3))


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_the_generator_ends_the_search(toy, workers):
    program = toy(9, 1, 50)
    results = search(program, [sources(500)], BEAM, 20, workers)
    next(results)
    results.close()
    assert sum(rows for rows, _ in program.encoded) < 500


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_while_reading_ends_the_search(toy, workers):
    def chunks():
        yield sources(40)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(search(toy(9, 1, 50), chunks(), BEAM, 60, workers))


def test_chunks_are_read_in_the_callers_thread_and_just_ahead(toy):
    read = []

    def chunks():
        for start in range(0, 200, 10):
            read.append(threading.current_thread())
            yield sources(200)[start : start + 10]

    ahead = [10 * len(read) - number for number, _ in enumerate(search(toy(9, 1, 50), chunks(), BEAM, 30, 2))]
    assert set(read) == {threading.main_thread()}
    assert max(ahead) <= 40  # one and a half chunks, and the sentences of two workers


def test_the_number_of_workers_is_resolved_and_checked(toy):
    single, concurrent = toy(), toy()
    concurrent.concurrent = True
    assert resolve_workers(concurrent, "auto") == len(os.sched_getaffinity(0))
    assert resolve_workers(concurrent, 3) == 3
    assert resolve_workers(single, "auto") == resolve_workers(single, 1) == 1
    with pytest.raises(ZooError, match="`workers` is 2, but this backend runs one batch at a time") as caught:
        resolve_workers(single, 2)
    assert "native" in caught.value.hint


def test_threads_that_started_end_if_another_cannot_start(toy, monkeypatch):
    start = threading.Thread.start

    def start_three(thread):
        if thread.name == "search 3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    with pytest.raises(ZooError, match="only 3 of 17 workers could be started: can't start new thread"):
        list(search(toy(9, 1, 50), [sources(40)], BEAM, 20, 17))


INTERRUPTED = """
import threading, torch
from specs import EOS
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import search

class Slow:
    def encode(self, source):
        return source
    def top_k(self, state, tokens, count, allowed):
        for _ in range(50):
            torch.randn(200, 200) @ torch.randn(200, 200)
        raise ValueError

results = search(Slow(), [[Source(i, (5, EOS), 6) for i in range(900)]], BeamSearch(2, 0.6), 20, 17)
join = threading.Thread.join
threading.Thread.join = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
try:
    next(results)
except KeyboardInterrupt:
    threading.Thread.join = join
    print("interrupted", sum(thread.name.startswith("search") for thread in threading.enumerate()) > 0)
"""


@pytest.mark.integration
def test_python_waits_for_running_workers_at_exit():
    """It does so even if Ctrl-C interrupted the wait: unwinding a thread in C++ would abort the process."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["interrupted", "True"], "", 0)


# memory

ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."
TEXTS = [Source(index, (*[4 + index % 5] * (1 + index % 7), EOS), 5, (), f"text {index}") for index in range(30)]
WIDE = BeamSearch(3, 0.6)


@pytest.fixture
def tight(toy):
    class Tight(toy):
        """Program with memory for `max_rows` rows in all threads together, and none for the sources `forbidden`."""

        def __init__(self, max_rows, error, forbidden=()):
            super().__init__(9, 1, 50)
            self.max_rows, self.error, self.forbidden, self.failures = max_rows, error, set(forbidden), 0
            self.states, self.lock = weakref.WeakSet(), threading.Lock()

        def encode(self, source):
            return self._allocate(super().encode(source))

        def advance(self, state, tokens):
            log_probabilities, state = super().advance(state, tokens)
            return log_probabilities, self._allocate(state)

        def select(self, state, sentences, parents):
            return self._allocate(super().select(state, sentences, parents))

        def join(self, first, second):
            return self._allocate(super().join(first, second))

        def _allocate(self, state):
            with self.lock:
                self.states.add(state)
                rows = sum(len(each.sources) * len(each.rows[0]) for each in list(self.states) if not each.used)
                if rows > self.max_rows or self.forbidden & set(state.sources):
                    state.used, self.failures = True, self.failures + 1
                    raise type(self.error)(*self.error.args)
            return state

    return Tight


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA"), RuntimeError(ALLOCATOR)], ids=str)
def test_batches_halve_until_they_fit_into_memory(toy, tight, error):
    expected = dict(search(toy(9, 1, 50), [TEXTS], WIDE, 4096))
    for max_rows in (3, 10, 25):
        program = tight(max_rows, error)
        assert dict(search(program, [TEXTS], WIDE, 4096)) == expected
        assert 1 <= program.failures <= 6
        assert max(program.read) <= max_rows


@pytest.mark.parametrize("max_rows", [7, 20])
def test_workers_end_if_there_is_not_enough_memory_for_all(toy, tight, max_rows):
    results = dict(search(tight(max_rows, MemoryError()), [TEXTS], WIDE, 4096, 3))
    assert results == dict(search(toy(9, 1, 50), [TEXTS], WIDE, 4096))


def test_the_last_worker_retries_a_sentence_before_it_fails():
    """Two workers hold one sentence each, and both run out of memory. One of them ends, the other tries again."""
    queue, barrier, results = RequestQueue([sources(2)], 4, 2, request_fill=lambda: None), threading.Barrier(2), []
    queue.fill()

    def work():
        taken = queue.take([])
        barrier.wait(timeout=60)
        results.append(queue.put_back(taken, 4))
        if results[-1]:
            results.append(len(queue.take([])))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, results)) == [0, 1, 1]


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sentence_that_does_not_fit_alone_is_named(tight, workers):
    program = tight(1000, MemoryError(), [TEXTS[17].tokens])
    message = r"not enough memory to translate sentence 18 alone: 'text 17', 5 tokens"
    with pytest.raises(ZooError, match=message) as caught:
        list(search(program, [TEXTS[10:20]], WIDE, 4096, workers))
    assert caught.value.exit_code == 1
    assert "smaller beam" in caught.value.hint


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(tight):
    with pytest.raises(RuntimeError, match="a fault"):
        list(search(tight(2, RuntimeError("a fault")), [TEXTS], WIDE, 4096))

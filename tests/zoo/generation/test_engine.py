"""The engine: worker threads share a queue, batches are refilled and stay within their size, and memory can run out."""

import os
import random
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from math import inf, nan
from pathlib import Path

import pytest
import torch

from specs import EOS, ZooError
from tests import forks
from tests.refusals import refused
from tests.zoo.conftest import run_search
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.engine import Engine, resolve_workers
from zoo.generation.sampling import Sampling
from zoo.generation.translation import MIN_ROW_TOKENS, SearchInput, group_by_length

BEAM = BeamSearch(2, 0.6)


def search(program, chunks, strategy, max_batch_tokens, workers=1):
    with Engine(program, workers=workers, max_batch_tokens=max_batch_tokens) as engine:
        yield from engine.search(chunks, strategy)


def sources(count):
    return [SearchInput(i, {"source": (*(4 + (i + place) % 5 for place in range(3)), EOS)}, 6) for i in range(count)]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = threading.enumerate()
    yield
    assert set(threading.enumerate()) <= set(before)


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


def test_queued_sentences_replace_finished_ones(toy):
    class Uneven(toy):
        """Program whose translations are as long as the source's first token says."""

        def row(self, source, prefix):
            if len(prefix) >= source[0] - 4:
                return [-9.0, -9.0, -9.0, -0.01, -9.0, -9.0, -9.0]
            return [-1.0, -2.0, -1.0, -30.0, -0.5, -3.0, -3.0]

    program, lengths = Uneven(7, 5, 40), (30, 30, 30, 30, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3)
    run_search(program, [(4 + length,) for length in lengths], [40] * 14, beam=2, alpha=0.0, max_batch_tokens=8 * 16)
    # Eight fit, and four of them end soon. Then four join, and later the last two.
    assert [shape[0] for shape in program.encoded] == [8, 4, 2]
    assert program.joined == [(4, 4), (4, 2)]
    assert max(program.read) == 16
    assert len(program.read) < 31 + 4  # the steps of the longest, and the first steps of the sentences that joined


# workers


@pytest.mark.parametrize("sizes", [[40], [10, 10, 20], [1] * 40])
def test_every_worker_gets_sentences(toy, sizes):
    """This holds although all sentences would fit into one worker's batch."""
    barrier, seen, lock = threading.Barrier(3), set(), threading.Lock()

    class Meeting(toy):
        """Program in whose first step each thread waits until all threads have come so far."""

        def top_k(self, state, tokens, count, allowed=None):
            with lock:
                is_new = threading.get_ident() not in seen
                seen.add(threading.get_ident())
            if is_new:
                barrier.wait(timeout=60)
            return super().top_k(state, tokens, count, allowed)

    sentences = sources(40)
    rest = iter(sentences)
    results = dict(search(Meeting(9, 1, 50), [list(islice(rest, size)) for size in sizes], BEAM, 4096, 3))
    assert len(seen) == 3
    assert results == dict(search(toy(9, 1, 50), [sentences], BEAM, 4096))


@pytest.mark.parametrize("workers", [1, 2])
def test_closing_the_generator_or_an_interrupt_ends_the_search(toy, workers):
    program = toy(9, 1, 50)
    results = search(program, [sources(500)], BEAM, 20, workers)
    next(results)
    results.close()
    assert sum(rows for rows, _ in program.encoded) < 500

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


# several callers


@pytest.fixture
def hooked(toy):
    class Hooked(toy):
        """Program that calls `hooks[n]` in the worker thread before step n. Step 0 can wait for all requests."""

        def __init__(self, *args, waits=False):
            super().__init__(*args)
            self.all_sent = threading.Event()
            self.hooks = {0: self.all_sent.wait} if waits else {}

        def advance(self, state, tokens):
            self.hooks.pop(len(self.read), lambda: None)()
            return super().advance(state, tokens)

    return Hooked


LONG_TEXTS = [SearchInput(index, {"source": (*[4 + index % 5] * (3 + index % 11), EOS)}, 8) for index in range(200)]
WITH_PREFIXES = [SearchInput(index, {"source": (5, 4 + index, EOS)}, 6, (5,) * (index % 3)) for index in range(5)]
SUPPRESSED = SuppressedTokens((5,), 9, min_length=2)
REQUESTS = [
    *((LONG_TEXTS[size : size + 9], BeamSearch(size, 0.1 * size, 1 + size // 2)) for size in (1, 2, 3, 5, 8, 20)),
    *((LONG_TEXTS[9:20], BeamSearch(size, 1.0, size, None, "power", "full")) for size in (1, 2, 4)),
    *((LONG_TEXTS[5:17], BeamSearch(size, 0.6, size, None, "power", "shrinking")) for size in (1, 3, 6)),
    (WITH_PREFIXES, BeamSearch(4, 0.6, 2)),
    *((LONG_TEXTS[:9], BeamSearch(size, 0.6, 1, SUPPRESSED)) for size in (1, 2, 7)),
    *((LONG_TEXTS[:4], Sampling(2, 0.6, 1.5, 0, 1.0, seed)) for seed in (1, 2)),
    (WITH_PREFIXES, Sampling(3, 0.6, 1.5, 4, 0.9, 1)),
]


@pytest.fixture(scope="module")
def alone(toy):
    """The results of each request in an engine of its own, and the number of steps of all of them."""
    results, steps = [], 0
    for texts, strategy in REQUESTS:
        program = toy(9, 1, 12)
        with Engine(program, max_batch_tokens=4096) as engine:
            results.append(engine.submit(texts, strategy).result())
        steps += len(program.read)
    return results, steps


@pytest.mark.parametrize("max_batch_tokens", [4096, 500, 60])
def test_requests_with_different_options_share_batches(hooked, alone, max_batch_tokens):
    """All of them wait when the first step runs. The results are the same as alone."""
    program = hooked(9, 1, 12, waits=True)
    with Engine(program, max_batch_tokens=max_batch_tokens) as engine:
        futures = [engine.submit(texts, strategy) for texts, strategy in REQUESTS]
        program.all_sent.set()
        assert [future.result() for future in futures] == alone[0]
    if max_batch_tokens == 4096:
        assert len(program.read) < alone[1] / 2


@pytest.mark.parametrize("workers", [1, 3])
def test_several_threads_get_the_results_that_they_get_alone(toy, alone, workers):
    draw, numbers = random.Random(1), range(len(REQUESTS))
    with Engine(toy(9, 1, 12), workers=workers, max_batch_tokens=300) as engine, ThreadPoolExecutor(4) as threads:

        def call(order):
            return {number: engine.submit(*REQUESTS[number]).result() for number in order}

        found = list(threads.map(call, [draw.sample(numbers, len(numbers)) for _ in range(4)]))
    assert found == [dict(enumerate(alone[0]))] * 4


def test_a_batch_has_as_many_rows_as_its_largest_beam_needs(hooked):
    """Rows are added when a larger beam joins, and removed when it leaves."""
    program, late = hooked(9, 1, 50), []
    more = [SearchInput(0, {"source": (5, EOS)}, 2)]
    program.hooks = {3: lambda: late.append(engine.submit(more, BeamSearch(6, 0.6)))}
    program.overriding = {(5,) * length: [-9.0] * 5 + [-0.1] + [-9.0] * 3 for length in range(30)}
    with Engine(program, max_batch_tokens=4096) as engine:
        engine.submit([SearchInput(0, {"source": (4, EOS)}, 20)], BeamSearch(2, 0.6)).result()
        late[0].result()
    assert set(program.read) == {1, 2, 12}
    assert (program.read.count(12), program.read[-1]) == (2, 2)


def watch(program, check):
    """Call a function with all states that are in use whenever the program returns a new one, which it gets as well."""
    states, lock = weakref.WeakSet(), threading.Lock()

    def watched(method):
        def call(*args):
            result = method(*args)
            new = result[1] if isinstance(result, tuple) else result
            with lock:
                states.add(new)
                check([state for state in list(states) if not state.used], new)
            return result

        return call

    for name in ("encode", "advance", "select", "join"):
        setattr(program, name, watched(getattr(program, name)))


def test_long_requests_of_different_kinds_progress_equally(hooked):
    """All batches together stay within the size of a batch."""
    program, encoded = hooked(9, 1, 50, waits=True), []

    def check(states, _):
        assert sum(len(state.sources) * max(map(len, state.sources)) for state in states) <= 300

    watch(program, check)
    with Engine(program, max_batch_tokens=300) as engine:
        futures = [engine.submit(LONG_TEXTS, strategy) for strategy in (BEAM, Sampling(2, 0.6, 1.0, 0, 1.0, 1))]
        for future in futures:
            future.add_done_callback(lambda _: encoded.append(sum(rows for rows, _ in program.encoded)))
        program.all_sent.set()
        for future in futures:
            future.result()
    assert encoded[0] > 1.5 * len(LONG_TEXTS), "when one request ends, half of the other has begun"


def test_a_cancelled_request_leaves_the_batch_and_the_queue_at_once(hooked):
    program, futures = hooked(9, 1, 50, waits=True), []
    program.hooks[3] = lambda: futures[0].cancel()
    kept = [SearchInput(index, {"source": (5, 4 + index, EOS)}, 9) for index in range(4)]
    with Engine(program, max_batch_tokens=20 * MIN_ROW_TOKENS) as engine:
        for texts in ([SearchInput(i, {"source": (4, EOS)}, 500) for i in range(90)], kept):
            futures.append(engine.submit(texts, BeamSearch(2, 9.0, 2)))
        program.all_sent.set()
        results = futures[1].result()
        assert wait(futures, timeout=60).not_done == set()
    assert futures[0].cancelled()
    assert max(program.read[5:]) <= 2 * len(kept)
    assert sum(rows for rows, _ in program.encoded) <= 20 + len(kept), "no waiting sentence is encoded"
    with Engine(program, max_batch_tokens=4096) as engine:
        assert engine.submit(kept, BeamSearch(2, 9.0, 2)).result() == results


FAULTS = [
    (RuntimeError("fault"), "fault"),
    (nan, "not finite"),
    (-inf, "not finite"),
    (MemoryError(), "enough memory"),
]


@pytest.mark.parametrize(("fault", "message"), FAULTS, ids=["error", "nan", "infinite", "memory"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_ends_only_the_request_that_causes_it(toy, fault, message, workers):
    class Faulty(toy):
        """Program that fails for the source token 8: with an error in the second step, or with a number at once."""

        def row(self, source, prefix):
            if 8 not in source or (isinstance(fault, Exception) and not prefix):
                return super().row(source, prefix)
            if isinstance(fault, Exception):
                raise fault
            return [fault] * self.vocabulary

    sentences = [SearchInput(i, {"source": (5, 4 + i % 3, EOS)}, 6) for i in range(12)]
    texts = [sentences[start : start + 9] for start in range(4)]
    bad = [*texts[0], SearchInput(99, {"source": (8, EOS)}, 6)]
    with Engine(Faulty(9, 1, 50), workers=workers, max_batch_tokens=4096) as engine:
        expected = [engine.submit(each, BEAM).result() for each in texts]
        failing, *others = [engine.submit(each, BEAM) for each in (bad, *texts)]
        with pytest.raises((RuntimeError, ZooError), match=message):
            failing.result(timeout=100)
        assert [each.result(timeout=100) for each in others] == expected
        assert engine.submit(texts[0], BEAM).result() == expected[0]


# the life of an engine


@pytest.mark.parametrize("max_batch_tokens", [60, 10_000])  # the second request waits, or runs as well
def test_closing_the_engine_ends_all_requests(hooked, max_batch_tokens):
    program, stopped = hooked(9, 1, 50, waits=True), threading.Event()
    engine = Engine(program, max_batch_tokens=max_batch_tokens)
    program.hooks[5] = lambda: (engine.queue.stop(), stopped.set())
    futures = [engine.submit(LONG_TEXTS, strategy) for strategy in (BEAM, Sampling(2, 0.6, 1.0, 0, 1.0, 1))]
    program.all_sent.set()
    assert stopped.wait(timeout=100)
    engine.close()
    for future in futures:
        refused("the model is closed", future.result, timeout=100)
    assert futures[0].exception() is not futures[1].exception(), "callers raise errors of their own in several threads"
    refused("the model is closed", engine.submit, sources(3), BEAM)


def test_closing_the_engine_ends_a_request_that_does_not_fit_into_memory(hooked):
    program = hooked(9, 1, 50)
    engine = Engine(program, max_batch_tokens=4096)

    def run_out_of_memory():
        engine.queue.stop()
        raise torch.OutOfMemoryError

    program.hooks = {1: run_out_of_memory}
    refused("the model is closed", engine.submit(LONG_TEXTS[:3], BEAM).result, timeout=100)
    engine.close()


def test_threads_end_when_nobody_uses_the_engine(toy):
    engine = Engine(toy(9, 1, 50), workers=2, max_batch_tokens=60)
    threads, future, engine = engine.queue.threads, engine.submit(LONG_TEXTS, BEAM), weakref.ref(engine)
    assert len(future.result()) == len(LONG_TEXTS), "the request keeps the engine alive"
    assert len(threads) == 2
    del future
    for thread in threads:
        thread.join(timeout=100)
    assert engine() is None


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
def test_a_forked_process_searches_with_threads_of_its_own():
    """Although another thread held the lock of the queue at that moment."""
    done = forks.run(Path(__file__).with_name("forked_engine.py").read_text("utf-8"))
    assert done.stdout.split() == ["90", "90", "90"], done.stderr


def test_the_number_of_workers_is_resolved_and_checked(toy):
    single, concurrent = toy(), toy()
    concurrent.concurrent = True
    assert resolve_workers(concurrent, "auto") == len(os.sched_getaffinity(0))
    assert resolve_workers(concurrent, 3) == 3
    assert resolve_workers(single, "auto") == resolve_workers(single, 1) == 1
    refused(r"`workers` is 2, but this backend runs one batch at a time.*\s+hint: .*native", resolve_workers, single, 2)


def test_threads_that_started_end_if_another_cannot_start(toy, monkeypatch):
    start = threading.Thread.start

    def start_three(thread):
        if thread.name == "search 3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_three)
    with pytest.raises(ZooError, match="only 3 of 17 worker threads could be started: can't start new thread"):
        list(search(toy(9, 1, 50), [sources(40)], BEAM, 20, 17))


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
def test_python_waits_for_running_workers_at_exit():
    """It does so even if Ctrl-C interrupted the wait: unwinding a thread in C++ would abort the process."""
    command = [sys.executable, Path(__file__).with_name("engine_at_exit.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout.split(), done.stderr) == (["working", "True", "0"] * 2, "")


# memory

ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."
TEXTS = [SearchInput(i, {"source": (*[4 + i % 5] * (1 + i % 7), EOS)}, 5, (), f"text {i}") for i in range(30)]
WIDE = BeamSearch(3, 0.6)


@pytest.fixture
def tight(toy):
    def make(max_rows, error, forbidden=()):
        """Return a program with memory for `max_rows` rows in all threads together, and none for some sources."""
        program = toy(9, 1, 50)
        program.failures = 0

        def allocate(states, new):
            rows = sum(len(state.sources) * len(state.rows[0]) for state in states)
            if rows > max_rows or {*forbidden} & {*new.sources}:
                new.used, program.failures = True, program.failures + 1
                raise type(error)(*error.args)

        watch(program, allocate)
        return program

    return make


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA"), RuntimeError(ALLOCATOR)], ids=str)
def test_batches_halve_until_they_fit_and_workers_end_if_there_is_not_enough_memory_for_all(toy, tight, error):
    expected = dict(search(toy(9, 1, 50), [TEXTS], WIDE, 4096))
    for max_rows, workers in ((3, 1), (10, 1), (25, 1), (7, 3), (20, 3)):
        program = tight(max_rows, error)
        assert dict(search(program, [TEXTS], WIDE, 4096, workers)) == expected
        assert workers > 1 or 1 <= program.failures <= 6
        assert max(program.read) <= max_rows


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sentence_that_does_not_fit_alone_is_named(tight, workers):
    program = tight(1000, MemoryError(), [TEXTS[17].tokens])
    message = r"not enough memory for input 18, even in a batch of its own: 'text 17', length 5"
    error = refused(rf"{message}.*\s+hint: .*smaller beam", list, search(program, [TEXTS[10:20]], WIDE, 4096, workers))
    assert error.exit_code == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_callback_cannot_wait_for_another_search(hooked, workers):
    program, done = hooked(9, 1, 50, waits=True), threading.Event()

    def callback(_):
        refused(r"callback.*\s+hint: .*submit", list, engine.search([sources(1)], BEAM))
        done.set()

    with Engine(program, workers=workers, max_batch_tokens=160) as engine:
        engine.submit(sources(3), BEAM).add_done_callback(callback)
        program.all_sent.set()
        assert done.wait(30), "the callback got no error"
        assert len(list(engine.search([sources(2)], BEAM))) == 2

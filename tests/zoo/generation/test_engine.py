"""The engine: worker threads share a queue, batches are refilled and stay within their size, and memory can run out."""

import os
import random
import subprocess
import sys
import threading
import weakref
from concurrent.futures import wait
from itertools import islice

import pytest
import torch

from specs import EOS, PAD, ZooError
from tests import forks
from tests.zoo.conftest import run_search
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import SuppressedTokens
from zoo.generation.engine import Engine, resolve_workers
from zoo.generation.request_queue import Request
from zoo.generation.sampling import Sampling
from zoo.generation.translation import MIN_ROW_TOKENS, SearchInput, group_by_length, pad_sequences

BEAM = BeamSearch(2, 0.6)


def search(program, chunks, strategy, max_batch_tokens, workers=1):
    with Engine(program, workers=workers, max_batch_tokens=max_batch_tokens) as engine:
        yield from engine.search(chunks, strategy)


def sources(count, length=3):
    return [
        SearchInput(index, {"source": (*(4 + (index + i) % 5 for i in range(length)), EOS)}, 6)
        for index in range(count)
    ]


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
    assert group_by_length([], 100) == []
    assert pad_sequences([[5, 3], [3]], "cpu").tolist() == [[5, 3], [3, PAD]]


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
    found, order = [{} for _ in range(4)], random.Random(1)
    with Engine(toy(9, 1, 12), workers=workers, max_batch_tokens=300) as engine:

        def call(results, numbers):
            for number in numbers:
                results[number] = engine.submit(*REQUESTS[number]).result()

        threads = [
            threading.Thread(target=call, args=(each, order.sample(range(len(REQUESTS)), len(REQUESTS))))
            for each in found
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [[results[number] for number in range(len(REQUESTS))] for results in found] == [alone[0]] * 4


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
    assert program.read.count(12) == 2
    assert program.read[-1] == 2


@pytest.mark.parametrize("strategy", [BEAM, Sampling(2, 0.6, 1.0, 0, 1.0, 1)], ids=["shared", "of another kind"])
def test_a_short_request_does_not_wait_for_a_long_one(hooked, strategy):
    program, finished, short = hooked(9, 1, 50), {}, []

    def submit():
        short.append(engine.submit(sources(3), strategy))
        short[0].add_done_callback(lambda _: finished.setdefault("short", len(program.read)))

    program.hooks = {10: submit}
    with Engine(program, max_batch_tokens=160) as engine:
        long = engine.submit(LONG_TEXTS, BEAM)
        long.add_done_callback(lambda _: finished.setdefault("long", len(program.read)))
        long.result()
        short[0].result()
    assert finished["short"] < 10 + (finished["long"] - 10) / 5


def test_long_requests_of_different_kinds_progress_equally(hooked, monkeypatch):
    """All batches together stay within the size of a batch."""
    program, counts, ends = hooked(9, 1, 50, waits=True), [0, 0], []
    strategies = BEAM, Sampling(2, 0.6, 1.0, 0, 1.0, 1)
    states = weakref.WeakSet()

    def track(method):
        def tracked(*args):
            state = method(*args)
            states.add(state)
            running = [each.sources for each in list(states) if not each.used]
            assert sum(len(each) * max(map(len, each)) for each in running) <= 300
            return state

        return tracked

    program.encode, program.select, program.join = map(track, (program.encode, program.select, program.join))

    class Counted(Request):
        def __init__(self, strategy, deliver, *others):
            def count(*result):
                counts[strategies.index(strategy)] += 1
                if max(counts) == len(LONG_TEXTS):
                    ends.append(list(counts))
                deliver(*result)

            super().__init__(strategy, count, *others)

    monkeypatch.setattr("zoo.generation.engine.Request", Counted)
    with Engine(program, max_batch_tokens=300) as engine:
        futures = [engine.submit(LONG_TEXTS, strategy) for strategy in strategies]
        program.all_sent.set()
        for future in futures:
            future.result()
    assert min(ends[0]) > len(LONG_TEXTS) / 2


def test_a_cancelled_request_leaves_the_batch_at_once(hooked):
    program, futures = hooked(9, 1, 50, waits=True), []
    program.hooks[3] = lambda: futures[0].cancel()
    kept = [SearchInput(index, {"source": (5, 4 + index, EOS)}, 9) for index in range(4)]
    with Engine(program, max_batch_tokens=4096) as engine:
        for texts in ([SearchInput(i, {"source": (4, EOS)}, 500) for i in range(90)], kept):
            futures.append(engine.submit(texts, BeamSearch(2, 9.0, 2)))
        program.all_sent.set()
        results = futures[1].result()
        assert wait(futures, timeout=60).not_done == set()
    assert futures[0].cancelled()
    assert max(program.read[5:]) <= 2 * len(kept)
    with Engine(program, max_batch_tokens=4096) as engine:
        assert engine.submit(kept, BeamSearch(2, 9.0, 2)).result() == results


def test_waiting_sentences_of_a_cancelled_request_are_not_encoded(hooked):
    program, futures = hooked(9, 1, 50, waits=True), []
    program.hooks[1] = lambda: futures[0].cancel()
    with Engine(program, max_batch_tokens=32) as engine:
        futures += [engine.submit(texts, BEAM) for texts in (LONG_TEXTS, sources(2))]
        program.all_sent.set()
        futures[1].result()
    assert sum(rows for rows, _ in program.encoded) <= 2 + 2


class Faulty:
    """Mixin of a program that fails for the source token 8."""

    def row(self, source, prefix):
        if 8 in source and self.fault is not None and (prefix or isinstance(self.fault, float)):
            if isinstance(self.fault, Exception):
                raise self.fault
            return [self.fault] * self.vocabulary
        return super().row(source, prefix)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (ValueError("a fault"), "a fault"),
        *((number, "usable numbers") for number in (float("nan"), float("-inf"))),
        (MemoryError(), "enough memory"),
    ],
    ids=["error", "nan", "infinite", "memory"],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_ends_only_the_request_that_causes_it(toy, fault, message, workers):
    program = type("FaultyProgram", (Faulty, toy), {})(9, 1, 50)
    program.fault = None
    texts = [
        [SearchInput(i, {"source": (5, 4 + i % 3, EOS)}, 6) for i in range(start, start + 9)] for start in range(4)
    ]
    bad = [*texts[0], SearchInput(99, {"source": (8, EOS)}, 6)]
    with Engine(program, workers=workers, max_batch_tokens=4096) as engine:
        expected = [engine.submit(each, BEAM).result() for each in texts]
        program.fault = fault
        failing, *others = [engine.submit(each, BEAM) for each in (bad, *texts)]
        with pytest.raises((ValueError, ZooError), match=message):
            failing.result(timeout=100)
        assert [each.result(timeout=100) for each in others] == expected
        assert engine.submit(texts[0], BEAM).result() == expected[0]


# the life of an engine


def test_closing_the_engine_ends_all_requests(hooked):
    program, stopped = hooked(9, 1, 50, waits=True), threading.Event()
    engine = Engine(program, max_batch_tokens=60)
    program.hooks[5] = lambda: (engine.queue.stop(), stopped.set())
    futures = [engine.submit(LONG_TEXTS, strategy) for strategy in (BEAM, Sampling(2, 0.6, 1.0, 0, 1.0, 1))]
    program.all_sent.set()
    assert stopped.wait(timeout=100)
    engine.close()
    for future in futures:
        with pytest.raises(ZooError, match="the model is closed"):
            future.result(timeout=100)
    assert futures[0].exception() is not futures[1].exception(), "callers raise errors of their own in several threads"
    with pytest.raises(ZooError, match="the model is closed"):
        engine.submit(sources(3), BEAM)


def test_closing_the_engine_ends_a_request_that_does_not_fit_into_memory(hooked):
    program = hooked(9, 1, 50)
    engine = Engine(program, max_batch_tokens=4096)

    def run_out_of_memory():
        engine.queue.stop()
        raise torch.OutOfMemoryError

    program.hooks = {1: run_out_of_memory}
    with pytest.raises(ZooError, match="the model is closed"):
        engine.submit(LONG_TEXTS[:3], BEAM).result(timeout=100)
    engine.close()


def test_threads_end_when_nobody_uses_the_engine(toy):
    engine = Engine(toy(9, 1, 50), workers=2, max_batch_tokens=60)
    threads, future = engine.queue.threads, engine.submit(LONG_TEXTS, BEAM)
    engine = weakref.ref(engine)
    assert len(future.result()) == len(LONG_TEXTS), "the request keeps the engine alive"
    assert len(threads) == 2
    del future
    for thread in threads:
        thread.join(timeout=100)
    assert engine() is None


IMPORTS = """
import os, sys, threading, torch
from compiler.program import TopK
from specs import EOS
from zoo.generation.translation import SearchInput
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import Engine
"""
FORKED = """
class Ending:
    def encode(self, source):
        return None
    def top_k(self, state, tokens, count, allowed):
        values = torch.full((len(tokens), count), -1.0)
        return TopK(values, torch.full_like(values, EOS, dtype=torch.long), values[:, 0]), state

def translate():
    inputs = [SearchInput(i, {"source": (5, EOS)}, 6) for i in range(90)]
    return len(engine.submit(inputs, BeamSearch(1, 0.6)).result(timeout=60))

def hold_the_lock():
    with engine.queue.changed:
        held.set()
        released.wait()

engine, held, released = Engine(Ending(), workers=3, max_batch_tokens=20), threading.Event(), threading.Event()
before = translate()
threading.Thread(target=hold_the_lock).start()
held.wait()
child = os.fork()
if not child:
    found = translate()
    engine.close()
    os._exit(found)
released.set()
print(before, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), translate())
"""


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
def test_a_forked_process_searches_with_threads_of_its_own():
    """Although another thread held the lock of the queue at that moment."""
    done = forks.run(IMPORTS + FORKED)
    assert done.stdout.split() == ["90", "90", "90"], done.stderr


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


SLOW = """
class Slow:
    def encode(self, source):
        return source
    def top_k(self, state, tokens, count, allowed):
        running.set()
        for _ in range(50):
            torch.randn(200, 200) @ torch.randn(200, 200)
        raise ValueError

running = threading.Event()
sources = [SearchInput(i, {"source": (5, EOS)}, 6) for i in range(900)]
for work in sys.argv[1:]:
    child = os.fork()
    if not child:
        engine = Engine(Slow(), workers=17, max_batch_tokens=20)
        exec(work)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
WORKING = """
future = engine.submit(sources, BeamSearch(2, 0.6))
running.wait()
print("working", any(thread.name.startswith("search") for thread in threading.enumerate()))
"""
INTERRUPTED = """
results = engine.search([sources], BeamSearch(2, 0.6))
join = threading.Thread.join
threading.Thread.join = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
try:
    with engine:
        next(results)
except KeyboardInterrupt:
    threading.Thread.join = join
    print("working", any(thread.name.startswith("search") for thread in threading.enumerate()))
"""


@pytest.mark.integration
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with fork")
def test_python_waits_for_running_workers_at_exit():
    """It does so even if Ctrl-C interrupted the wait: unwinding a thread in C++ would abort the process."""
    command = [sys.executable, "-c", IMPORTS + SLOW, WORKING, INTERRUPTED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert (done.stdout.split(), done.stderr) == (["working", "True", "0"] * 2, "")


# memory

ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to ..."
TEXTS = [
    SearchInput(index, {"source": (*[4 + index % 5] * (1 + index % 7), EOS)}, 5, (), f"text {index}")
    for index in range(30)
]
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


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sentence_that_does_not_fit_alone_is_named(tight, workers):
    program = tight(1000, MemoryError(), [TEXTS[17].tokens])
    message = r"not enough memory to translate sentence 18 alone: 'text 17', length 5"
    with pytest.raises(ZooError, match=message) as caught:
        list(search(program, [TEXTS[10:20]], WIDE, 4096, workers))
    assert caught.value.exit_code == 1
    assert "smaller beam" in caught.value.hint


def test_other_errors_are_not_mistaken_for_a_lack_of_memory(tight):
    with pytest.raises(RuntimeError, match="a fault"):
        list(search(tight(2, RuntimeError("a fault")), [TEXTS], WIDE, 4096))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_callback_cannot_wait_for_another_search(hooked, workers):
    program, done, errors = hooked(9, 1, 50, waits=True), threading.Event(), []
    program.concurrent = True

    def callback(_):
        try:
            list(engine.search([sources(1)], BEAM))
        except ZooError as error:
            errors.append(error)
        done.set()

    with Engine(program, workers=workers, max_batch_tokens=160) as engine:
        future = engine.submit(sources(3), BEAM)
        future.add_done_callback(callback)
        program.all_sent.set()
        assert done.wait(30)
        assert "callback" in errors[0].problem
        assert "submit" in errors[0].hint
        assert len(list(engine.search([sources(2)], BEAM))) == 2

"""Threads that draw from one stock of sentences: all of them work, and all of them end."""

import os
import subprocess
import sys
import threading
import time

import pytest

from specs import EOS, ZooError
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.engine import RequestQueue, max_workers, resolve_workers, search


def sources(count, length=3):
    return [Source(index, (*(4 + (index + i) % 5 for i in range(length)), EOS), 6) for index in range(count)]


@pytest.fixture
def meeting(toy):
    class Meeting(toy):
        """Each thread waits in its first step until all of them have come so far."""

        def __init__(self, parties):
            super().__init__(9, 1, 50)
            self.barrier, self.met, self.lock = threading.Barrier(parties), set(), threading.Lock()

        def top_k(self, state, token, count, allowed=None):
            with self.lock:
                new = threading.get_ident() not in self.met
                self.met.add(threading.get_ident())
            if new:
                self.barrier.wait(timeout=60)
            return super().top_k(state, token, count, allowed)

    return Meeting


@pytest.fixture(autouse=True)
def alone():
    """No thread outlives its search."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@pytest.mark.parametrize("windows", [[40], [10, 10, 20], [1] * 40])
def test_every_worker_has_sentences_at_the_same_time(toy, meeting, windows):
    """Though the batch of one had room for all of them."""
    program, several = meeting(3), sources(40)
    starts = [sum(windows[:i]) for i in range(len(windows))]
    read = (several[start : start + size] for start, size in zip(starts, windows, strict=True))
    found = dict(search(program, read, BeamSearch(2, 0.6), 4096, 3))
    assert len(program.met) == 3
    assert found == dict(search(toy(9, 1, 50), [several], BeamSearch(2, 0.6), 4096))


def test_what_a_worker_raises_ends_all_and_is_raised_here(toy):
    class Failing(toy):
        def encode(self, source):
            if 8 in source[:, 0].tolist():
                raise ValueError("a fault of the program")
            return super().encode(source)

    with pytest.raises(ValueError, match="a fault of the program"):
        list(search(Failing(9, 1, 50), [sources(40)], BeamSearch(2, 0.6), 20, 3))


@pytest.mark.parametrize("workers", [1, 2])
def test_who_has_enough_ends_it(toy, workers):
    program = toy(9, 1, 50)
    found = search(program, [sources(500)], BeamSearch(2, 0.6), 20, workers)
    next(found)
    found.close()
    assert sum(rows for rows, _ in program.encoded) < 500


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_while_lines_are_read_ends_it(toy, workers):
    def windows():
        yield sources(40)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(search(toy(9, 1, 50), windows(), BeamSearch(2, 0.6), 60, workers))


def test_lines_are_read_by_the_caller_and_only_ahead_by_a_window(toy):
    read = []

    def windows():
        for start in range(0, 200, 10):
            read.append((start, threading.current_thread()))
            yield sources(200)[start : start + 10]

    ahead = []
    for number, _ in enumerate(search(toy(9, 1, 50), windows(), BeamSearch(2, 0.6), 30, 2)):
        ahead.append(10 * len(read) - number)
    assert {thread for _, thread in read} == {threading.main_thread()}
    assert max(ahead) <= 40  # a window and a half, and what two workers hold


def test_a_worker_that_has_nothing_to_do_waits_for_the_next_window(toy):
    def windows():
        for start in range(0, 12, 4):
            time.sleep(0.05)
            yield sources(12)[start : start + 4]

    assert len(list(search(toy(9, 1, 50), windows(), BeamSearch(2, 0.6), 4096, 2))) == 12


def test_as_many_workers_as_cores_where_a_program_can_have_them(toy):
    one, several = toy(), toy()
    several.concurrent = True
    assert resolve_workers(several, "auto") == len(os.sched_getaffinity(0))
    assert resolve_workers(several, 3) == 3
    assert resolve_workers(one, "auto") == resolve_workers(one, 1) == 1
    with pytest.raises(ZooError, match="`workers` is 2, and this backend takes one batch at a time") as caught:
        resolve_workers(one, 2)
    assert "native" in caught.value.hint


def test_a_worker_that_is_left_alone_tries_once_more(toy):
    """Two hold a sentence each, and both run out: the second is not to blame before it was tried by itself."""
    waiting, barrier, said = RequestQueue([sources(2)], 4, 2, wake=lambda: None), threading.Barrier(2), []
    waiting.read()

    def work():
        taken = waiting.take([])
        barrier.wait(timeout=60)
        said.append(waiting.take_back(taken, 4))
        if said[-1]:
            said.append(len(waiting.take([])))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, said)) == [0, 1, 1], "one ended, the other went on with one sentence"


def test_more_workers_than_a_machine_can_use_are_refused(toy):
    program = toy()
    program.concurrent = True
    assert resolve_workers(program, max_workers()) == max_workers()
    with pytest.raises(ZooError, match="`workers` is 100,000, and for"):
        resolve_workers(program, 100_000)


def test_where_the_system_starts_no_more_threads_those_that_run_end(toy, monkeypatch):
    start = threading.Thread.start

    def three(thread):
        if thread.name == "search 3":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", three)
    with pytest.raises(ZooError, match="of 17 workers only 3 could be started: can't start new thread"):
        list(search(toy(9, 1, 50), [sources(40)], BeamSearch(2, 0.6), 20, 17))


UNFINISHED = """
import threading, torch
from specs import EOS
from zoo.generation.beam_search import Beam
from zoo.generation.source import Source
from zoo.generation.engine import searched

class Slow:
    def encode(self, source):
        return source
    def top_k(self, state, token, count, allowed):
        for _ in range(50):
            torch.randn(200, 200) @ torch.randn(200, 200)
        raise ValueError

again = searched(Slow(), [[Source(i, (5, EOS), 6) for i in range(900)]], Beam(2, 0.6), 20, 17)
join = threading.Thread.join
threading.Thread.join = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
try:
    next(again)
except KeyboardInterrupt:
    threading.Thread.join = join
    print("interrupted", sum(thread.name.startswith("search") for thread in threading.enumerate()) > 0)
"""


def test_python_does_not_end_while_a_worker_is_at_work(tmp_path):
    """Though Ctrl-C came while they were waited for: one that is unwound in C++ ends all in an abort."""
    done = subprocess.run([sys.executable, "-c", UNFINISHED], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr, done.returncode) == (["interrupted", "True"], "", 0)

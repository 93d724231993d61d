"""The order in which requests are served, and the waiting time that the queue expects for a new one."""

from __future__ import annotations

import threading
from math import exp
from types import SimpleNamespace

import pytest

from zoo.generation import request_queue
from zoo.generation.batching import SearchInput
from zoo.generation.beam_search import BeamSearch
from zoo.generation.request_queue import CONGESTION_SECONDS, RECENT_SECONDS, Request, RequestQueue

TOKENS = 10


class Clock:
    """Clock that a test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(request_queue, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


@pytest.fixture
def queue() -> RequestQueue:
    """A queue with one worker, the calling thread, that takes one sentence at a time."""
    made = RequestQueue(max_batch_tokens=TOKENS)
    made.threads.append(threading.current_thread())
    return made


def add(queue: RequestQueue, requests: int) -> None:
    for _ in range(requests):
        request = Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None)
        queue.add(request, [SearchInput(0, {"source": (5,) * TOKENS}, max_length=20)])


def test_an_empty_queue_has_no_waiting_time(queue: RequestQueue, clock: Clock) -> None:
    assert queue.waiting_seconds == 0
    add(queue, 1)
    clock.now += 3
    queue.take({})
    clock.now += 3
    assert queue.waiting_seconds == 0


def test_the_waiting_time_is_that_of_the_oldest_request_before_the_speed_is_known(
    queue: RequestQueue, clock: Clock
) -> None:
    add(queue, 5)
    clock.now += 0.25
    add(queue, 5)
    assert queue.waiting_seconds == 0.25


def test_the_waiting_time_follows_from_the_speed_and_the_queued_tokens(queue: RequestQueue, clock: Clock) -> None:
    """Also after the speed has changed, and for a queue that has just been filled."""
    add(queue, 30)
    for seconds in (0.5, 2.0):
        for _ in range(10):
            clock.now += seconds
            queue.take({})
        add(queue, 10)
        assert queue.waiting_seconds == pytest.approx(30 * seconds, rel=0.1)


def test_the_speed_of_idle_workers_does_not_count(queue: RequestQueue, clock: Clock) -> None:
    for _ in range(100):
        add(queue, 1)
        queue.take({})
        clock.now += 10 * RECENT_SECONDS
    add(queue, 20)
    for _ in range(10):
        clock.now += 0.1
        queue.take({})
    assert queue.waiting_seconds == pytest.approx(1.0)


def test_a_new_request_does_not_wait_for_all_sentences_of_a_long_one(queue: RequestQueue, clock: Clock) -> None:
    request = Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None)
    queue.add(request, [SearchInput(index, {"source": (5,) * TOKENS}, max_length=20) for index in range(1000)])
    for _ in range(10):
        clock.now += 0.1
        queue.take({})
    add(queue, 1)
    assert queue.waiting_seconds == pytest.approx(0.2)


def simulate_overload(queue: RequestQueue, clock: Clock, waiting: int = 10) -> None:
    """Keep `waiting` requests in the queue for ten seconds. Ten requests per second arrive, and as many begin."""
    add(queue, waiting)
    for _ in range(100):
        clock.now += 0.1
        queue.take({})
        add(queue, 1)


def test_a_burst_may_use_most_of_the_waiting_time(queue: RequestQueue, clock: Clock) -> None:
    add(queue, 3)
    for _ in range(2):
        clock.now += 0.1
        queue.take({})
    waiting = 1
    while queue.has_room(2.0) and waiting < 100:
        add(queue, 1)
        waiting += 1
    # Each waits 0.1 seconds. The queue was congested for the last 0.1 seconds.
    assert waiting == int(20 * exp(-0.1 / CONGESTION_SECONDS)) + 1


def test_a_queue_is_not_congested_while_one_worker_has_room(queue: RequestQueue, clock: Clock) -> None:
    add(queue, 10)
    queue.take({})
    idle = threading.Thread()
    queue.threads.append(idle)
    add(queue, 10)
    queue.take({})
    clock.now += 10 * CONGESTION_SECONDS
    assert queue.congestion == pytest.approx(0.0, abs=0.01)
    queue.threads.remove(idle)
    queue.take({})
    clock.now += 10 * CONGESTION_SECONDS
    assert queue.congestion == pytest.approx(1.0, abs=0.01)


def test_the_waiting_time_shrinks_while_an_overload_lasts(queue: RequestQueue, clock: Clock) -> None:
    simulate_overload(queue, clock)
    assert queue.waiting_seconds == pytest.approx(1.0, rel=0.1)
    assert not queue.has_room(2.0)
    for _ in range(10):
        clock.now += 0.1
        queue.take({})
    assert queue.waiting_seconds == 0
    assert queue.has_room(2.0)
    clock.now += 10 * CONGESTION_SECONDS
    assert queue.congestion == pytest.approx(0.0, abs=0.01)


def test_requests_that_were_withdrawn_do_not_congest_the_queue(queue: RequestQueue, clock: Clock) -> None:
    requests = [Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None) for _ in range(5)]
    for request in requests:
        queue.add(request, [SearchInput(0, {"source": (5,) * TOKENS}, max_length=20)])
    queue.take({})
    for request in requests:
        queue.withdraw(request)
    clock.now += 10 * CONGESTION_SECONDS
    assert queue.congestion == pytest.approx(0.0, abs=0.01)


def test_a_long_request_that_has_begun_does_not_congest_the_queue(queue: RequestQueue, clock: Clock) -> None:
    request = Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None)
    queue.add(request, [SearchInput(index, {"source": (5,) * TOKENS}, max_length=20) for index in range(1000)])
    for _ in range(100):
        clock.now += 0.1
        queue.take({})
    assert queue.congestion == 0
    add(queue, 1)
    assert queue.has_room(0.5)


def test_a_request_with_several_sentences_advances_although_new_requests_keep_arriving(queue: RequestQueue) -> None:
    waiting, sentences = 20, 3
    request = Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None)
    queue.add(request, [SearchInput(index, {"source": (5,) * TOKENS}, max_length=20) for index in range(sentences)])
    add(queue, waiting)
    for _ in range(2 * sentences * waiting):
        queue.take({})
        add(queue, 1)
    assert not request.queue

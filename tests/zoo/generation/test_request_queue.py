"""The order in which requests are served, and the waiting time that the queue expects for a new one."""

from __future__ import annotations

import threading
from random import Random
from types import SimpleNamespace

import pytest

from zoo.generation.beam_search import BeamSearch
from zoo.generation.request_queue import RECENT_SECONDS, Request, RequestQueue
from zoo.generation.translation import SearchInput

TOKENS = 10


@pytest.fixture
def queue() -> RequestQueue:
    """A queue with one worker, the calling thread, that takes one sentence at a time."""
    made = RequestQueue(max_batch_tokens=TOKENS)
    made.threads.append(threading.current_thread())
    return made


def add(queue: RequestQueue, requests: int, sentences: int = 1) -> Request:
    """Add requests, and return the last of them."""
    for _ in range(requests):
        request = Request(BeamSearch(size=1, alpha=0.6), lambda *_: None, lambda _: None)
        queue.add(request, [SearchInput(index, {"source": (5,) * TOKENS}, max_length=20) for index in range(sentences)])
    return request


def take(queue: RequestQueue, clock: SimpleNamespace, seconds: float) -> None:
    """Take ten sentences, one each time this number of seconds has passed."""
    for _ in range(10):
        clock.now += seconds
        queue.take({})


def test_an_empty_queue_has_no_waiting_time(queue: RequestQueue, clock: SimpleNamespace) -> None:
    assert queue.waiting_seconds == 0
    add(queue, 10)
    take(queue, clock, 3)
    clock.now += 3
    assert queue.waiting_seconds == 0


def test_until_the_speed_is_known_the_oldest_request_gives_the_time(
    queue: RequestQueue, clock: SimpleNamespace
) -> None:
    add(queue, 5)
    clock.now += 0.25
    add(queue, 5)
    assert queue.waiting_seconds == 0.25


def test_the_waiting_time_follows_from_the_speed_and_the_queued_tokens(
    queue: RequestQueue, clock: SimpleNamespace
) -> None:
    """Also after the speed has changed, and for a queue that has just been filled."""
    add(queue, 30)
    for seconds in (0.5, 2.0):
        take(queue, clock, seconds)
        add(queue, 10)
        assert queue.waiting_seconds == pytest.approx(30 * seconds, rel=0.1)


def test_the_speed_of_idle_workers_does_not_count(queue: RequestQueue, clock: SimpleNamespace) -> None:
    for _ in range(100):
        add(queue, 1)
        queue.take({})
        clock.now += 10 * RECENT_SECONDS
    add(queue, 20)
    take(queue, clock, 0.1)
    assert queue.waiting_seconds == pytest.approx(1.0)


def test_a_new_request_does_not_wait_for_all_sentences_of_a_long_one(
    queue: RequestQueue, clock: SimpleNamespace
) -> None:
    add(queue, 1, sentences=1000)
    take(queue, clock, 0.1)
    new = add(queue, 1)
    assert queue.waiting_seconds == pytest.approx(0.2)
    assert new in [request for _ in range(2) for request, _ in queue.take({})], "requests are served in turn"


@pytest.mark.parametrize(("load", "limit"), [(0.5, 0.5), (2.0, 0.5), (2.0, 2.0)])
def test_a_limit_of_the_time_is_kept_and_keeps_the_worker_busy(
    queue: RequestQueue, clock: SimpleNamespace, load: float, limit: float
) -> None:
    """Ten sentences per second begin, and `load` times as many requests arrive at random."""
    draw, added, begun, idle = Random(1), list[float](), list[float](), 0
    arrival = start = clock.now
    while clock.now < start + 100:
        while arrival <= clock.now:
            if queue.waiting_seconds <= limit:
                add(queue, 1)
                added.append(arrival)
            arrival += draw.expovariate(10 * load)
        if len(begun) < len(added):
            queue.take({})
            begun.append(clock.now)
        else:
            idle += 1
        clock.now += 0.1
    waited = [end - begin for begin, end in zip(added, begun, strict=False)]
    assert max(waited) < limit + 0.3, "an estimate can be wrong by the sentence that runs and the one that arrives"
    assert load < 1 or idle < 10


def test_a_request_with_several_sentences_advances_although_new_requests_keep_arriving(queue: RequestQueue) -> None:
    request = add(queue, 1, sentences=3)
    add(queue, 20)
    for _ in range(2 * 3 * 20):
        queue.take({})
        add(queue, 1)
    assert not request.queue

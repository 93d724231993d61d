"""What is made ahead: in order, no further ahead than allowed, with its errors, and with an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from zoo.data.prefetch import prefetch, run_in_thread


def _threads() -> int:
    return sum(thread.name == "ahead" for thread in threading.enumerate())


def test_items_come_in_order_and_end() -> None:
    assert list(prefetch(iter(range(50)))) == list(range(50))
    assert _threads() == 0


def test_no_more_are_made_than_allowed() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    waiting = prefetch(items(), most=3)
    assert next(waiting) == 0
    assert _threads() == 1
    for _ in range(100):
        if len(made) == 5:
            break
        time.sleep(0.01)
    time.sleep(0.1)
    assert made == [0, 1, 2, 3, 4]  # one taken, three waiting, one in hand
    waiting.close()
    assert _threads() == 0


def test_an_error_is_raised_where_it_would_have_been() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("torn")

    waiting = prefetch(items())
    assert next(waiting) == 1
    with pytest.raises(ValueError, match="torn"):
        next(waiting)
    assert _threads() == 0


def test_what_is_done_aside_is_waited_for() -> None:
    begin = threading.Event()

    def work() -> int:
        return 7 if begin.wait(10) else 0

    result = run_in_thread(work)
    begin.set()
    assert result.result() == result.result() == 7


def test_what_is_raised_aside_is_raised_where_it_is_asked_for() -> None:
    def work() -> int:
        raise LookupError("nothing there")

    result = run_in_thread(work)
    with pytest.raises(LookupError, match="nothing there"):
        result.result()

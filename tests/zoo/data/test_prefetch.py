"""Items that a background thread computes: in order, bounded, with their errors, and without leftover threads."""

import threading
import time

import pytest

from zoo.data.prefetch import prefetch


@pytest.fixture
def prefetch_threads():
    """Return a function that counts the threads since the start of the test."""
    before = threading.enumerate()
    return lambda: sum(thread.name.startswith("prefetch") for thread in threading.enumerate() if thread not in before)


def test_the_number_of_prefetched_items_is_bounded(prefetch_threads):
    computed = []

    def items():
        for number in range(100):
            computed.append(number)
            yield number

    prefetched = prefetch(items(), max_items=3)
    assert (next(prefetched), prefetch_threads()) == (0, 1)
    while len(computed) < 4:
        time.sleep(0.01)
    time.sleep(0.1)
    assert computed == [0, 1, 2, 3]  # one consumed, three in advance
    prefetched.close()
    assert prefetch_threads() == 0


def test_an_error_is_raised_after_the_items_before_it(prefetch_threads):
    def items():
        yield 1
        raise ValueError("broken")

    prefetched = prefetch(items())
    assert next(prefetched) == 1
    with pytest.raises(ValueError, match="broken"):
        next(prefetched)
    assert prefetch_threads() == 0

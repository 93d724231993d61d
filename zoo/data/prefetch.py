"""Functions that run work in background threads, such as computing the next items of an iterator."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import Any, TypeVar

Item = TypeVar("Item")


def prefetch(items: Iterator[Item], max_items: int = 2) -> Generator[Item, None, None]:
    """Run an iterator in a background thread, and yield its items.

    If the iterator raises an exception, the items before it are yielded first, and then the exception is raised. The
    thread ends when the returned generator is exhausted, closed or garbage-collected.

    Args:
        items: The iterator.
        max_items: Maximum number of items that are computed in advance.
    """
    end: Any = object()
    thread = ThreadPoolExecutor(1, "prefetch")
    computed = deque(thread.submit(next, items, end) for _ in range(max_items))
    try:
        while (item := computed.popleft().result()) is not end:
            computed.append(thread.submit(next, items, end))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


def run_in_thread(work: Callable[[], Item]) -> Future[Item]:
    """Run a function in a daemon thread, so that the process can exit before the function is done.

    Returns:
        Future of the function's result or exception.
    """
    future: Future[Item] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, name="run_in_thread", daemon=True).start()
    return future

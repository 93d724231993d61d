"""Functions that compute in background threads, such as the next items of an iterator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar, cast

Item = TypeVar("Item")

_POLL_SECONDS = 0.05  # between two checks whether the consumer still exists


def prefetch(items: Iterator[Item], max_items: int = 2) -> Generator[Item, None, None]:
    """Run an iterator in a background thread, and yield its items.

    If the iterator raises an exception, the items before it are yielded first, and then the exception is raised. The
    thread ends when the returned generator is exhausted, closed or garbage-collected.

    Args:
        items: The iterator.
        max_items: Maximum number of items that are computed in advance.
    """
    queue: Queue[tuple[Item | None, BaseException | None]] = Queue(max_items)
    stopped = Event()

    def put(item: Item | None, error: BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                queue.put((item, error), timeout=_POLL_SECONDS)
                return True
            except Full:
                continue
        return False

    def produce() -> None:
        try:
            for item in items:
                if not put(item, None):
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = Thread(target=produce, name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            item, error = queue.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield cast(Item, item)
    finally:
        stopped.set()
        thread.join()


def run_in_thread(work: Callable[[], Item]) -> Future[Item]:
    """Start a function in a daemon thread, so that the process can exit before the function is done.

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

"""What is done while something else is computed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import Full, Queue
from threading import Event, Thread
from typing import TypeVar, cast

Item = TypeVar("Item")

_PATIENCE = 0.05  # seconds between two looks whether anybody still waits


def ahead(items: Iterator[Item], most: int = 2) -> Generator[Item, None, None]:
    """The items, at most `most` of them made in advance by a thread of their own; what it raises is raised here.

    The thread ends with the iterator that is returned: when that is exhausted, closed or dropped.
    """
    queue: Queue[tuple[Item | None, BaseException | None]] = Queue(most)
    over = Event()

    def put(item: Item | None, error: BaseException | None) -> bool:
        while not over.is_set():
            try:
                queue.put((item, error), timeout=_PATIENCE)
                return True
            except Full:
                continue
        return False

    def make() -> None:
        try:
            for item in items:
                if not put(item, None):
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = Thread(target=make, name="ahead", daemon=True)
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
        over.set()
        thread.join()


def aside(work: Callable[[], Item]) -> Future[Item]:
    """Starts the work in a thread of its own, which does not keep the process alive; what comes of it."""
    outcome: Future[Item] = Future()

    def do() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    Thread(target=do, name="aside", daemon=True).start()
    return outcome

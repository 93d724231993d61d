"""Sentences that wait for room in a batch: the longest first, a window of texts after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from threading import Condition, get_ident

from zoo.generation.groups import room
from zoo.generation.source import Source, too_long


class Stopped(Exception):
    """Nothing that is still being translated is wanted any more."""


class Waiting:
    """Shared by all workers, each of them a thread; one thread owns the windows and reads them.

    A batch has room for as many sentences as fit `tokens`, padding counted. A worker takes no more once it has its
    share of all the tokens that are known, so that none is idle while another has everything.
    """

    def __init__(
        self, windows: Iterable[Sequence[Source]], tokens: int, workers: int = 1, wake: Callable[[], None] | None = None
    ) -> None:
        """With one worker this reads by itself; else `wake` is called where a window ought to be read."""
        self.tokens = tokens
        self._windows, self._workers, self._wake = iter(windows), workers, wake
        self._stock: deque[Source] = deque()
        self._low = 0
        self._ended = self._stopped = self._woken = False
        self._held: dict[int, int] = {}
        self._lone: set[int] = set()  # workers that had no other beside them when they last took sentences
        self._changed = Condition()

    @property
    def wanting(self) -> bool:
        """Whether another window ought to be read."""
        return not self._ended and len(self._stock) <= self._low

    def read(self) -> None:
        """Adds a window; only for the thread that owns them."""
        window = next(self._windows, None)
        with self._changed:
            if window is None:
                self._ended = True
            else:
                # Prefixes of one length start together.
                self._stock += sorted(window, key=lambda s: (-len(s.prefix), -len(s.tokens), s.index))
                self._low = len(window) // 2 if self._wake else 0
            self._woken = False
            self._changed.notify_all()

    def take(self, held: Sequence[Source]) -> list[Source]:
        """Who may join the worker that holds these, if a quarter of its room is free; prefixes are of one length.

        Waits where the worker has nothing to do. Nothing for nothing: the worker is no longer needed. Raises Stopped.
        """
        if held and not self._stopped and ((self._ended and not self._stock) or not self._has_room(held)):
            return []
        with self._changed:
            self._held[get_ident()] = sum(len(source.tokens) for source in held)
            if self._workers == 1:
                self._lone.add(get_ident())
            while True:
                if self._stopped:
                    raise Stopped
                if self._wake is None:
                    while self.wanting:
                        self.read()
                elif self.wanting and not self._woken:
                    self._woken = True
                    self._wake()
                if self._stock or held:
                    return self._taken(held)
                if self._ended:
                    self._retire()
                    return []
                self._changed.wait()

    def take_back(self, sources: Sequence[Source], used: int) -> bool:
        """Sentences whose batch, of `used` tokens, did not fit the memory. Whether this worker is still needed.

        The room becomes half of that. Where a single sentence does not fit beside other workers, this one ends,
        unless it is by then the last. Raises ZooError where it does not fit alone.
        """
        with self._changed:
            alone = len(sources) == 1
            if alone and get_ident() in self._lone:
                raise too_long(sources[0])
            self.tokens = min(self.tokens, max(1, used // 2))
            self._stock.extendleft(reversed(sources))
            needed = not alone or self._workers == 1
            if not needed:
                self._retire()
            self._held.pop(get_ident(), None)
            self._changed.notify_all()
            return needed

    def stop(self) -> None:
        """Every worker ends at its next step."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _retire(self) -> None:
        self._workers -= 1
        self._held.pop(get_ident(), None)

    def _has_room(self, held: Sequence[Source]) -> bool:
        size = room(max(len(source.tokens) for source in held), self.tokens)
        return size - len(held) >= max(1, size // 4)

    def _taken(self, held: Sequence[Source]) -> list[Source]:
        mine = self._held[get_ident()]
        share = -(-(sum(self._held.values()) + sum(len(s.tokens) for s in self._stock)) // max(1, self._workers))
        longest = max((len(source.tokens) for source in held), default=0)
        taken: list[Source] = []
        while self._stock:
            source = self._stock[0]
            longest, rows = max(longest, len(source.tokens)), len(held) + len(taken)
            if rows and (rows >= room(longest, self.tokens) or mine >= share):
                break
            if taken and len(source.prefix) != len(taken[0].prefix):
                break
            mine += len(source.tokens)
            taken.append(self._stock.popleft())
        self._held[get_ident()] = mine
        return taken

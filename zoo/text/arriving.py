"""Lines as they arrive: what has come is known from what is still waited for."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from select import select
from typing import BinaryIO, Self, TypeVar

from zoo.text.lines import decoded_lines

PAUSE = 0.02
"""Seconds without a line after which the input pauses: whoever writes without waiting is quicker."""
_CHUNK = 1 << 16

Item = TypeVar("Item")


class Arriving:
    """The lines of a stream that nobody else reads. Raises ZooError as `decoded_lines` does, with this name."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream, self._descriptor = stream, _descriptor(stream)  # which lasts as long as the stream
        self._whole: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._ended = False
        self._lines = decoded_lines(stream if self._descriptor is None else self._received(), name)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return next(self._lines)

    def paused(self) -> bool:
        """Whether the next line is not here, and does not come within PAUSE; the end is no pause."""
        while self._descriptor is not None and not (self._whole or self._ended):
            if not select([self._descriptor], [], [], PAUSE)[0]:
                return True
            self._receive(self._descriptor)
        return False

    def _received(self) -> Iterator[bytes]:
        assert self._descriptor is not None
        while True:
            while self._whole:
                yield self._whole.popleft()
            if self._ended:
                return
            self._receive(self._descriptor)

    def _receive(self, descriptor: int) -> None:
        select([descriptor], [], [])  # whoever gave it to us may have it answer at once that nothing is there
        first, *others = os.read(descriptor, _CHUNK).split(b"\n")
        self._begun.append(first)
        self._ended = not first and not others
        for other in others:
            self._whole.append(b"".join(self._begun) + b"\n")
            self._begun = [other]
        if self._ended and (last := b"".join(self._begun)):
            self._whole.append(last)


def windows(items: Iterator[Item], most: int, paused: Callable[[], bool]) -> Iterator[list[Item]]:
    """Up to so many at a time: the first is waited for, the others are those that have come.

    An error is raised behind what came before it.
    """
    while True:
        several: list[Item] = []
        try:
            for item in items:
                several.append(item)
                if len(several) == most or paused():
                    break
        except Exception:
            if several:
                yield several
            raise
        if not several:
            return
        yield several


def never() -> bool:
    """Of what does not pause."""
    return False


def _descriptor(stream: BinaryIO) -> int | None:
    """None for what is no file of the system: that cannot be asked."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None

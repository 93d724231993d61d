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
        self._descriptor = _descriptor(stream)
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
        first, *others = os.read(descriptor, _CHUNK).split(b"\n")
        self._begun.append(first)
        self._ended = not first and not others
        for other in others:
            self._whole.append(b"".join(self._begun) + b"\n")
            self._begun = [other]
        if self._ended and (last := b"".join(self._begun)):
            self._whole.append(last)


def together(items: Iterator[Item], most: int, paused: Callable[[], bool]) -> list[Item]:
    """Up to so many: the first is waited for, the others are those that have come. Nothing at the end."""
    several: list[Item] = []
    for item in items:
        several.append(item)
        if len(several) == most or paused():
            break
    return several


def never() -> bool:
    """Of what does not pause."""
    return False


def _descriptor(stream: BinaryIO) -> int | None:
    """None for what is no file of the system: that cannot be asked."""
    try:
        return stream.fileno()
    except (AttributeError, OSError, ValueError):
        return None

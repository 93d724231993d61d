"""Chance, the same in all versions of Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices from one stream of random numbers.

    Python promises the same stream from a seed in all its versions for `random()` alone; so all is drawn by it.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed).random

    def chance(self, probability: float) -> bool:
        """True with that probability."""
        return self._random() < probability

    def one_of(self, choices: Sequence[T]) -> T:
        """One of them, all as likely."""
        return choices[int(self._random() * len(choices))]

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        """One of them, as likely as its weight says."""
        at = self._random() * sum([weight for weight, _ in choices])
        for weight, choice in choices:
            at -= weight
            if at < 0:
                return choice
        return choices[-1][1]

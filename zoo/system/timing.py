"""Time functions, once or repeatedly."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of the results of several rounds."""

    median: float
    min: float
    max: float


def spread(values: Iterable[float]) -> Spread:
    """Return median, minimum and maximum of the values. There must be at least one."""
    results = list(values)
    return Spread(statistics.median(results), min(results), max(results))


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function. Return the seconds that it took, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def repeat(function: Callable[[], object], seconds: float, *, rounds: int = 1) -> list[float]:
    """Call a function repeatedly. Return the seconds that each call took.

    Args:
        function: The function.
        seconds: Total time of the calls after which no further call begins.
        rounds: Minimum number of calls, however long they take.
    """
    times: list[float] = []
    while len(times) < rounds or sum(times) < seconds:
        times.append(timed(function)[0])
    return times

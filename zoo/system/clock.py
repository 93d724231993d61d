"""What a measurement consists of: rounds, their median, and the machine that they ran on."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch

from compiler.host import cores
from zoo.system.called import processor

Result = TypeVar("Result")


class Spread(NamedTuple):
    """The median of some rounds, and the least and the greatest of them."""

    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Host:
    """What it was measured on. `threads` are torch's own."""

    processor: str
    cores: int
    threads: int
    torch: str


def spread(values: Iterable[float]) -> Spread:
    """Of at least one value."""
    every = list(values)
    return Spread(statistics.median(every), min(every), max(every))


def host() -> Host:
    """This machine and this process."""
    return Host(
        processor(),
        cores(),
        torch.get_num_threads(),
        torch.__version__,
    )


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds that it takes, and what it gives."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result

"""Names of processors and GPUs, measurements of their speed, and timing of functions."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import torch

from compiler.host import cores, cpuinfo, fast_float32

Result = TypeVar("Result")
_MIN_SECONDS = 0.2
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of the results of several rounds."""

    median: float
    min: float
    max: float


def spread(values: Iterable[float]) -> Spread:
    """Return the median, minimum and maximum of the values. There must be at least one value."""
    results = list(values)
    return Spread(statistics.median(results), min(results), max(results))


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function. Return its running time in seconds, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def repeat(function: Callable[[], object], seconds: float, *, rounds: int = 1) -> list[float]:
    """Call a function repeatedly. Return the time of each call in seconds.

    Args:
        function: Function to time.
        seconds: Minimum total time of all calls, in seconds.
        rounds: Minimum number of calls, however long they take.
    """
    times: list[float] = []
    while len(times) < rounds or sum(times) < seconds:
        times.append(timed(function)[0])
    return times


@dataclass(frozen=True)
class Host:
    """Machine on which a measurement was made. `threads` is the number of threads that torch uses."""

    processor: str
    cores: int
    threads: int
    torch: str


def host() -> Host:
    """Describe this machine: the processor, the number of cores, the torch version and the number of torch threads."""
    return Host(processor_name(), cores(), torch.get_num_threads(), torch.__version__)


def device_name(device: str) -> str:
    """Return the name of a GPU. For the CPU, return the processor's name and the number of threads that torch uses."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(torch.device(device))
    threads = torch.get_num_threads()
    return f"{processor_name()}, {threads} thread{'s' * (threads > 1)}"


def processor_name() -> str:
    """Return the model name of the processor, or its architecture if the system reports no name."""
    return cpuinfo().get("model name") or platform.processor() or platform.machine()


@cache
def matrix_peak(device: torch.device, precision: str) -> float:
    """Measure how fast a device multiplies large square matrices.

    Measure at least three products, for at least 0.2 seconds in total.

    Args:
        device: Device to measure.
        precision: "float32" or "bfloat16".

    Returns:
        The highest speed in FLOPs per second.
    """
    dtype = getattr(torch, precision)
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)).to(device, dtype) for i in range(2))
    out = torch.empty_like(a)

    def multiply() -> None:
        torch.mm(a, b, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    with fast_float32():
        return 2 * size**3 / min(repeat(multiply, _MIN_SECONDS, rounds=3))


def bfloat16_speed() -> float:
    """Return this processor's bfloat16 speed relative to float32. A value below 1 means that bfloat16 is emulated."""
    return matrix_peak(_CPU, "bfloat16") / matrix_peak(_CPU, "float32")

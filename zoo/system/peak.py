"""What a device reaches at its best: in a matrix product, by which utilisation is told, and in a copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from compiler.switches import fast_float32

_SECONDS, _COPIED = 0.2, 2**20


@dataclass(frozen=True)
class Pace:
    """Of a device: FLOPs a second of a large matrix product, bytes a second that a copy reads and writes."""

    flops: float
    bytes: float


@cache
def matrix_peak(device: torch.device, precision: str) -> float:
    """FLOPs a second of a large square product in float32 or bfloat16: the best of a fifth of a second."""
    dtype = getattr(torch, precision)
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)).to(device, dtype) for i in range(2))
    out = torch.empty_like(a)
    with fast_float32():
        return 2 * size**3 / _quickest(lambda: torch.mm(a, b, out=out), device, 3)


@cache
def pace(device: torch.device, precision: str) -> Pace:
    """Measured in a third of a second, once in a process."""
    return Pace(matrix_peak(device, precision), _copied(device))


def _copied(device: torch.device) -> float:
    """From many buffers, as the pages of one may lie luckily; together they are more than most caches."""
    sources, targets = ([torch.full((_COPIED,), 1.0, device=device) for _ in range(16)] for _ in range(2))
    each = list(zip(sources, targets, strict=True))
    best = _quickest(lambda: [target.copy_(source) for source, target in each], device, 1)
    return 2 * sum(source.nbytes for source in sources) / best


def _quickest(work: Callable[[], object], device: torch.device, rounds: int) -> float:
    """The seconds of the quickest of so many rounds, or of those of a fifth of a second where they are more."""
    best, started, done = float("inf"), time.perf_counter(), 0
    while done < rounds or time.perf_counter() - started < _SECONDS:
        begun = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best, done = min(best, time.perf_counter() - begun), done + 1
    return best

"""What a matrix product reaches on this device: the measure that utilisation is told by."""

from __future__ import annotations

import time
from functools import cache

import torch

from compiler.matrix_library import use_fast_float32

_SECONDS = 0.2


@cache
def matrix_peak(device: torch.device, precision: str) -> float:
    """FLOPs a second of a large square product in float32 or bfloat16: the best of a fifth of a second."""
    use_fast_float32()
    dtype = getattr(torch, precision)
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)).to(device, dtype) for i in range(2))
    out = torch.empty_like(a)
    best, started, rounds = float("inf"), time.perf_counter(), 0
    while rounds < 3 or time.perf_counter() - started < _SECONDS:
        begun = time.perf_counter()
        torch.mm(a, b, out=out)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        best, rounds = min(best, time.perf_counter() - begun), rounds + 1
    return 2 * size**3 / best

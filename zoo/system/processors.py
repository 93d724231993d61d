"""Names of processors and GPUs, and measurements of their speed."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from compiler.host import cores, cpuinfo, fast_float32
from zoo.system.timing import repeat

_MIN_SECONDS = 0.2
_GPU_COPY_ELEMENTS = 2**25
"""Number of elements of the buffer that a GPU copies. The buffer exceeds the caches of all GPUs so far."""
_GPU_COPIES = 8
"""Number of copies that a GPU makes before the host waits for it."""
_COPY_ELEMENTS = 2**20
"""Number of elements of each buffer that is copied to measure the memory bandwidth."""


@dataclass(frozen=True)
class Host:
    """Machine on which a measurement was made. `threads` is the number of threads that torch uses."""

    processor: str
    cores: int
    threads: int
    torch: str


@dataclass(frozen=True)
class DeviceSpeed:
    """Measured speed of a device in matrix products and in memory copies."""

    flops: float
    """FLOPs per second of a large matrix product."""
    bytes: float
    """Bytes per second that a copy reads and writes."""


def host() -> Host:
    """Return the processor, cores, torch version and number of torch threads of this process."""
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

    Args:
        device: The device.
        precision: "float32" or "bfloat16".

    Returns:
        FLOPs per second of the fastest product within a fifth of a second.
    """
    dtype = getattr(torch, precision)
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(i)).to(device, dtype) for i in range(2))
    out = torch.empty_like(a)
    with fast_float32():
        return 2 * size**3 / _fastest(lambda: torch.mm(a, b, out=out), device, 3)


@cache
def device_speed(device: torch.device, precision: str) -> DeviceSpeed:
    """Measure the speed of a device for a third of a second. Later calls in this process return the same result."""
    return DeviceSpeed(matrix_peak(device, precision), _copy_bandwidth(device))


def _copy_bandwidth(device: torch.device) -> float:
    """Return the memory bandwidth of copies, in bytes read and written per second.

    On a CPU, the copies use 16 buffers, because the result of a single buffer depends on where its pages are placed. On
    a GPU, they use a single large buffer, because the host launches copies of small buffers more slowly than the GPU
    runs them. In both cases, the buffers exceed most caches.
    """
    count, elements, copies = (1, _GPU_COPY_ELEMENTS, _GPU_COPIES) if device.type == "cuda" else (16, _COPY_ELEMENTS, 1)
    sources, targets = ([torch.full((elements,), 1.0, device=device) for _ in range(count)] for _ in range(2))
    pairs = copies * list(zip(sources, targets, strict=True))
    best = _fastest(lambda: [target.copy_(source) for source, target in pairs], device, 1)
    return 2 * sum(source.nbytes for source, _ in pairs) / best


def _fastest(work: Callable[[], object], device: torch.device, rounds: int) -> float:
    """Return the seconds of the fastest round. Measure for a fifth of a second and at least `rounds` rounds."""

    def wait_for_work() -> None:
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    return min(repeat(wait_for_work, _MIN_SECONDS, rounds=rounds))

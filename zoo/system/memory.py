"""Memory of this machine and its GPUs, and detection of out-of-memory errors."""

from __future__ import annotations

import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from compiler.lazy import torch
from specs import ZooError
from zoo.report import size

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Memory limit of a container, in bytes, or "max"."""
_PROCESS_SIZES = Path("/proc/self/statm")
_DATA_COLUMN = 5  # the pages that RLIMIT_DATA limits, and the stack
MEMORY_ERRORS = (MemoryError, RuntimeError)
"""Types of exceptions that torch raises if memory is exhausted. A RuntimeError can have other causes, so check it with
`is_out_of_memory`."""

_MESSAGES = ("not enough memory", "can't allocate memory", "out of memory")


@cache
def machine_memory() -> int:
    """Return the memory of this machine, or the memory limit of the container if it is lower, in bytes.

    The value is read once per process, because `zoo serve` needs it for each request.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    return memory


def require_memory(needed: float, available: int, purpose: str, hint: str, owner: str = "this machine") -> None:
    """Check that there is enough memory for a task, before the memory is allocated.

    Args:
        needed: Memory that the task needs, in bytes.
        available: Memory that the device has, in bytes.
        purpose: The task, as the beginning of the error message, such as "training `base`".
        hint: What the user can do if there is too little memory.
        owner: The device to name in the error message: "this machine" or "the GPU".

    Raises:
        ZooError: `needed` is more than `available`.
    """
    if needed > available:
        raise ZooError(f"{purpose} needs {size(needed)} of memory, but {owner} has {size(available)}", hint=hint)


@contextmanager
def memory_limit(allowed: int) -> Iterator[None]:
    """Limit how much additional memory this process may allocate in the `with` block (only on Linux).

    Allocations beyond the limit fail: Python raises MemoryError, and torch raises an exception that
    `is_out_of_memory` recognises.

    Args:
        allowed: The additional memory, in bytes.
    """
    if not _PROCESS_SIZES.exists():
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_DATA)
    pages = int(_PROCESS_SIZES.read_text(encoding="utf-8").split()[_DATA_COLUMN])
    limit = pages * resource.getpagesize() + allowed
    finite = [each for each in before if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([limit, *finite]), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that memory is exhausted."""
    if not isinstance(error, RuntimeError):
        return isinstance(error, MemoryError)
    return isinstance(error, torch.OutOfMemoryError) or any(message in str(error).lower() for message in _MESSAGES)


def available_memory(device: torch.device | str) -> int:
    """Return the memory that this process may use on a device, in bytes.

    Processes that torchrun started on one machine share its memory equally. Each of these processes has its own GPU.
    """
    if _is_gpu(device):
        return int(torch.cuda.get_device_properties(device).total_memory)
    return machine_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def require_device_memory(needed: int, device: torch.device | str, purpose: str, hint: str) -> None:
    """Check that a device has `needed` bytes of memory.

    Raises:
        ZooError: The device has less memory. The message begins with `purpose`, such as "training `base`".
    """
    owner = "the GPU" if _is_gpu(device) else "this machine"
    require_memory(needed, available_memory(device), purpose, hint, owner)


def peak_memory(device: torch.device | str) -> int:
    """Return the largest amount of memory that this process has used on a device so far, in bytes."""
    if _is_gpu(device):
        return torch.cuda.max_memory_allocated(device)
    with suppress(OSError, AttributeError):  # /proc first, because `getrusage` may report the parent's larger peak
        return 1024 * int(_PEAK_LINE.search(_STATUS.read_text(encoding="utf-8"))[1])  # type: ignore[index]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


_STATUS = Path("/proc/self/status")
_PEAK_LINE = re.compile(r"VmHWM:\s*(\d+) kB")


def _is_gpu(device: torch.device | str) -> bool:
    return str(device).startswith("cuda")

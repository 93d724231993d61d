"""Memory of this machine. This module does not import torch."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from specs import ZooError
from zoo.report import size

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Memory limit of a container, in bytes, or "max"."""
_PROCESS_SIZES = Path("/proc/self/statm")
_DATA_COLUMN = 5  # the pages that RLIMIT_DATA limits, and the stack


@cache
def machine_memory() -> int:
    """Return the memory of this machine, or the memory limit of the container if it is lower, in bytes.

    It is read once per process, because `zoo serve` needs it for each request.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    return memory


def require_memory(needed: float, available: int, purpose: str, hint: str, owner: str = "this machine") -> None:
    """Check that there is enough memory for a task, before any of it is allocated.

    Args:
        needed: Memory that the task needs, in bytes.
        available: Memory that `owner` has, in bytes.
        purpose: The task, as the beginning of the error message: "to train `base`".
        hint: What the user can do if there is too little memory.
        owner: The device with the memory, for the error message: "this machine" or "the GPU".

    Raises:
        ZooError: `needed` is more than `available`.
    """
    if needed > available:
        raise ZooError(f"{purpose} needs {size(needed)} of memory, and {owner} has {size(available)}", hint=hint)


@contextmanager
def memory_limit(allowed: int) -> Iterator[None]:
    """Limit how much memory this process may additionally allocate in the body of `with`. Works only on Linux.

    Allocations beyond the limit fail: Python raises MemoryError, and torch an exception that `is_out_of_memory`
    recognises.

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

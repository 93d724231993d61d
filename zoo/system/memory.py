"""Memory of this machine. This module does not load torch."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from specs import ZooError
from zoo.report import size

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
"""Memory limit of a container, in bytes, or "max"."""


def machine_memory() -> int:
    """Return the memory of the machine, or of the container if that has less, in bytes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        memory = min(memory, int(_CGROUP_LIMIT.read_text()))
    return memory


def require_memory(needed: float, available: int, purpose: str, hint: str, owner: str = "this machine") -> None:
    """Check that there is enough memory for a purpose, before any of it is allocated.

    Args:
        needed: Memory that the purpose needs, in bytes.
        available: Memory that `owner` has, in bytes.
        purpose: The subject of the error message, such as "to train `base`".
        hint: What the user can do about it.
        owner: What has the memory: "this machine" or "the GPU".

    Raises:
        ZooError: `needed` is more than `available`.
    """
    if needed > available:
        raise ZooError(f"{purpose} needs {size(needed)} of memory, and {owner} has {size(available)}", hint=hint)

"""What is built into this machine (no torch is loaded)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from specs import ZooError
from zoo.report import size

_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container


def memory() -> int:
    """Bytes of memory that all processes of the machine, or of the container, have together."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        machine = min(machine, int(_LIMIT.read_text()))
    return machine


def require(needed: float, there: int, what: str, hint: str, whose: str = "this machine") -> None:
    """Raises ZooError where the bytes that `what` needs are more than there are, before any of them is taken."""
    if needed > there:
        raise ZooError(f"{what} needs {size(needed)} of memory, and {whose} has {size(there)}", hint=hint)

"""How much memory there is, how much was used, and what a lack of it looks like, whoever lacks it."""

from __future__ import annotations

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

from compiler.switches import tune_process_memory
from zoo.system import installed

FAILURES = (MemoryError, RuntimeError)
"""What may be raised; not every RuntimeError is one of memory (`is_short`)."""

_SAID = ("not enough memory", "can't allocate memory", "out of memory")


def is_short(error: BaseException) -> bool:
    """Whether there was too little memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error).lower() for said in _SAID)


_FILLED = 0.9


def there(device: torch.device) -> int:
    """Bytes that a process may use: a GPU's, or the machine's shared by the processes that torchrun started on it."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return installed.memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def fits(needed: int, device: torch.device) -> bool:
    """Whether there is room for so many bytes on a device, with some to spare."""
    return needed <= _FILLED * there(device)


def require(needed: int, device: torch.device, what: str, hint: str) -> None:
    """Raises ZooError where a device has no room for the bytes that `what` needs, before any of them is taken."""
    installed.require(needed, there(device), what, hint, "the GPU" if device.type == "cuda" else "this machine")


def most_used(device: torch.device) -> int:
    """The most that there has been: of the GPU's memory, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    process = os.getpid()
    _MOST[process] = max(_MOST.get(process, 0), _peak())  # Linux counts in lots of pages, and may say less later
    return _MOST[process]


def _peak() -> int:
    """Of this process: what getrusage says, a child has from its parent, if that was larger."""
    with suppress(OSError, AttributeError):
        return 1024 * int(_PEAK.search(_STATUS.read_text(encoding="utf-8"))[1])  # type: ignore[index]
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


_MOST: dict[int, int] = {}
"""By process: one that is forked has this one's memory, and not its peak."""
_STATUS = Path("/proc/self/status")
_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")


def keep_freed() -> None:
    """Has this process keep what it frees, for its whole life: for one that trains or times layers, and no more."""
    tune_process_memory()

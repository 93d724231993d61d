"""Memory on a CPU: what a training uses again in each step is kept, what it will hardly use again is not."""

from __future__ import annotations

import ctypes
import os
import platform
from functools import cache

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's mallopt
_PAD = 64 << 20


@cache
def keep_memory() -> bool:
    """Has the C library keep memory that is freed, for this process's life. Whether it can: glibc can.

    Otherwise it gives large blocks back to the system, which hands them out again a page at a time, each filled with
    zeros: a tenth of a training step on a CPU.
    """
    if not keeps_memory():
        return False
    library = ctypes.CDLL(None)
    return all([library.mallopt(_MMAP_MAX, 0), library.mallopt(_TRIM_THRESHOLD, -1), library.mallopt(_TOP_PAD, _PAD)])


def forget_products() -> None:
    """Has oneDNN keep fewer of the products that it has prepared, unless the environment says how many.

    It prepares them for one shape each and keeps 1,024, up to a megabyte apiece, while nearly every batch has a shape
    of its own: 64 hold those of a step. Of no effect once oneDNN has computed something.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


def keeps_memory() -> bool:
    """Whether this C library can be told to."""
    return platform.libc_ver()[0] == "glibc"

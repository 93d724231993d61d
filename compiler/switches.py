"""Settings that apply to the whole process. Most are set while our code runs, and restored afterwards.

A program that loads one of our models therefore finds its own torch settings unchanged.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

import torch

ONEDNN, DEFAULT = "oneDNN", "torch's default"


def matrix_libraries() -> tuple[str, ...]:
    """Return the libraries that compute float32 matrix products exactly on this processor, the default one first.

    oneDNN is one of them if the processor has AVX-512 but not AMX, because with AMX it rounds to bfloat16. Which
    library is faster depends on the processor and on the shapes.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    is_exact = "AVX512" in capability and not torch.cpu._is_amx_tile_supported()
    return (ONEDNN, DEFAULT) if is_exact else (DEFAULT,)


def matrix_library() -> str:
    """Return the library for float32 matrix products that is used if no library was chosen by measurement."""
    return matrix_libraries()[0]


_LIBRARY_LOCK = Lock()
_library_users = 0
_precision_before = ""


@contextmanager
def fast_float32(library: str | None = None) -> Iterator[None]:
    """Let a library compute float32 matrix products in the `with` block.

    torch calls the route to oneDNN "bf16". On a processor with AMX it does round to bfloat16. Without AMX, oneDNN has
    no narrower type for it and computes in float32. If contexts are nested, or several threads are in one, the
    outermost or first one decides, and the last one to leave restores the setting.

    Args:
        library: One of `matrix_libraries()`; None: `matrix_library()`.

    Raises:
        ValueError: This processor does not have the library.
    """
    global _library_users, _precision_before
    if library not in (None, *matrix_libraries()):
        raise ValueError(f"{library} cannot compute float32 products on this processor")
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    with _LIBRARY_LOCK:
        if not _library_users:
            _precision_before = settings.fp32_precision
            if (library or matrix_library()) == ONEDNN:
                settings.fp32_precision = "bf16"
        _library_users += 1
    try:
        yield
    finally:
        with _LIBRARY_LOCK:
            _library_users -= 1
            if not _library_users:
                settings.fp32_precision = _precision_before


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # options of glibc's mallopt


def keeps_memory() -> bool:
    """Return whether the C library can be configured to keep freed memory. glibc can."""
    return platform.libc_ver()[0] == "glibc"


def tune_process_memory() -> None:
    """Keep freed memory in this process, because every training step needs it again.

    The change is permanent, so call this only in a process that the `zoo` command owns. It changes two things:

    * The C library normally returns large freed blocks to the system. The system then provides them again page by
      page, filled with zeros, which takes a tenth of a training step on a CPU. Now the process keeps them.
    * oneDNN and torch each cache 1,024 prepared matrix products, one per shape, of up to a megabyte. Nearly every batch
      has a new shape, and 64 entries are enough for one step, so both caches get 64 entries. This has no effect after
      the first matrix product, or if the environment variables are already set.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "64")
    if keeps_memory():
        library = ctypes.CDLL(None)
        for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, value)


@cache
def use_one_thread_after_fork() -> None:
    """Make forked child processes of this process compute on one thread.

    A forked process has none of OpenMP's threads, and would wait for them forever.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_use_one_thread)


def _use_one_thread() -> None:
    torch.set_num_threads(1)

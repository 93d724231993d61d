"""Properties of the machine, and settings for torch and the C library that apply to the whole process.

Most of these settings are only changed while our code runs, and then restored. A process that uses our models therefore
keeps its torch settings.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock

from compiler.lazy import torch


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpuinfo() -> dict[str, str]:
    """Return the first processor's fields in Linux's /proc/cpuinfo, keyed by name, or {} on other systems."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
    except OSError:
        return {}
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def may_have_gpu() -> bool:
    """Return whether a GPU driver is present, without importing torch."""
    return any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))


def cpp_compiler() -> str | None:
    """Return the path of the C++ compiler, or None if none is installed."""
    return next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)


ONEDNN, DEFAULT = "oneDNN", "torch's default"


def matrix_libraries() -> tuple[str, ...]:
    """Return the libraries that can multiply matrices in full float32 precision on this processor, default first.

    oneDNN is included only if the processor has AVX-512 but not AMX. On processors with AMX, oneDNN would round to
    bfloat16. oneDNN is the default on processors with bfloat16 instructions. On older processors, torch's default is
    often faster.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    is_exact = "AVX512" in capability and not torch.cpu._is_amx_tile_supported()
    if not is_exact:
        return (DEFAULT,)
    return (ONEDNN, DEFAULT) if torch.cpu._is_avx512_bf16_supported() else (DEFAULT, ONEDNN)


def matrix_library() -> str:
    """Return the default library for float32 matrix products on this processor."""
    return matrix_libraries()[0]


_LIBRARY_LOCK = Lock()
_library_users = 0
_precision_before = ""


@contextmanager
def fast_float32(library: str | None = None) -> Iterator[None]:
    """Make torch use the given library for float32 matrix products in the `with` block.

    torch uses oneDNN only if its precision setting is "bf16", so this function changes the setting. If the processor
    has AMX, oneDNN would then round to bfloat16, so `matrix_libraries()` does not include oneDNN. Otherwise, oneDNN
    computes in float32. If `with` blocks are nested or run in several threads, the first block determines the setting,
    and the last block to end restores it.

    Args:
        library: One of `matrix_libraries()`. If None, use `matrix_library()`.

    Raises:
        ValueError: The library is not one of `matrix_libraries()`.
    """
    global _library_users, _precision_before
    if library not in (None, *matrix_libraries()):
        raise ValueError(f"the library must be one of {', '.join(matrix_libraries())}, not {library}")
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


def tune_process() -> None:
    """Change process settings to speed up training on a CPU.

    The changes are permanent and increase memory usage. Call this function only in a process whose sole task is
    training or benchmarking, and before the process computes anything. The function changes three settings:

    * The C library normally returns large freed blocks to the system. When they are allocated again, the system fills
      each page with zeros, which takes a tenth of a training step on a CPU. After this call, the process keeps freed
      blocks.
    * oneDNN and torch each cache up to 1,024 prepared matrix products, one per shape. An entry takes up to a megabyte.
      Nearly every batch has a new shape, and 64 entries are enough for one step, so both caches are limited to 64
      entries. This has no effect after the first matrix product, or if the environment already sets these limits.
    * Denormal numbers (below 1e-38) become 0. After a few hundred steps, the gradients of a small model contain many
      denormal numbers. A matrix product that reads denormal numbers takes several times as long. Each thread has its
      own setting, and new threads inherit it. Therefore, torch's threads use it only if they start after this call.
    """
    for variable in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(variable, "64")
    if platform.libc_ver()[0] == "glibc":
        library = ctypes.CDLL(None)
        for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, value)
    torch.set_flush_denormal(True)


@cache
def use_one_thread_after_fork() -> None:
    """Make forked child processes of this process compute on one thread.

    A forked process does not inherit OpenMP's threads, and would otherwise wait for them forever.
    """
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

"""Switches of the whole process, most for speed: set while something of ours runs, and then put back.

Whoever loads a model into a program of his own finds his torch as it was.
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Generic, TypeVar

import torch

_Value = TypeVar("_Value")


class _Switch(Generic[_Value]):
    """Set by the first who comes in, put back by the last who goes out: several threads may be inside."""

    def __init__(self, set_: Callable[[_Value], Callable[[], object]]) -> None:
        """`set_` sets it to a value and gives what puts it back."""
        self._set, self._lock, self._inside = set_, Lock(), 0

    @contextmanager
    def on(self, value: _Value) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._back = self._set(value)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._back()


ONEDNN, DEFAULT = "oneDNN", "torch's default"


def matrix_libraries() -> tuple[str, ...]:
    """Those that compute float32 products exactly on this processor, the one that is usual there first.

    oneDNN is where it has AVX-512 and, with AMX, would not round. Which one is faster is a matter of processor and
    shapes: `zoo.planning.training_estimate` measures it for a spec.
    """
    capability = torch.backends.cpu.get_cpu_capability()
    exact = "AVX512" in capability and not torch.cpu._is_amx_tile_supported()
    return (ONEDNN, DEFAULT) if exact else (DEFAULT,)


def matrix_library() -> str:
    """The library of float32 products where nobody measured."""
    return matrix_libraries()[0]


def _to_library(library: str) -> Callable[[], object]:
    """Sends float32 products to oneDNN where that is the library.

    torch's name for that route is "bf16": on a processor with AMX it does round to bfloat16, so there the default
    stays. Without AMX, oneDNN has nothing narrower that it could use for it and computes in float32.
    """
    of = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    before = of.fp32_precision
    if library == ONEDNN:
        of.fp32_precision = "bf16"
    return lambda: setattr(of, "fp32_precision", before)


_FAST_FLOAT32 = _Switch(_to_library)


def fast_float32(library: str | None = None) -> AbstractContextManager[None]:
    """While it lasts, float32 products are computed by this one of `matrix_libraries()`, or by the usual one.

    Whoever is inside another one's keeps that one's. Raises ValueError for a library that this processor has not.
    """
    if library not in (None, *matrix_libraries()):
        raise ValueError(f"float32 products cannot be computed by {library} here")
    return _FAST_FLOAT32.on(library or matrix_library())


def _to_level(level: int) -> Callable[[], object]:
    before = logging.root.manager.disable
    logging.disable(max(level, before))
    return lambda: logging.disable(before)


_LOGS = _Switch(_to_level)


def quiet() -> AbstractContextManager[None]:
    """While it lasts, nobody's logs tell of less than an error."""
    return _LOGS.on(logging.WARNING)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # of glibc's mallopt


def keeps_memory() -> bool:
    """Whether this C library can be told to keep memory that is freed: glibc can."""
    return platform.libc_ver()[0] == "glibc"


def own_process() -> None:
    """Has this process keep what training uses again in each step: for good, so only for whoever owns the process.

    The C library otherwise gives large blocks that are freed back to the system, which hands them out again a page at
    a time, each filled with zeros: a tenth of a training step on a CPU. And the products that oneDNN has prepared, for
    one shape each and up to a megabyte apiece, are kept by itself and by torch, 1,024 each, while nearly every batch
    has a shape of its own: 64 hold those of a step. That is of no effect once something was computed so, or where the
    environment says how many.
    """
    for cache in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(cache, "64")
    if keeps_memory():
        library = ctypes.CDLL(None)
        for option, value in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1), (_TOP_PAD, 64 << 20)):
            library.mallopt(option, value)

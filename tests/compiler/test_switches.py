"""What is set for the whole process while something of ours runs, and found as it was before."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Barrier, Thread

import pytest
import torch

from compiler import Purpose, build, trainable
from compiler.switches import ONEDNN, fast_float32, matrix_libraries, matrix_library, suppress_warnings_in_logs
from specs import Spec

OWNED = """
import os, resource, torch
from compiler.switches import tune_process_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
before = faults()
tune_process_memory()
for _ in range(8):
    torch.ones(2**24)
print(before, faults(), os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], os.environ["LRU_CACHE_CAPACITY"])
"""
KNOWN = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
MANY_SHAPES = """
import ctypes, torch
from compiler.switches import ONEDNN, fast_float32, tune_process_memory
tune_process_memory()
class Counts(ctypes.Structure):
    _fields_ = [(f"_{i}", ctypes.c_size_t) for i in range(7)] + [("used", ctypes.c_size_t), ("_", ctypes.c_size_t * 2)]
library = ctypes.CDLL(None)
library.mallinfo2.restype = Counts
def used(shapes):
    for n in shapes:
        x = torch.ones(n, 64, requires_grad=True)
        torch.nn.functional.linear(x, torch.ones(64, 64)).sum().backward()
        del x
    return library.mallinfo2().used
with fast_float32(ONEDNN):
    few = used(range(500, 600))
    print(used(range(600, 700)) - few)
"""


def _route() -> str:
    return str(torch.backends.mkldnn.matmul.fp32_precision)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other ways")
@pytest.mark.parametrize(("said", "kept"), [(None, "64"), ("7", "7")])
def test_a_process_of_ones_own_keeps_memory_and_forgets_products(said: str | None, kept: str) -> None:
    """64 MiB are 16,384 pages of 4 KiB, each a fault where the system hands them out anew.

    After eight rounds, since seven may each leave a hole a few bytes too small for the next: glibc keeps the rest of an
    aligned block back, seven of a size, and joins it to nothing.
    """
    environment = {k: v for k, v in os.environ.items() if k not in KNOWN} | (dict.fromkeys(KNOWN, said) if said else {})
    done = subprocess.run([sys.executable, "-c", OWNED], capture_output=True, text=True, check=True, env=environment)
    before, after, *capacities = done.stdout.split()
    assert int(before) > 10_000
    assert int(after) < 1000
    assert capacities == [kept, kept]


@pytest.mark.skipif(ONEDNN not in matrix_libraries(), reason="oneDNN computes no products here")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="this C library does not count so")
def test_products_of_ever_new_shapes_take_no_more_and_more_memory() -> None:
    """What oneDNN prepares for one shape is some 100 kB: 200 products of 100 shapes were 20 MB."""
    done = subprocess.run([sys.executable, "-c", MANY_SHAPES], capture_output=True, text=True, check=True)
    assert abs(int(done.stdout)) < 1_000_000


def _first_in_first_out(switch: Callable[[], AbstractContextManager[None]], look: Callable[[], object]) -> object:
    """What is seen by the thread that came in last, when the one that came in first is out."""
    seen, barrier = [], Barrier(2)

    def second() -> None:
        barrier.wait()  # the first is inside
        with switch():
            barrier.wait()  # both are
            barrier.wait()  # the first is out
            seen.append(look())

    thread = Thread(target=second)
    thread.start()
    with switch():
        barrier.wait()
        barrier.wait()
    barrier.wait()
    thread.join()
    return seen[0]


def test_a_route_is_put_back_by_the_last_thread_that_needs_it() -> None:
    before = _route()
    assert _first_in_first_out(fast_float32, _route) == ("bf16" if matrix_library() == "oneDNN" else before)
    assert _route() == before


@pytest.mark.parametrize("level", [logging.NOTSET, logging.CRITICAL])
def test_logs_are_heard_again_after_the_last_thread_that_is_quiet(level: int) -> None:
    """And what somebody has silenced altogether stays so."""

    def disabled() -> int:
        return logging.root.manager.disable

    logging.disable(level)
    try:
        assert _first_in_first_out(suppress_warnings_in_logs, disabled) == max(level, logging.WARNING)
        assert disabled() == level
    finally:
        logging.disable(logging.NOTSET)


def test_programs_leave_torch_as_it_was(small: Callable[..., Spec]) -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        threads, environment = torch.get_num_threads(), dict(os.environ)
        program = trainable(small())
        source, target = torch.randint(4, 101, (3, 7)), torch.randint(4, 101, (3, 6))
        program(source, target).smoothed.backward()
        for name in ("eager", "native"):
            build(small(), backend=name).score(source, target)
        with pytest.raises(ValueError, match="not built for the purpose `train`"):
            build(small(), [Purpose.SCORE])(source, target)
        assert (_route(), torch.get_num_threads(), dict(os.environ)) == ("ieee", threads, environment)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"

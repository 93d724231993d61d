"""What is set for the whole process while something of ours runs, and found as it was before."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from threading import Barrier, Thread

import pytest
import torch

from compiler import Purpose, build, trainable
from compiler.switches import fast_float32, for_training, matrix_library
from specs import Spec

FREED = """
import resource, torch
from compiler.switches import for_training
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**26)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with for_training(torch.device("cpu")):
    for _ in range(4):
        torch.ones(2**26)
    kept = faults()
faults()
print(kept, faults())
"""
KNOWN = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def _route() -> str:
    return str(torch.backends.mkldnn.matmul.fp32_precision)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other ways")
def test_memory_that_was_freed_is_there_again_without_a_page_fault_while_training() -> None:
    """256 MiB are 65,536 pages of 4 KiB."""
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    kept, after = map(int, done.stdout.split())
    assert kept < 1000
    assert after > 10_000


def test_training_forgets_products_unless_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KNOWN, raising=False)
    with for_training(torch.device("cpu")):
        assert os.environ[KNOWN] == "64"
    assert KNOWN not in os.environ
    monkeypatch.setenv(KNOWN, "7")
    with for_training(torch.device("cpu")):
        assert os.environ[KNOWN] == "7"
    assert os.environ[KNOWN] == "7"


def test_a_route_is_put_back_by_the_last_thread_that_needs_it() -> None:
    before, seen, barrier = _route(), [], Barrier(2)

    def first() -> None:
        with fast_float32():
            barrier.wait()  # both are inside
            barrier.wait()  # the other one is out
            seen.append(_route())

    thread = Thread(target=first)
    thread.start()
    with fast_float32():
        barrier.wait()
    barrier.wait()
    thread.join()
    assert seen == ["bf16" if matrix_library() == "oneDNN" else before]
    assert _route() == before


def test_programs_leave_torch_as_it_was(small: Callable[..., Spec]) -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        threads, environment = torch.get_num_threads(), dict(os.environ)
        program = trainable(small())
        source, target = torch.randint(4, 101, (3, 7)), torch.randint(4, 101, (3, 6))
        program(source, target).smoothed.backward()
        for name in ("eager", "native"):
            build(small(), backend=name).score(source, target)
        with pytest.raises(ValueError, match="not built to train"):
            build(small(), [Purpose.SCORE])(source, target)
        assert (_route(), torch.get_num_threads(), dict(os.environ)) == ("ieee", threads, environment)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"

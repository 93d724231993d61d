"""Settings of the whole process: they are restored after use, and forked processes can compute."""

from __future__ import annotations

import ctypes
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from compiler import PaddedBatch, Purpose, build, build_module
from compiler.backends import BACKENDS
from compiler.host import DEFAULT, ONEDNN, fast_float32, matrix_libraries
from tests import forks
from tests.examples import small

COUNT_PAGE_FAULTS = """
import os, resource, torch
from compiler.host import tune_process
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
before = faults()
tune_process()
for _ in range(16):
    torch.ones(2**24)
print(before, faults(), os.environ["ONEDNN_PRIMITIVE_CACHE_CAPACITY"], os.environ["LRU_CACHE_CAPACITY"])
torch.set_num_threads(4)
flushed = bool((torch.full((2**20,), 1e-39) * 0.5 == 0).all())
print(flushed or not torch.set_flush_denormal(True))  # False if this processor cannot
"""
CAPACITIES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
MEASURE_MEMORY_OF_NEW_SHAPES = """
import ctypes, torch
from compiler.host import ONEDNN, fast_float32, tune_process
tune_process()
class Counts(ctypes.Structure):
    _fields_ = [(f"_{i}", ctypes.c_size_t) for i in range(7)] + [("used", ctypes.c_size_t), ("_", ctypes.c_size_t * 2)]
library = ctypes.CDLL(None)
library.mallinfo2.restype = Counts
def used(shapes):
    for n in shapes:
        torch.nn.functional.linear(torch.ones(n, 64, requires_grad=True), torch.ones(64, 64)).sum().backward()
    return library.mallinfo2().used
with fast_float32(ONEDNN):
    few, more = used(range(500, 600)), used(range(600, 700))
print(more - few)
"""
SCORE_IN_A_FORK = """
import os, pathlib, sys, torch
import specs
from compiler import PaddedBatch, build
torch.set_num_threads(3)
spec, folder = specs.load("tiny", {"architecture": {"N": 1}, "vocabulary": {"size": 2000}}), pathlib.Path(sys.argv[1])
programs = [build(spec, backend=backend, folder=folder) for backend in sys.argv[2:]]
source, target = PaddedBatch.full(torch.randint(4, 99, (64, 30))), torch.randint(4, 99, (64, 31))
before = [program.score(source, target) for program in programs]
child = os.fork()
if not child:
    after = [program.score(source, target) for program in programs]
    os._exit(0 if all(torch.allclose(*pair, atol=1e-4) for pair in zip(before, after)) else 3)
print(os.waitpid(child, 0)[1], torch.get_num_threads())
"""


def _route() -> str:
    return str(torch.backends.mkldnn.matmul.fp32_precision)


@pytest.mark.integration
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_tuned_process_keeps_memory_caches_few_products_and_flushes_denormal_numbers() -> None:
    """64 MiB are 16,384 pages of 4 KiB; each is a page fault if the system provides it again.

    The capacity is 64, unless the environment sets another one. Sixteen rounds come first, because glibc keeps up to
    seven remainders of aligned blocks of each of two sizes, and does not merge them.
    """
    environment = {key: value for key, value in os.environ.items() if key != CAPACITIES[1]} | {CAPACITIES[0]: "7"}
    before, after, *capacities, flushes = forks.run(COUNT_PAGE_FAULTS, environment=environment).stdout.split()
    assert int(after) < int(before) / 10  # with transparent huge pages, both are fewer than pages of 4 KiB
    assert capacities == ["7", "64"]
    assert flushes == "True", "in all threads"


@pytest.mark.integration
@pytest.mark.skipif(ONEDNN not in matrix_libraries(), reason="oneDNN is not used on this processor")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library has no mallinfo2")
def test_products_of_new_shapes_do_not_use_more_and_more_memory() -> None:
    """oneDNN caches about 100 kB per shape. Without a limit, 200 products of 100 shapes would use 20 MB."""
    assert int(forks.run(MEASURE_MEMORY_OF_NEW_SHAPES).stdout) < 2_000_000


def test_the_matrix_library_is_restored_by_the_last_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose oneDNN on any processor, because nothing is computed."""
    monkeypatch.setattr("compiler.host.matrix_libraries", lambda: (ONEDNN, DEFAULT))
    before = _route()
    with ThreadPoolExecutor(1) as other, ExitStack() as block:
        with fast_float32():
            other.submit(block.enter_context, fast_float32()).result()
        assert other.submit(_route).result() == "bf16"
        other.submit(block.close).result()
    assert _route() == before
    with pytest.raises(ValueError, match="not BLAS"), fast_float32("BLAS"):
        pass


def test_programs_leave_torchs_settings_unchanged() -> None:
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    try:
        threads, environment = torch.get_num_threads(), dict(os.environ)
        source, target = PaddedBatch.full(torch.randint(4, 101, (3, 7))), torch.randint(4, 101, (3, 6))
        build_module(small())(source, target).smoothed.backward()
        for name in ("eager", "native"):
            build(small(), backend=name).score(source, target)
        with pytest.raises(ValueError, match="not built for the purpose `train`"):
            build(small(), [Purpose.SCORE])(source, target)
        assert (_route(), torch.get_num_threads(), dict(os.environ)) == ("ieee", threads, environment)
    finally:
        torch.backends.mkldnn.matmul.fp32_precision = "none"


@pytest.mark.integration
def test_a_forked_process_scores_the_same(artefacts: Path) -> None:
    backends = [name for name in ("eager", "native") if BACKENDS[name].unavailable_reason() is None]
    build(small(), backend=backends[-1], folder=artefacts)  # compile the kernels only once
    done = forks.run(SCORE_IN_A_FORK, str(artefacts), *backends)
    assert done.stdout.split() == ["0", "3"], done.stderr

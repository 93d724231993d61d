"""The peak memory of a process: its own, in bytes, and never decreasing."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from tests import forks
from zoo.system.memory import fits_memory, is_out_of_memory, memory_limit

PEAK = """
import json, pathlib, re, subprocess, sys, torch
from zoo.system.memory import peak_memory
cpu, status = torch.device("cpu"), pathlib.Path("/proc/self/status")
before = peak_memory(cpu)
tensor = torch.ones(25_000_000)
after = peak_memory(cpu)
code = (
    "from types import SimpleNamespace; from zoo.system.memory import peak_memory; "
    "print(peak_memory(SimpleNamespace(type='cpu')))"
)
larger = b"1" * 400_000_000
child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
del tensor, larger
linux = re.search(r"VmHWM:\\s*(\\d+) kB", status.read_text()) if status.exists() else None
later = peak_memory(cpu)
print(json.dumps([before, after, later, 1024 * int(linux[1]) if linux else later, int(child)]))
"""


@pytest.mark.integration
def test_peak_grows_with_allocations_and_is_not_inherited(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(request.config.rootpath)
    before, after, later, linux, child = json.loads(forks.run(PEAK).stdout)
    assert after - before == pytest.approx(100e6, rel=0.3)
    assert later == pytest.approx(linux, rel=0.02)
    assert later > after
    assert child < later - 200e6, "the peak of the parent process does not count"


def test_errors_of_memory_are_recognised() -> None:
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(torch.OutOfMemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes"))
    assert not is_out_of_memory(RuntimeError("shapes differ"))
    assert not is_out_of_memory(OSError("out of memory"))


def test_a_tenth_of_the_memory_stays_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoo.system.memory.available_memory", lambda device: 1000)
    assert fits_memory(900, torch.device("cpu"))
    assert not fits_memory(901, torch.device("cpu"))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
def test_memory_limit_holds_for_python_and_torch_and_ends() -> None:
    with memory_limit(100_000_000):
        assert len(bytearray(50_000_000)) == 50_000_000
        with pytest.raises(MemoryError):
            bytearray(4_000_000_000)  # more than this process has freed before and could use again
        with pytest.raises(RuntimeError) as error:
            torch.empty(1_000_000_000)
        assert is_out_of_memory(error.value)
    assert len(bytearray(200_000_000)) == 200_000_000

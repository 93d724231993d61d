"""The peak memory of a process: its own, in bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from tests import forks
from tests.paths import ROOT
from zoo.system.memory import is_out_of_memory, memory_limit


@pytest.mark.integration
def test_peak_grows_with_allocations_and_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = forks.run(Path(__file__).with_name("peak.py").read_text("utf-8"))
    before, after, later, linux, child = json.loads(done.stdout)
    assert after - before == pytest.approx(100e6, rel=0.3)
    assert later == pytest.approx(linux, rel=0.02)
    assert later > after
    assert child < later - 200e6, "the peak of the parent process does not count"


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

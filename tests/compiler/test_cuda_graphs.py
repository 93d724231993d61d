"""How a CUDA graph is recorded, told to a torch that has no GPU; what is recorded is in test_captured.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, EmittedProgram, Purpose, build, graphs, trainable
from compiler.backends.backend import BuildRequest
from compiler.backends.eager import record_steps_on_gpu
from compiler.cuda_graph import CudaGraphRecorder
from specs import Spec

GPU = torch.device("cuda")


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What torch is told, in order."""
    said: list[str] = []

    class Stream:
        def __init__(self, device: Any = None) -> None:
            self.name = "own" if device else "caller's"

        def wait_stream(self, other: Stream) -> None:
            said.append(f"{self.name} waits for {other.name}")

    class Graph:
        def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
            assert capture_error_mode == "thread_local"
            said.append(f"begin in {pool}")

        def capture_end(self) -> None:
            said.append("end")
            if "fails" in said:
                raise RuntimeError("the capture was invalidated")

        def pool(self) -> str:
            return "the pool"

        def replay(self) -> None:
            said.append("replay")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return said


def test_it_runs_once_then_is_recorded_and_all_share_their_memory(said: list[str]) -> None:
    def work() -> dict[str, torch.Tensor]:
        said.append("work")
        return {}

    record = CudaGraphRecorder(GPU)
    whole = ["own waits for caller's", "work", "begin in None", "work", "end", "caller's waits for own"]
    _, replay = record(work)
    assert said == whole
    record(work)
    assert said == whole + [each.replace("None", "the pool") for each in whole]
    replay()
    assert said[-1] == "replay"


def test_what_goes_wrong_in_between_is_what_is_told(said: list[str]) -> None:
    def work() -> dict[str, torch.Tensor]:
        if "begin in None" in said:
            said.append("fails")
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return {}

    with pytest.raises(torch.OutOfMemoryError):
        CudaGraphRecorder(GPU)(work)
    assert said[-2:] == ["fails", "end"]


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_programs_are_recorded_on_a_gpu_if_they_only_translate(
    small: Callable[..., Spec], said: list[str], device: str
) -> None:
    spec = small()
    program = build(spec, backend="eager")
    assert isinstance(program, EmittedProgram)
    order = BuildRequest(spec, program.graphs, program.weights(), device)
    assert (record_steps_on_gpu(program, order)._recorded is not None) == (device != "cpu")
    for purposes in ([Purpose.SCORE], [Purpose.TRAIN, *TRANSLATE]):
        other = trainable(spec, purposes) if Purpose.TRAIN in purposes else build(spec, purposes, backend="eager")
        assert isinstance(other, EmittedProgram)
        order = BuildRequest(spec, graphs(spec, purposes), other.weights(), device)
        assert record_steps_on_gpu(other, order)._recorded is None

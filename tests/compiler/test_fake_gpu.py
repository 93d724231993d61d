"""Programs run on a GPU without values: nothing mixes devices, and the host waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from compiler import TRANSLATE, EmittedProgram, Purpose
from compiler.backends.backend import BuildRequest
from compiler.backends.eager import Functions, program
from compiler.backends.export import TRANSLATING, export_programs, refuse
from compiler.emission import emit
from compiler.padded_batch import PaddedBatch
from compiler.runtime.layers import _BalanceGradient, _GatedAverage
from compiler.runtime.losses import _ChunkedLoss, _Smoothing
from specs import BOS, EOS, PAD
from tests.compiler.conftest import requested
from tests.compiler.fake_gpu import DEVICE, FakeGpu, HostWait, fake_gpu, tensors
from tests.compiler.test_conformance import ARCHITECTURES, walk
from tests.examples import small

FEATURES = {name for name, architecture in ARCHITECTURES.items() if "source" in architecture}


def architectures(*quick: str) -> Any:
    """Return a decorator that runs a test with the architectures `quick`, and with all others in the slow tests."""
    slow = [pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES if name not in quick]
    return pytest.mark.parametrize("name", [*quick, *slow])


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    with fake_gpu() as made, torch.no_grad():
        yield made


def request(name: str, purposes: Sequence[Purpose] = TRANSLATE, precision: str = "float32") -> BuildRequest:
    """Return a request for an architecture with as few layers as possible."""
    spec = small(**{**ARCHITECTURES[name], "N": 2 if name == "dilated" else 1})
    return requested(spec, purposes, "cuda:0", precision)


def built(wanted: BuildRequest) -> EmittedProgram:
    """Return the program that the `eager` backend builds. It does not record steps."""
    return program(wanted, Functions(emit(wanted.graphs.values())))


def examples(name: str) -> tuple[PaddedBatch, Tensor]:
    """Return two sources and their targets."""
    rows = [torch.randn(length, 5) for length in (19, 13)] if name in FEATURES else [[5, 6, 7, EOS], [5, EOS]]
    return PaddedBatch.pad(rows).to(DEVICE), torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]]).to(DEVICE)


@architectures("student", "t5", "modern", "speech", "bytenet", "mixture")
def test_every_method_runs_on_one_gpu_without_waiting(gpu: FakeGpu, name: str) -> None:
    made = built(request(name, precision="bfloat16" if name == "modern" else "float32"))
    assert {parameter.device for parameter in made.parameters()} == {DEVICE}
    for tensor in (made.score(*examples(name)), *walk(made)):
        assert (type(tensor), tensor.device) == (FakeTensor, DEVICE)


@architectures("pre", "student", "mixture")
def test_the_loss_runs_on_one_gpu_and_waits_only_for_the_number_of_labels(gpu: FakeGpu, name: str) -> None:
    """Without gradients: torch cannot run a backward pass on fake tensors of a GPU if it was built without CUDA."""
    made = built(request(name, [Purpose.TRAIN]))
    with pytest.raises(HostWait, match="index needs values"):
        made(*examples(name))
    gpu.ignores_padding = True
    for is_training in (True, False):
        loss = made.train(is_training)(*examples(name))
        assert {(type(tensor), tensor.device) for tensor in loss} == {(FakeTensor, DEVICE)}


def test_our_gradients_are_computed_on_one_gpu(gpu: FakeGpu) -> None:
    """Each autograd function of the package runs forward and backward. torch computes all other gradients."""

    def run(function: Any, *inputs: Any) -> list[Tensor]:
        context = SimpleNamespace(mark_non_differentiable=lambda *_: None)
        context.save_for_backward = lambda *saved: setattr(context, "saved_tensors", saved)
        results = function.forward(context, *inputs)
        return tensors((results, function.backward(context, *tensors(results))))

    x, gates = (torch.zeros(shape, device=DEVICE) for shape in ((2, 7, 4), (2, 7, 3)))
    labels = torch.zeros(14, dtype=torch.long, device=DEVICE)
    found = [*run(_GatedAverage, x, x), *run(_BalanceGradient, gates, 0.1)]
    for bias in (None, torch.zeros(9, device=DEVICE)):
        for dtype in (torch.float32, torch.bfloat16):
            rows, table = x.flatten(0, 1).to(dtype), torch.zeros(16, 4, device=DEVICE, dtype=dtype)
            table = table[:9] if bias is not None else table
            found += run(_ChunkedLoss, rows, table, bias, labels, _Smoothing(0.1, True), 9, True)
    assert {(type(tensor), tensor.device) for tensor in found} == {(FakeTensor, DEVICE)}


@architectures("no positions")
def test_programs_are_exported_for_a_gpu(gpu: FakeGpu, name: str) -> None:
    wanted = request(name)
    if problem := refuse(wanted):
        pytest.skip(problem)
    exported = export_programs(wanted)
    for purpose in TRANSLATING:
        nodes = [node for node in exported[purpose].graph.nodes if "val" in node.meta]
        found = [tensor for node in nodes for tensor in tensors(node.meta["val"])]
        assert {tensor.device for tensor in found} == {DEVICE}

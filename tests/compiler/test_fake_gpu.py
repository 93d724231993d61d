"""Programs run on a GPU without values: nothing mixes devices, and the host waits for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_flatten

from compiler import TRANSLATE, EmittedProgram, Purpose, graphs
from compiler.backends.backend import BuildRequest
from compiler.backends.eager import functions, program
from compiler.backends.export import TRANSLATING, export_programs, refuse
from compiler.emission import emit
from compiler.initialization import initial_weights
from compiler.padded_batch import PaddedBatch
from compiler.runtime import _ChunkedLoss, _Smoothing
from compiler.sublayers import _BalanceGradient, _GatedAverage
from specs import BOS, EOS, PAD, Spec
from tests.compiler.fake_gpu import DEVICE, FakeGpu, HostWait, fake_gpu
from tests.compiler.test_conformance import ARCHITECTURES
from tests.examples import small

FEATURES = {name for name, architecture in ARCHITECTURES.items() if "source" in architecture}


def architectures(*quick: str) -> Any:
    """Return a decorator that runs a test with the architectures `quick`, and with all others in the slow tests."""
    slow = [pytest.param(name, marks=pytest.mark.slow) for name in ARCHITECTURES if name not in quick]
    return pytest.mark.parametrize("name", [*quick, *slow])


def spec_of(name: str) -> Spec:
    """Return the spec of an architecture with as few layers as possible."""
    return small(**{**ARCHITECTURES[name], "N": 2 if name == "dilated" else 1})


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    with fake_gpu() as made, torch.no_grad():
        yield made


def request(spec: Spec, device: str, precision: str = "float32", *purposes: Purpose) -> BuildRequest:
    optimised = graphs(spec, purposes or TRANSLATE, device, precision)
    return BuildRequest(spec, optimised, initial_weights(spec, optimised), device, precision)


def built(spec: Spec, device: str = "cuda:0", precision: str = "float32", *purposes: Purpose) -> EmittedProgram:
    """Return the program that the `eager` backend builds. It does not record steps."""
    wanted = request(spec, device, precision, *purposes)
    code = emit(wanted.graphs.values())
    return program(wanted, functions(code))


def sources(name: str, device: str, sentences: int = 2) -> PaddedBatch:
    rows = [torch.randn(length, 5) for length in (19, 13)] if name in FEATURES else [[5, 6, 7, EOS], [5, EOS]]
    return PaddedBatch.pad([rows[number % 2] for number in range(sentences)]).to(device)


def targets(device: str) -> Tensor:
    return torch.tensor([[BOS, 5, 6, EOS], [BOS, 7, EOS, PAD]]).to(device)


def call_each_method(made: EmittedProgram, name: str) -> Iterator[Any]:
    """Call each method of a program, with tensors on the devices on which a search passes them. Yield the results."""
    device = str(made.device)
    yield made.score(sources(name, device), targets(device))
    state = made.encode(sources(name, device))
    yield state
    best, state = made.top_k(state, torch.full((2, 1), BOS).to(device), 5)
    yield best, state
    state = made.select(state, torch.arange(2), torch.zeros(2, 3, dtype=torch.long).to(device))
    yield state
    best, state = made.top_k(
        state, torch.full((6, 3), 7).to(device), 5, torch.ones(18, 101, dtype=torch.bool).to(device)
    )
    yield best, state
    for counts in ([1] * 6, [0, 1, 0, 1, 1, 0]):
        state = made.rewind(state, torch.tensor(counts))  # the program reads the counts, so they are on the CPU
        yield state
    state = made.select(state, torch.tensor([1]), torch.zeros(1, 1, dtype=torch.long).to(device))
    yield state
    state = made.join(state, made.encode(sources(name, device)))
    yield state
    yield made.advance(state, torch.full((3, 1), 8).to(device))


def tensors(results: Any) -> list[Tensor]:
    """Return the tensors in the results of a method, including those in states."""
    parts = results if type(results) is tuple else (results,)
    return [
        leaf
        for part in parts
        for leaf in tree_flatten(vars(part) if hasattr(part, "carried") else part)[0]
        if isinstance(leaf, Tensor)
    ]


@architectures("student", "t5", "modern", "speech", "bytenet", "mixture")
def test_every_method_runs_on_one_gpu_without_waiting(gpu: FakeGpu, name: str) -> None:
    made = built(spec_of(name), precision="bfloat16" if name == "modern" else "float32")
    assert {parameter.device for parameter in made.parameters()} == {DEVICE}
    for results in call_each_method(made, name):
        found = tensors(results)
        assert {(type(tensor), tensor.device) for tensor in found} == {(FakeTensor, DEVICE)}


@architectures("pre", "student", "mixture")
def test_the_loss_runs_on_one_gpu_and_waits_only_for_the_number_of_labels(gpu: FakeGpu, name: str) -> None:
    """Without gradients: torch cannot run a backward pass on fake tensors of a GPU if it was built without CUDA."""
    made = built(spec_of(name), "cuda:0", "float32", Purpose.TRAIN)
    with pytest.raises(HostWait, match="index needs values"):
        made(sources(name, "cuda:0"), targets("cuda:0"))
    gpu.ignores_padding = True
    for is_training in (True, False):
        loss = made.train(is_training)(sources(name, "cuda:0"), targets("cuda:0"))
        assert {(type(tensor), tensor.device) for tensor in loss} == {(FakeTensor, DEVICE)}


def test_our_gradients_are_computed_on_one_gpu(gpu: FakeGpu) -> None:
    """Each autograd function of the package runs forward and backward. torch computes all other gradients."""

    def run(function: Any, *inputs: Any) -> list[Tensor]:
        context = SimpleNamespace(mark_non_differentiable=lambda *_: None)
        context.save_for_backward = lambda *saved: setattr(context, "saved_tensors", saved)
        results = function.forward(context, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        return tensors((*results, *function.backward(context, *results)))

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
    wanted = request(spec_of(name), "cuda:0")
    if problem := refuse(wanted):
        pytest.skip(problem)
    exported = export_programs(wanted)
    for purpose in TRANSLATING:
        nodes = [node for node in exported[purpose].graph.nodes if "val" in node.meta]
        found = [tensor for node in nodes for tensor in tensors(node.meta["val"])]
        assert {tensor.device for tensor in found} == {DEVICE}

"""Interface of a backend, and the request from which a backend builds a program."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor, nn

from compiler.graph import Graphs, Purpose, origins
from compiler.kernels.program import PackedModel
from compiler.native_codegen import NativeCode, generate_native_code
from compiler.options import PRECISIONS
from compiler.program import Program
from compiler.search_graphs import search_graphs
from specs import Spec


@dataclass(frozen=True)
class BuildRequest:
    """Everything that a backend needs to build a compiled model."""

    spec: Spec
    graphs: Graphs
    """The graphs after all passes."""
    weights: Mapping[str, Tensor]
    """The tensors of a weights file, keyed by name."""
    device: str = "cpu"
    precision: str = "float32"
    folder: Path | None = None
    """The folder in which compiled files are cached. If None, use a temporary folder, which is deleted at exit."""
    packed: PackedModel | None = None
    """Weights that the `native` backend has already packed. If None, the backend packs `weights`."""

    @cached_property
    def parameters(self) -> Mapping[str, nn.Parameter]:
        """The parameters of the graphs, computed from the weights.

        For training, they are copies. Otherwise they share memory with the weights if possible. All programs that are
        built from this request share the parameters.
        """
        trains, makers = Purpose.TRAIN in self.graphs, origins(self.graphs.values())
        device = "cpu" if trains else self.device
        weights = {name: tensor.detach().to(device) for name, tensor in self.weights.items()}
        # OpenMP starts threads for each thread that calls torch. If there are more of these threads than cores, they
        # sleep between operations, and an LSTM takes four times as long. So call torch in a temporary thread: its
        # OpenMP threads end with it.
        with ThreadPoolExecutor(1) as thread:
            tensors = list(thread.map(lambda origin: origin.make(weights), makers.values()))
        if trains:
            layout = {"copy": True, "memory_format": torch.contiguous_format}
            tensors = [tensor.to(self.device, **layout) for tensor in tensors]
        return {n: nn.Parameter(tensor, requires_grad=trains) for n, tensor in zip(makers, tensors, strict=True)}

    @cached_property
    def native_code(self) -> NativeCode:
        """The instructions for the native backend. Raises Unsupported if the backend cannot run the graphs."""
        return generate_native_code(self.graphs)

    @cached_property
    def search_graphs(self) -> Graphs:
        """The graphs for beam search on a GPU. Raises Unsupported if a part of the model has no GPU kernel."""
        return search_graphs(self.spec, self.graphs.keys(), self.precision)


@dataclass(frozen=True)
class Backend:
    """Backend, which builds programs for a runtime such as PyTorch, TensorRT or our own C++ kernels."""

    name: str
    summary: str
    unavailable_reason: Callable[[], str | None]
    """Function that returns why the backend cannot run on this machine, and what to install, or None if it can run."""
    build: Callable[[BuildRequest], Program]
    device: str | None = None
    """The only kind of device that the backend supports: cpu or cuda. If None, it supports both."""
    precisions: tuple[str, ...] = PRECISIONS
    can_train: bool = False
    """Whether the backend builds modules that can be trained. Otherwise its programs can only translate."""
    refuse: Callable[[BuildRequest], str | None] = lambda request: None
    """Function that returns why the backend cannot build a request, or None if it can. It does not need to check the
    device, the precision, or whether the backend can train."""

    def unsupported_reason(self, request: BuildRequest) -> str | None:
        """Return the reason why the backend cannot build a request, or None if it can."""
        if self.device and request.device.partition(":")[0] != self.device:
            return f"it runs on {_DEVICES[self.device]}, not on `{request.device}`: use another device or backend"
        if not self.can_train and Purpose.TRAIN in request.graphs:
            return "it can only translate, not train: use the `eager` backend"
        if not self.can_train and not {Purpose.ENCODE, Purpose.DECODE_STEP} <= request.graphs.keys():
            return "it needs an encoder and a decoder: use the `eager` backend"
        if request.precision not in self.precisions:
            other = "native" if request.precision == "int8" else "eager"
            return f"it computes in {' or '.join(self.precisions)}; for {request.precision}, use the `{other}` backend"
        return self.refuse(request)


_DEVICES = {"cpu": "a CPU", "cuda": "an NVIDIA GPU"}


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return a hexadecimal SHA-256 digest of weights, for the cache key of compiled files that contain the weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()

"""Interface of a backend, and the request that tells it what to build."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from compiler.emitted import EmittedProgram
from compiler.graph import Graphs
from compiler.program import Program
from specs import Spec


@dataclass(frozen=True)
class BuildRequest:
    """Everything that a backend needs to build a program."""

    spec: Spec
    graphs: Graphs
    """The graphs after all passes."""
    weights: Mapping[str, Tensor]
    """The tensors of a weights file, in its layout."""
    device: str = "cpu"
    precision: str = "float32"
    folder: Path | None = None
    """The folder of compiled artefacts; None: they are deleted when the process ends."""


@dataclass(frozen=True)
class Backend:
    """Way to run graphs, such as PyTorch, TensorRT or our own C++ kernels."""

    name: str
    summary: str
    unavailable_reason: Callable[[], str | None]
    """Returns why the backend cannot run on this machine, and what to install; None if it can."""
    unsupported_reason: Callable[[BuildRequest], str | None]
    """Returns which part of a request the backend cannot build; None if it can build everything."""
    build: Callable[[BuildRequest], Program]
    trainable: Callable[[BuildRequest], EmittedProgram] | None = None
    """Builds a module that can be trained; None if the backend cannot train."""


def weights_digest(weights: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of the tensors of a weights file, for the key of an artefact that contains weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()

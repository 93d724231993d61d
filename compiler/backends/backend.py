"""What every backend says of itself, and what it is asked to build."""

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
class Order:
    """What is to be built: graphs after all passes on these terms, and the tensors of a weights file in its layout.

    `folder` is where compiled artefacts are kept, keyed by their content; with None nothing outlives the process.
    """

    spec: Spec
    graphs: Graphs
    weights: Mapping[str, Tensor]
    device: str = "cpu"
    precision: str = "float32"
    folder: Path | None = None


@dataclass(frozen=True)
class Backend:
    """Something that makes graphs run."""

    name: str
    summary: str
    absent: Callable[[], str | None]
    """Why it cannot be had on this machine, and the remedy; None where it can."""
    refuses: Callable[[Order], str | None]
    """What in an order it cannot express; None where it can build it."""
    build: Callable[[Order], Program]
    trainable: Callable[[Order], EmittedProgram] | None = None
    """The same as a module that can be trained, where it has that."""


def digest(weights: Mapping[str, Tensor]) -> str:
    """Of the tensors of a weights file: what an artefact that holds weights is keyed by."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()

"""What every backend says of itself, and what it is asked to build."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.graph import Graphs
from specs import Spec


@dataclass(frozen=True)
class Order:
    """What is to be built: graphs after all passes, and the tensors of a weights file in its layout.

    `folder` is where compiled artefacts are kept, keyed by their content; with None nothing outlives the process.
    """

    spec: Spec
    graphs: Graphs
    weights: Mapping[str, Tensor]
    device: str = "cpu"
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
    build: Callable[[Order], Any]
    """A program: `compiler.Program`, or what answers to the same verbs."""


def digest(weights: Mapping[str, Tensor]) -> str:
    """Of the tensors of a weights file: what an artefact that holds weights is keyed by."""
    found = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()

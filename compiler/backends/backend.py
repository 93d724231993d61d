"""What every backend says of itself, and what it is asked to build."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.graph import Graphs
from specs import Spec

if TYPE_CHECKING:
    from torch import Tensor


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

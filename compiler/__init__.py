"""Compiler that turns a spec into a program: lower the spec to graphs, rewrite them by passes, and call a backend.

Building graphs and computing their costs does not need torch. torch is imported when a name that needs it, such as
`build`, is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.cost import Cost, cost
from compiler.emit import EmittedCode, emit
from compiler.graph import Graph, Graphs, Purpose
from compiler.lower import lower
from compiler.passes import PASSES, TRANSLATE, graphs, optimise
from specs import Spec

if TYPE_CHECKING:
    from compiler.assemble import build, find_device, trainable
    from compiler.emitted import EmittedProgram, Loss
    from compiler.interpreter import interpret
    from compiler.program import Program
    from compiler.stream import Stream

_NEED_TORCH = {
    "build": "compiler.assemble",
    "find_device": "compiler.assemble",
    "interpret": "compiler.interpreter",
    "trainable": "compiler.assemble",
    "EmittedProgram": "compiler.emitted",
    "Loss": "compiler.emitted",
    "Program": "compiler.program",
    "Stream": "compiler.stream",
}

__all__ = [
    "PASSES",
    "TRANSLATE",
    "Cost",
    "EmittedCode",
    "EmittedProgram",
    "Graph",
    "Graphs",
    "Loss",
    "Program",
    "Purpose",
    "Stream",
    "build",
    "cost",
    "emit",
    "find_device",
    "graphs",
    "interpret",
    "lower",
    "optimise",
    "parameters",
    "trainable",
]


def parameters(spec: Spec) -> int:
    """Return the number of parameters of the model that a spec describes. Tied parameters count once."""
    return sum(parameter.count for parameter in lower(spec, Purpose.TRAIN).parameters.values())


def __getattr__(name: str) -> Any:
    if name not in _NEED_TORCH:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_NEED_TORCH[name]), name)

"""Compiler that turns a spec into a program: lower the spec to graphs, rewrite them by passes, and call a backend.

Building graphs and computing their costs does not need torch. A module is imported when one of its names is first
used, so that translating with a packed model needs neither torch nor graphs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.assemble import build, find_device, trainable, update_refusal
    from compiler.costs import Cost, cost
    from compiler.emission import EmittedCode, emit
    from compiler.emitted import EmittedProgram, Loss
    from compiler.graph import Graph, Graphs, Purpose, stored_tensors
    from compiler.interpreter import interpret
    from compiler.lowering import lower
    from compiler.padded_batch import PaddedBatch
    from compiler.passes import PASSES, TRANSLATE, graphs, optimise
    from compiler.program import Program
    from specs import Spec

_NAMES = {
    "assemble": ("build", "find_device", "trainable", "update_refusal"),
    "costs": ("Cost", "cost"),
    "emission": ("EmittedCode", "emit"),
    "emitted": ("EmittedProgram", "Loss"),
    "graph": ("Graph", "Graphs", "Purpose", "stored_tensors"),
    "interpreter": ("interpret",),
    "lowering": ("lower",),
    "passes": ("PASSES", "TRANSLATE", "graphs", "optimise"),
    "program": ("Program",),
    "padded_batch": ("PaddedBatch",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "PASSES",
    "TRANSLATE",
    "Cost",
    "EmittedCode",
    "EmittedProgram",
    "Graph",
    "Graphs",
    "Loss",
    "PaddedBatch",
    "Program",
    "Purpose",
    "build",
    "cost",
    "emit",
    "find_device",
    "graphs",
    "interpret",
    "lower",
    "optimise",
    "parameters",
    "stored_tensors",
    "trainable",
    "update_refusal",
]


def parameters(spec: Spec) -> int:
    """Return the number of parameters of the model that a spec describes. Tied parameters count once."""
    from compiler.graph import Purpose
    from compiler.lowering import lower

    return sum(parameter.count for parameter in lower(spec, Purpose.TRAIN).parameters.values())


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"compiler.{_MODULES[name]}"), name)
    return globals()[name]

"""Compiler that turns a model spec into a runnable program. It builds graphs, runs passes on them, and calls a backend.

Building graphs and computing their costs does not need torch. Each submodule is imported when one of its names is first
used. Therefore, translating with weights packed for the `native` backend imports neither torch nor the graph modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.assemble import build as build
    from compiler.assemble import build_module as build_module
    from compiler.assemble import find_device as find_device
    from compiler.assemble import update_refusal as update_refusal
    from compiler.costs import Cost as Cost
    from compiler.costs import cost as cost
    from compiler.costs import parameters as parameters
    from compiler.emission import EmittedCode as EmittedCode
    from compiler.emission import emit as emit
    from compiler.emitted import EmittedProgram as EmittedProgram
    from compiler.emitted import Loss as Loss
    from compiler.graph import Graph as Graph
    from compiler.graph import Graphs as Graphs
    from compiler.graph import Purpose as Purpose
    from compiler.graph import interpret as interpret
    from compiler.graph import stored_tensors as stored_tensors
    from compiler.lowering import lower as lower
    from compiler.padded_batch import PaddedBatch as PaddedBatch
    from compiler.passes import PASSES as PASSES
    from compiler.passes import TRANSLATE as TRANSLATE
    from compiler.passes import graphs as graphs
    from compiler.passes import optimise as optimise
    from compiler.passes.variants import int8_dimensions as int8_dimensions
    from compiler.program import Program as Program

_NAMES = {
    "assemble": ("build", "build_module", "find_device", "update_refusal"),
    "costs": ("Cost", "cost", "parameters"),
    "emission": ("EmittedCode", "emit"),
    "emitted": ("EmittedProgram", "Loss"),
    "graph": ("Graph", "Graphs", "Purpose", "interpret", "stored_tensors"),
    "lowering": ("lower",),
    "passes": ("PASSES", "TRANSLATE", "graphs", "optimise"),
    "passes.variants": ("int8_dimensions",),
    "program": ("Program",),
    "padded_batch": ("PaddedBatch",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = getattr(import_module(f"compiler.{_MODULES[name]}"), name)
    return globals()[name]

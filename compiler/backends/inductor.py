"""Compiles the emitted layers with torch.compile: each kind of layer once, whole, for any sizes."""

from __future__ import annotations

import shutil

import torch

from compiler.backends.backend import Backend, Order
from compiler.backends.eager import execute, program
from compiler.emit import emit
from compiler.graph import Purpose
from compiler.program import Program


def _build(order: Order) -> Program:
    """The functions of eager, in which the layers are compiled. All layers of a kind share what is compiled."""
    # Sizes of 0 and 1 (a beam, a sentence alone) are compiled apart, with and without gradients: more than torch's
    # limit of 8 variants, few for good.
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    code = emit(order.graphs.values())
    namespace = execute(code)
    for name in code.layers:
        namespace[name] = torch.compile(namespace[name], fullgraph=True, dynamic=True)
    return program(order, {Purpose(purpose): namespace[purpose] for purpose in code.main}, code)


def _absent() -> str | None:
    if torch.cuda.is_available() or any(map(shutil.which, ("c++", "g++", "clang++"))):
        return None
    return "torch.compile needs a C++ compiler on a CPU: install g++ or clang++"


inductor = Backend(
    name="inductor",
    summary="each kind of layer compiled by torch.compile",
    absent=_absent,
    refuses=lambda order: None,
    build=_build,
)

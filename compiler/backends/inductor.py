"""Compiles the emitted layers with torch.compile: each kind of layer once, whole, for any sizes."""

from __future__ import annotations

import importlib.util

import torch

from compiler.backends.backend import Backend, Order
from compiler.backends.eager import execute, main, program, refuses
from compiler.emit import emit
from compiler.host import cpp_compiler
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
    return program(order, main(code, namespace), code)


def _absent() -> str | None:
    if not cpp_compiler():
        return "torch.compile needs a C++ compiler: install g++ or clang++"
    if torch.cuda.is_available() and importlib.util.find_spec("triton") is None:
        return "torch.compile needs Triton on a GPU: `pip install triton`"
    return None


inductor = Backend(
    name="inductor",
    summary="each kind of layer compiled by torch.compile",
    absent=_absent,
    refuses=refuses,
    build=_build,
)

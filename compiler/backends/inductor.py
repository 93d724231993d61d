"""Compiles the emitted layers with torch.compile: each kind of layer once, whole, for any sizes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from compiler.backends.backend import Backend, Order
from compiler.backends.cuda_graphs import captured
from compiler.backends.eager import execute, main, program, refuses
from compiler.emit import emit
from compiler.emitted import EmittedProgram, Function
from compiler.host import cpp_compiler

VARIANTS = 64
"""Sizes of 0 and 1 (a beam, a sentence alone) are compiled apart, with and without gradients: more than torch's limit
of 8 variants, few for good."""


def _build(order: Order) -> EmittedProgram:
    """The functions of eager, in which the layers are compiled. All layers of a kind share what is compiled."""
    code = emit(order.graphs.values())
    namespace = execute(code)
    loops = _in_python(order)
    as_it_is: Any = torch._dynamo.disable
    namespace.update({name: as_it_is(namespace[name]) for name in loops & namespace.keys()})
    for name in code.layers:
        namespace[name] = torch.compile(namespace[name], fullgraph=not loops, dynamic=True)
    functions = {purpose: _with_variants(function) for purpose, function in main(code, namespace).items()}
    return captured(program(order, functions, code, "inductor"), order)


def _in_python(order: Order) -> set[str]:
    """What the code calls for operations that go through positions in Python: it runs as it is, between what is."""
    return {
        call.rpartition(".")[2]
        for graph in order.graphs.values()
        for node in graph.nodes
        if node.operation.loops_in_python([graph.types[value] for value in node.inputs])
        for call in node.operation.calls
    }


def _with_variants(function: Function) -> Function:
    def run(parameters: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # No switch of the process: in torch 2.13 each thread has a limit of its own.
        config, before = torch._dynamo.config, torch._dynamo.config.recompile_limit
        config.recompile_limit = max(VARIANTS, before)  # `config.patch` keeps something of each call for good
        try:
            return function(parameters, inputs)
        finally:
            config.recompile_limit = before

    return run


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
    trainable=_build,
)

"""The `inductor` backend: compiles each kind of layer once, with torch.compile and dynamic sizes."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.eager import Functions, execute, gpu_searcher, program, refuse
from compiler.emission import EmittedCode, emit
from compiler.emitted import EmittedProgram, Function
from compiler.host import cpp_compiler
from compiler.runtime import layers

MAX_VARIANTS = 64
"""Maximum number of times that torch may compile a layer. torch compiles sizes of 0 and 1 separately, each with and
without gradients. Therefore torch's default limit of 8 can be too low."""


def _build(request: BuildRequest) -> EmittedProgram:
    """Build a model, and compile its layers with torch.compile. Layers of the same kind share their compiled code."""
    loops = any(
        node.operation.loops_in_python([graph.types[value] for value in node.inputs])
        for graph in request.graphs.values()
        for node in graph.nodes
    )
    functions = Functions(emit(request.graphs.values()), partial(_compile, loops=loops))
    return program(request, functions, "inductor", make_searcher=gpu_searcher(request))


def _compile(code: EmittedCode, *, loops: bool) -> dict[str, Any]:
    """Execute emitted code, compile its layers, and return the names that the code defines.

    Args:
        code: The emitted code.
        loops: Whether any layer calls functions that loop over positions in Python. These functions are not compiled.
    """
    namespace = execute(code)
    if loops:
        disable: Any = torch._dynamo.disable
        namespace["layers"] = ModuleType("layers")
        vars(namespace["layers"]).update(vars(layers) | {f.__name__: disable(f) for f in layers.LOOPS})
    constant: Any = torch.compiler.assume_constant_result
    constant(layers.sums_int8_exactly)
    options: dict[str, Any] = {"cpp.simdlen": _vector_bits()}
    for name in code.layers:
        namespace[name] = torch.compile(namespace[name], fullgraph=not loops, dynamic=True, options=options)
    for purpose in code.main:
        namespace[purpose] = _allow_variants(namespace[purpose])
    return namespace


def _vector_bits() -> int:
    """Return the size of the SIMD vectors that torch compiles for, in bits. ATEN_CPU_CAPABILITY can reduce the size.

    `_compile` passes this size to torch as an option. Otherwise, torch may reuse code from its disk cache that was
    compiled for a different size. This code would write beyond the end of its buffers.
    """
    from torch._inductor.cpu_vec_isa import pick_vec_isa  # slow to import

    return pick_vec_isa().bit_width()


def _allow_variants(function: Function) -> Function:
    """Wrap a function so that it runs with a higher torch recompilation limit."""

    def run(parameters: nn.Module, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        # Set on each call, because in torch 2.13 each thread has its own limit.
        config, before = torch._dynamo.config, torch._dynamo.config.recompile_limit
        config.recompile_limit = max(MAX_VARIANTS, before)  # `config.patch` would leak memory on each call
        try:
            return function(parameters, inputs)
        finally:
            config.recompile_limit = before

    return run


def _unavailable_reason() -> str | None:
    if not cpp_compiler():
        return "torch.compile needs a C++ compiler: install g++ or clang++"
    if torch.cuda.is_available() and importlib.util.find_spec("triton") is None:
        return "torch.compile needs Triton on a GPU: run `pip install triton`"
    return None


inductor = Backend(
    name="inductor",
    summary="each kind of layer compiled by torch.compile",
    unavailable_reason=_unavailable_reason,
    build=_build,
    can_train=True,
    refuse=refuse,
)

"""Export emitted functions with torch.export, for the `aot`, `onnx` and `tensorrt` backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from compiler.backends.backend import BuildRequest
from compiler.backends.eager import Functions, program
from compiler.emission import emit
from compiler.emitted import EmittedProgram, Function
from compiler.graph import Graph, Purpose
from compiler.operations.operation import ValueKind
from compiler.size import Size
from specs import Spec

if TYPE_CHECKING:
    from torch.export import ExportedProgram

EXAMPLE_SIZES: Mapping[str, int] = {"batch": 3, "source": 7, "beams": 2, "capacity": 16, "new": 5}
"""Sizes of the example inputs for tracing. They differ and exceed 1, so that torch.export keeps each size dynamic."""
MAX_SIZES: Mapping[str, int] = {"batch": 4096, "source": 4096, "beams": 64, "capacity": 4096, "new": 64}

TRANSLATING = (Purpose.ENCODE, Purpose.DECODE_STEP)
"""The purposes that are exported."""


class _ExportableModule(nn.Module):
    """Module that torch.export can export. It runs the model for one purpose.

    A call takes tensors in the order of the graph's inputs.
    """

    def __init__(self, made: EmittedProgram, purpose: Purpose, function: Function) -> None:
        super().__init__()
        self.program, self.function, self.graph = made, function, made.graphs[purpose]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        named = dict(zip(self.graph.inputs, inputs, strict=True))
        outputs = self.function(cast(Any, self.program), cast(Any, named))
        return tuple(outputs[name] for name in self.graph.results)


def export_programs(request: BuildRequest) -> Mapping[Purpose, ExportedProgram]:
    """Export the encoder and the decoder step with dynamic sizes. Return the exported programs, keyed by purpose."""
    from torch.export import export  # slow to import, and needed only to compile

    run = Functions(emit(request.graphs.values()))
    made = program(request, run)
    exported = {}
    for purpose in TRANSLATING:
        module = _ExportableModule(made, purpose, run[purpose]).eval()
        inputs = tuple(_example(made, name, purpose) for name in module.graph.inputs)
        with torch.no_grad():
            shapes = {"inputs": dynamic_shapes(module.graph, request.spec)}
            exported[purpose] = export(module, inputs, dynamic_shapes=shapes, strict=False)
    return exported


def dynamic_shapes(graph: Graph, spec: Spec) -> tuple[dict[int, Any], ...]:
    """Return the `dynamic_shapes` argument for torch.export. A product such as batch × beams is `Dim.DYNAMIC`."""
    from torch.export import Dim

    limits = dict(MAX_SIZES)
    if graph.purpose is Purpose.ENCODE and spec.architecture.max_positions is not None:
        limits["source"] = spec.architecture.max_positions
    dims = {Size.symbol(name): Dim(name, min=1, max=limit) for name, limit in limits.items()}
    fixed = fixed_sizes(graph).keys()
    return tuple(
        {i: dims.get(size, Dim.DYNAMIC) for i, size in enumerate(type_.shape) if size.symbols - fixed}
        for type_ in graph.inputs.values()
    )


def fixed_sizes(graph: Graph) -> Mapping[str, int]:
    """Return the symbolic sizes that are exported as constants, with their values.

    In a decoder step with recurrences, `new` (the number of new tokens) is 1, because recurrences loop over new tokens.
    For other graphs, the mapping is empty.
    """
    fields = [node.operation.receptive_field() for node in graph.nodes]
    is_step = graph.purpose is Purpose.DECODE_STEP
    return {"new": 1} if is_step and any(field and field.sequential for field in fields) else {}


def _example(made: EmittedProgram, name: str, purpose: Purpose) -> Tensor:
    type_ = made.graphs[purpose].inputs[name]
    shape = type_.concrete(**{**EXAMPLE_SIZES, **fixed_sizes(made.graphs[purpose])})
    if type_.kind is ValueKind.INTEGER:
        return torch.full(shape, 3, device=made.device)
    dtype = torch.bool if type_.kind is ValueKind.MASK else next(made.parameters()).dtype
    return torch.zeros(shape, dtype=dtype, device=made.device)


def assemble_program(
    request: BuildRequest, compiled: Mapping[Purpose, Callable[[list[Tensor]], Sequence[Tensor]]], backend: str
) -> EmittedProgram:
    """Return a model that runs compiled functions for some purposes, and emitted PyTorch code for the other purposes.

    Args:
        request: The build request for the model.
        compiled: For each compiled purpose, a function that takes the graph's inputs and returns its results, in order.
        backend: The name of the backend.
    """
    emitted = Functions(emit(request.graphs.values()))
    replaced = {purpose: _with_names(request.graphs[purpose], run) for purpose, run in compiled.items()}
    limit = fixed_sizes(request.graphs[Purpose.DECODE_STEP]).get("new")
    return program(request, {**emitted, **replaced}, backend, max_new_tokens=limit)


def _with_names(graph: Graph, run: Callable[[list[Tensor]], Sequence[Tensor]]) -> Function:
    def function(_: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        outputs = run([inputs[name] for name in graph.inputs])
        return dict(zip(graph.results, outputs, strict=True))

    return function


def artefact_key(request: BuildRequest) -> dict[str, str]:
    """Return the entries of the cache key for an exported program. Each backend adds its own entries.

    The entries contain the version of torch, the emitted code, the inputs, and the text of all Python files in
    `compiler`. The emitted code calls functions and reads constants from many of these files.
    """
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return {
        "torch": torch.__version__,
        "code": str(emit(request.graphs.values())),
        "inputs": str([(p, g.inputs, g.parameters) for p, g in request.graphs.items()]),
        "sources": "".join(file.read_text(encoding="utf-8") for file in files),
    }


def refuse(request: BuildRequest) -> str | None:
    """Return the reason why torch.export cannot export the encoder or decoder step, or None if it can."""
    if "plan_cache" in request.spec.compilation.disabled_passes:
        return "it needs the `plan_cache` pass: remove `plan_cache` from `compilation.disabled_passes`"
    for purpose in TRANSLATING:
        graph = request.graphs[purpose]
        for node in graph.nodes:
            if not node.operation.is_exportable([graph.types[value] for value in node.inputs]):
                name = type(node.operation).__name__
                return f"torch cannot export {name} for sources of any length: use the `eager` backend"
    return None

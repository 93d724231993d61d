"""An emitted function as a torch.export'ed program: inputs in order, every symbolic size free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from compiler import recurrences, runtime, windows
from compiler.backends.backend import Order
from compiler.backends.eager import functions, program
from compiler.emit import emit
from compiler.emitted import EmittedProgram, Function
from compiler.graph import Graph, Purpose
from compiler.operations.embedding import PositionalEncoding
from compiler.operations.operation import ValueKind
from compiler.size import Size

if TYPE_CHECKING:
    from torch.export import ExportedProgram

EXAMPLE: Mapping[str, int] = {"batch": 3, "source": 7, "beams": 2, "capacity": 16, "new": 5}
"""Sizes to trace with: none alike, and none of 0 or 1, which torch.export would take for constants."""
LARGEST: Mapping[str, int] = {"batch": 4096, "source": 4096, "beams": 64, "capacity": 4096, "new": 64}

TRANSLATING = (Purpose.ENCODE, Purpose.DECODE_STEP)


class Exportable(nn.Module):
    """One purpose of a program as a module: tensors in the order of the graph's inputs, a tuple of its outputs."""

    def __init__(self, made: EmittedProgram, purpose: Purpose, function: Function) -> None:
        super().__init__()
        self.program, self.function, self.graph = made, function, made.graphs[purpose]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.graph.inputs, inputs, strict=True))
        outputs = self.function(cast(Any, self.program), cast(Any, given))
        return tuple(outputs[name] for name in self.graph.results)


def exported(made: EmittedProgram, purpose: Purpose, function: Function) -> ExportedProgram:
    """The function of a purpose, its parameters outside of it, for any sizes."""
    from torch.export import export  # heavy: only where something is compiled

    module = Exportable(made, purpose, function).eval()
    inputs = tuple(_example(made, name, purpose) for name in module.graph.inputs)
    with torch.no_grad():
        return export(module, inputs, dynamic_shapes={"inputs": dynamic_shapes(module.graph)}, strict=False)


def dynamic_shapes(graph: Graph) -> tuple[dict[int, Any], ...]:
    """For each input the dimensions that vary. A product of sizes (a row a beam) follows from the others by itself."""
    from torch.export import Dim

    most = dict(LARGEST)
    for node in graph.nodes:  # a learned table ends
        if isinstance(node.operation, PositionalEncoding) and node.parameters and graph.purpose is Purpose.ENCODE:
            most["source"] = graph.parameters[node.parameters[0]].origin.shape[0]
    dims = {name: Dim(name, min=1, max=most[name]) for name in _symbols(graph)}
    return tuple(
        {i: _alone(size, dims) or Dim.DYNAMIC for i, size in enumerate(type_.shape) if size.symbols}
        for type_ in graph.inputs.values()
    )


def _symbols(graph: Graph) -> list[str]:
    return sorted({symbol for type_ in graph.inputs.values() for size in type_.shape for symbol in size.symbols})


def _alone(size: Size, dims: Mapping[str, Any]) -> Any:
    return next((dims[name] for name in dims if size == Size.symbol(name)), None)


def _example(made: EmittedProgram, name: str, purpose: Purpose) -> Tensor:
    type_ = made.graphs[purpose].inputs[name]
    shape = [size(**EXAMPLE) for size in type_.shape]
    if type_.kind is ValueKind.INTEGER:
        return torch.full(shape, 3)
    return torch.zeros(shape, dtype=next(made.parameters()).dtype)


def exports(order: Order) -> Mapping[Purpose, ExportedProgram]:
    """Encoder and step of an order."""
    code = emit(order.graphs.values())
    emitted = functions(code)
    made = program(order, emitted, code)
    return {purpose: exported(made, purpose, emitted[purpose]) for purpose in TRANSLATING}


def assembled(
    order: Order, compiled: Mapping[Purpose, Callable[[list[Tensor]], Sequence[Tensor]]], backend: str
) -> EmittedProgram:
    """A program that translates with what was compiled, and does the rest as eager does."""
    code = emit(order.graphs.values())
    replaced = {purpose: _named(order.graphs[purpose], run) for purpose, run in compiled.items()}
    return program(order, {**functions(code), **replaced}, code, backend)


def _named(graph: Graph, run: Callable[[list[Tensor]], Sequence[Tensor]]) -> Function:
    def function(_: nn.Module, inputs: Mapping[str, Any]) -> dict[str, Tensor]:
        outputs = run([inputs[name] for name in graph.inputs])
        return dict(zip(graph.results, outputs, strict=True))

    return function


def written_by(backend: str) -> str:
    """The text of all that an artefact follows from but the emitted code: what that calls, and who exports it."""
    files = (runtime.__file__, windows.__file__, recurrences.__file__, __file__, backend)
    return "".join(Path(str(file)).read_text(encoding="utf-8") for file in files)


def refuses(order: Order) -> str | None:
    """What no exported program can do."""
    if Purpose.TRAIN in order.graphs:
        return "it only translates"
    if not set(TRANSLATING) <= order.graphs.keys():
        return "it translates, and nothing else"
    if "plan_cache" in order.spec.compilation.without:
        return "it needs the pass `plan_cache`: take it out of `compilation.without`"
    for purpose in TRANSLATING:
        graph = order.graphs[purpose]
        for node in graph.nodes:
            if not node.operation.is_exportable([graph.types[value] for value in node.inputs]):
                name = type(node.operation).__name__
                return f"torch cannot export {name} for sources of any length: take the backend `eager`"
    if order.precision == "int8":
        return "it computes in float32 or bfloat16; for int8 take `native`"
    return None

"""Runs the emitted code as it stands."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from compiler.backends.backend import Backend, Order
from compiler.backends.cuda_graphs import captured
from compiler.emit import EmittedCode, emit
from compiler.emitted import EmittedProgram, Function
from compiler.graph import Purpose


def program(
    order: Order, functions: Mapping[Purpose, Function], code: EmittedCode, backend: str = "eager"
) -> EmittedProgram:
    """A program of these functions with the weights of the order: its own where it will train, else shared."""
    made = EmittedProgram(order.spec, order.graphs, functions, str(code), backend=backend, precision=order.precision)
    if Purpose.TRAIN in order.graphs:
        made.to_empty(device=order.device)
        made.load(order.weights)
        return made
    made.share({name: tensor.to(order.device) for name, tensor in order.weights.items()})
    return made.eval()


def functions(code: EmittedCode) -> dict[Purpose, Function]:
    """The function of each purpose, executed by Python line by line."""
    return main(code, execute(code))


def main(code: EmittedCode, namespace: dict[str, Any]) -> dict[Purpose, Function]:
    """The function of each purpose among the names that the code defines, in which layers are called as modules."""
    for name in code.layers:
        namespace[name] = partial(_called, namespace[name])
    return {Purpose(purpose): namespace[purpose] for purpose in code.main}


def _called(layer: Callable[..., Any], parameters: nn.Module, *inputs: Any) -> Any:
    return parameters(layer, *inputs)


def execute(code: EmittedCode) -> dict[str, Any]:
    """The names that the code defines. Its lines are known to tracebacks, debuggers and torch.compile."""
    text = str(code)
    file = f"<zoo {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "zoo.emitted"}
    exec(compile(text, file, "exec"), namespace)
    return namespace


def emitted(order: Order) -> EmittedProgram:
    """The program of an order."""
    code = emit(order.graphs.values())
    return captured(program(order, functions(code), code), order)


def refuses(order: Order) -> str | None:
    """What torch cannot compute there."""
    if order.precision == "int8" and order.device.startswith("cuda"):
        return "torch has no int8 products of so few rows on a GPU; take bfloat16 there"
    return None


eager = Backend(
    name="eager",
    summary="the emitted PyTorch, line by line",
    absent=lambda: None,
    refuses=refuses,
    build=emitted,
    trainable=emitted,
)

"""The backends: what makes graphs run. To add one: its file, and its line here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from compiler.backends.aot import aot
from compiler.backends.backend import Backend, Order
from compiler.backends.ctranslate2 import ctranslate2
from compiler.backends.eager import eager
from compiler.backends.inductor import inductor
from compiler.backends.native import native
from compiler.backends.onnx import onnx
from compiler.backends.tensorrt import tensorrt
from compiler.graph import Purpose
from compiler.program import Program
from specs import ZooError
from specs.errors import nearest

BACKENDS: Mapping[str, Backend] = {b.name: b for b in (eager, inductor, native, aot, onnx, tensorrt, ctranslate2)}


def choose(name: str, order: Order) -> Backend:
    """The backend of this name, or for `auto` the best present for the order's device, purposes and precision.

    Raises ZooError on an unknown name, and where the backend is absent or cannot express what is ordered.
    """
    require_known(name)
    # A spec's backend that cannot train leaves that to what `auto` takes.
    if name == "auto" or (Purpose.TRAIN in order.graphs and BACKENDS[name].trainable is None):
        name = _best(order)
    backend = BACKENDS[name]
    if problem := backend.absent():
        raise ZooError(f"the backend `{name}` is not on this machine", hint=problem, exit_code=1)
    if problem := backend.refuses(order):
        raise ZooError(f"the backend `{name}` cannot run this", hint=problem)
    return backend


def require_known(name: str) -> None:
    """Raises ZooError unless it is `auto` or the name of a backend, present or not."""
    if name != "auto" and name not in BACKENDS:
        near = nearest(name, list(BACKENDS))
        hint = f"did you mean `{near}`?" if near else f"the backends are {', '.join(BACKENDS)}"
        raise ZooError(f"`{name}` is not a backend", hint=hint)


def built(name: str, taken: Backend, order: Order) -> Program:
    """The program of the backend that was taken for this name. Where `auto` took one that then cannot be made here (no
    room for what it compiles, a compiler that fails), eager runs it, and a warning says so."""
    try:
        return taken.build(order)
    except (ZooError, OSError) as error:
        if name != "auto" or taken is eager:
            raise
        said = error.summary if isinstance(error, ZooError) else error
        warnings.warn(f"{said}: the backend `eager` translates instead, and slower", RuntimeWarning, stacklevel=3)
        return eager.build(order)


def _best(order: Order) -> str:
    # Measured (BENCHMARKS.md): on a CPU the compiled layers are not faster and take a minute to compile.
    best = inductor if order.device.startswith("cuda") else native
    return best.name if best.absent() is None and best.refuses(order) is None else eager.name


__all__ = ["BACKENDS", "Backend", "Order", "built", "choose", "require_known"]

"""The backends: what makes emitted code run. To add one: its file, and its line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from compiler.backends.eager import eager
from compiler.backends.inductor import inductor
from compiler.emit import Code
from compiler.graph import Purpose
from compiler.program import Function
from specs import ZooError
from specs.errors import nearest

Backend = Callable[[Code], Mapping[Purpose, Function]]

BACKENDS: Mapping[str, Backend] = {"eager": eager, "inductor": inductor}


def choose(name: str, device: str) -> Backend:
    """The backend of this name; `auto` is the best for the device. Raises ZooError on an unknown name."""
    if name == "auto":
        # Measured (BENCHMARKS.md): on a CPU the compiled layers are not faster and take a minute to compile.
        name = "inductor" if device.startswith("cuda") else "eager"
    if name not in BACKENDS:
        near = nearest(name, list(BACKENDS))
        hint = f"did you mean `{near}`?" if near else f"the backends are {', '.join(BACKENDS)}"
        raise ZooError(f"`{name}` is not a backend", hint=hint)
    return BACKENDS[name]

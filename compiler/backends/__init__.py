"""Backends, which build executable programs from graphs.

To add a backend, write its module, and add it to BACKENDS and to BACKEND_NAMES.
"""

from __future__ import annotations

from collections.abc import Mapping

from compiler.backends.aot import aot
from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.eager import eager, search_refusal
from compiler.backends.inductor import inductor
from compiler.backends.native import native
from compiler.backends.onnx import onnx
from compiler.backends.tensorrt import tensorrt
from compiler.graph import Purpose
from compiler.options import BACKEND_NAMES, check_names
from specs import ZooError

BACKENDS: Mapping[str, Backend] = {b.name: b for b in (eager, inductor, native, aot, onnx, tensorrt)}
assert tuple(BACKENDS) == BACKEND_NAMES


def choose_backend(name: str, request: BuildRequest) -> Backend:
    """Return the backend with this name. For `auto`, return the fastest backend that can build the request.

    If the request is for training and the named backend can only translate, the choice is the same as for `auto`.

    Raises:
        ZooError: The name is unknown, or the backend is not available or cannot build the request.
    """
    check_names(backend=name)
    if name == "auto" or (Purpose.TRAIN in request.graphs and not BACKENDS[name].can_train):
        best = _fastest(request)
        if best.unavailable_reason() is None and best.unsupported_reason(request) is None:
            return best
        name = eager.name
    backend = BACKENDS[name]
    if problem := backend.unavailable_reason():
        raise ZooError(f"the `{name}` backend is not available on this machine", hint=problem, exit_code=1)
    if problem := backend.unsupported_reason(request):
        raise ZooError(f"the `{name}` backend cannot run this model", hint=problem)
    return backend


def _fastest(request: BuildRequest) -> Backend:
    # inductor is slow to compile. On a CPU it is not faster than eager, and on a GPU eager searches in CUDA graphs.
    if not request.device.startswith("cuda"):
        return native
    return inductor if Purpose.TRAIN in request.graphs or search_refusal(request) else eager


__all__ = ["BACKENDS", "Backend", "BuildRequest", "choose_backend", "eager"]

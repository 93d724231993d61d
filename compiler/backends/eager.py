"""The `eager` backend: runs the emitted PyTorch code without compiling it. Other backends reuse its functions."""

from __future__ import annotations

import hashlib
import linecache
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

from torch import nn

from compiler.backends.backend import Backend, BuildRequest
from compiler.emission import EmittedCode, emit
from compiler.emitted import EmittedProgram, Function
from compiler.graph import Graphs, Purpose
from compiler.instruction import refusal
from compiler.search import Searcher


def program(
    request: BuildRequest, functions: Mapping[Purpose, Function], backend: str = "eager", **options: Any
) -> EmittedProgram:
    """Return a compiled model that runs the given functions with the request's parameters.

    The model is in training mode if it can be trained, otherwise in evaluation mode.

    Args:
        request: The build request for the model.
        functions: The implementation of each graph.
        backend: The name of the backend.
        **options: See `EmittedProgram`.
    """
    given = (request.spec, request.graphs, functions, request.parameters)
    made = EmittedProgram(*given, backend=backend, precision=request.precision, **options)
    return made.train(Purpose.TRAIN in request.graphs)


def gpu_searcher(request: BuildRequest) -> Callable[[EmittedProgram], Searcher] | None:
    """Return a function that creates the GPU beam search of a compiled model.

    Return None if the request is not for translation on a GPU. Warn and return None if the search cannot run in CUDA
    graphs.
    """
    purposes = request.graphs.keys()
    searches = {Purpose.ENCODE, Purpose.DECODE_STEP} <= purposes and Purpose.TRAIN not in purposes
    if not (request.device.startswith("cuda") and searches):
        return None
    if reason := search_refusal(request):
        slower = "beam search on this GPU is slower than usual (but correct), because it cannot run in CUDA graphs"
        warnings.warn(f"{slower}: {reason}", RuntimeWarning, stacklevel=2)
        return None
    graphs = request.search_graphs
    return partial(Searcher, graphs=graphs, functions=Functions(emit(graphs.values())))


def search_refusal(request: BuildRequest) -> str | None:
    """Return the reason why a beam search cannot run in CUDA graphs on a GPU, or None if it can."""
    return kernel_refusal(lambda: request.search_graphs)


def kernel_refusal(make_graphs: Callable[[], Graphs]) -> str | None:
    """Return the reason why the GPU kernels cannot run the graphs from `make_graphs`, or None if they can."""
    if find_spec("triton") is None:
        return "Triton is not installed: run `pip install triton`"
    return refusal(make_graphs)


def _call_through_module(layer: Callable[..., Any], parameters: nn.Module, *inputs: Any) -> Any:
    return parameters(layer, *inputs)


def execute(code: EmittedCode) -> dict[str, Any]:
    """Execute emitted code, and return the names that it defines. Tracebacks and debuggers can show the code."""
    text = str(code)
    file = f"<zoo {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "zoo.emitted"}
    exec(compile(text, file, "exec"), namespace)
    return namespace


class Functions(dict[Purpose, Function]):
    """The emitted function for each purpose. A pickle contains the emitted code, and unpickling executes it again."""

    def __init__(self, code: EmittedCode, execute: Callable[[EmittedCode], dict[str, Any]] = execute) -> None:
        """Execute emitted code. Layers are called through their modules, so that the modules' hooks run.

        Args:
            code: The emitted code.
            execute: Function that executes the code, and returns the names that the code defines.
        """
        namespace = execute(code)
        for name in code.layers:
            namespace[name] = partial(_call_through_module, namespace[name])
        super().__init__({Purpose(purpose): namespace[purpose] for purpose in code.main})
        self._origin = code, execute

    def __reduce__(self) -> tuple[Any, ...]:
        return Functions, self._origin

    def __deepcopy__(self, memo: object) -> Functions:
        return self


def build_eager(request: BuildRequest) -> EmittedProgram:
    """Build a model that runs the emitted PyTorch code directly, without torch.compile."""
    return program(request, Functions(emit(request.graphs.values())), make_searcher=gpu_searcher(request))


def refuse(request: BuildRequest) -> str | None:
    """Return the reason why PyTorch cannot run the requested model, or None if it can."""
    if request.precision == "int8" and request.device.startswith("cuda"):
        return "torch has no int8 products for small batches on a GPU: use `--precision bfloat16`"
    return None


eager = Backend(
    name="eager",
    summary="the emitted PyTorch code, run without compiling",
    unavailable_reason=lambda: None,
    build=build_eager,
    can_train=True,
    refuse=refuse,
)

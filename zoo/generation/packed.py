"""Cache of published models in the form that the native backend runs. With it, a model translates without torch.

Importing torch, building the graphs and packing the weights takes seconds. It is done when a published model is first
opened with the backend `native`. The result is stored in `storage.compiled()`, under the SHA-256 of everything that it
depends on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import compiler
from compiler.artefact import Artefact
from compiler.host import may_have_gpu
from compiler.kernels.library import kernels_artefact, load_kernels
from compiler.kernels.program import KernelProgram, PackedModel
from specs import Parsing
from zoo.files import storage
from zoo.models.loading import Outline

if TYPE_CHECKING:
    from compiler import Program

BACKENDS = ("auto", "native")


class PackedProgram(KernelProgram):
    """Program that translates with packed weights. Everything else is computed by the complete program.

    The complete program is built when one of its methods or attributes is first used, which imports torch.
    """

    def __init__(self, library: Any, model: PackedModel, build: Callable[[], Program]) -> None:
        """Open a packed model. `build` builds the complete program."""
        self._build = build
        super().__init__(library, model)

    @cached_property
    def complete(self) -> Program:
        """The complete program, with weights of its own."""
        return self._build()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "handle":  # not set yet
            raise AttributeError(name)
        return getattr(self.complete, name)


def artefact(outline: Outline, device: str, precision: str | None, backend: str | None) -> Artefact | None:
    """Return the artefact of the packed model in the cache, or None if a model is not packed with these options.

    Arguments are those of `zoo.load`.
    """
    compilation = outline.spec.compilation
    precision = precision or compilation.precision
    is_native = (backend or compilation.backend) in BACKENDS
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())
    if not is_native or not on_cpu or outline.digest is None or isinstance(outline.spec.task, Parsing):
        return None
    kernels = kernels_artefact(storage.compiled()).folder.name
    key = {"model": outline.digest, "precision": precision, "kernels": kernels, "compiler": _compiler_digest()}
    return Artefact(storage.compiled(), "packed", key)


def read_or_build(stored: Artefact | None, build: Callable[[], Program]) -> Program:
    """Return the program of a packed model. If it is not in the cache, build the complete program and store it.

    Args:
        stored: The artefact of the packed model. None: it is not stored.
        build: Function that builds the complete program.
    """
    if stored is not None and stored.use():
        packed = PackedProgram(load_kernels(storage.compiled()), PackedModel.read(stored.folder), build)
        return cast("Program", packed)
    program = build()
    if stored is not None and isinstance(program, KernelProgram):
        with suppress(OSError):  # the next process builds the program again
            stored.make(program.model.write, elsewhere=False)
    return program


@cache
def _compiler_digest() -> str:
    """Return the SHA-256 of the compiler's code, which determines the instructions."""
    folder, state = Path(compiler.__file__).parent, hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        state.update(file.read_bytes())
    return state.hexdigest()

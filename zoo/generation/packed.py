"""Cache of published models in the form that the native backend runs. With it, a model translates without torch.

Importing torch, building the graphs and packing the weights takes seconds. It is done when a published model is first
opened with the backend `native`. The result is stored in `storage.compiled()`, under the SHA-256 of everything that it
depends on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import compiler
import specs
from compiler.artefact import Artefact
from compiler.host import cpp_compiler, may_have_gpu
from compiler.kernels.library import kernels_artefact, load_kernels
from compiler.kernels.program import KernelProgram, PackedModel
from specs import Translation
from zoo.files import storage
from zoo.models import weights
from zoo.models.loading import Model
from zoo.version import __version__

if TYPE_CHECKING:
    from compiler import Program

BACKENDS = ("auto", "native")
Build = Callable[["PackedModel | None"], "Program"]
"""Function that builds the complete program of a model. If its weights are packed, the program shares them."""


class PackedProgram(KernelProgram):
    """Program that translates with packed weights. Everything else is computed by the complete program.

    The complete program is built when one of its methods or attributes is first used, which imports torch.
    """

    def __init__(self, library: Any, model: PackedModel, build: Build) -> None:
        """Open a packed model. `build` builds the complete program."""
        self._build, self._lock = build, Lock()
        self._complete: Program | None = None
        super().__init__(library, model)

    @property
    def complete(self) -> Program:
        """The complete program, which shares the packed weights."""
        with self._lock:  # several worker threads may need it at the same time
            if self._complete is None:
                self._complete = self._build(self.model)
        return self._complete

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("handle", "complete"):  # not set yet, or an error in `complete`
            raise AttributeError(name)
        return getattr(self.complete, name)


def artefact(model: Model, device: str, precision: str | None, backend: str | None) -> Artefact | None:
    """Return the artefact of the packed model in the cache, or None if a model is not packed with these options.

    Arguments are those of `zoo.load`.
    """
    compilation = model.spec.compilation
    precision = precision or compilation.precision
    is_native = (backend or compilation.backend) in BACKENDS
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())
    is_translator = isinstance(model.spec.task, Translation)
    if not (is_native and on_cpu and model.digest and is_translator and cpp_compiler()):
        return None
    kernels = kernels_artefact(storage.compiled()).folder.name
    key = {"model": model.digest, "precision": precision, "kernels": kernels, "code": _code_version()}
    return Artefact(storage.compiled(), f"packed-{model.spec.name}-{precision}", key)


def read_or_build(stored: Artefact | None, build: Build) -> Program:
    """Return the program of a packed model. If it is not in the cache, build the complete program and store it.

    Args:
        stored: The artefact of the packed model. None: it is not stored.
        build: Function that builds the complete program.
    """
    if stored is not None and stored.use():
        with suppress(OSError):  # another process may remove the cache
            model = PackedModel.read(stored.folder)
            return cast("Program", PackedProgram(load_kernels(storage.compiled()), model, build))
    program = build(None)
    if stored is not None:
        store(stored, program)
    return program


def store(stored: Artefact, program: Program) -> None:
    """Store the packed model of a program, in place of those of the model's earlier revisions."""
    if isinstance(program, KernelProgram):
        with suppress(OSError):  # the next process builds the program again
            stored.make(program.model.write, elsewhere=False)
            for other in stored.folder.parent.glob(f"{stored.folder.name.rpartition('-')[0]}-*"):
                if other != stored.folder:
                    shutil.rmtree(other, ignore_errors=True)


@cache
def _code_version() -> str:
    """Return zoo's version, and the times and sizes of the source files that determine the packed weights.

    Every edit of a file changes its time. Reading the files instead would take longer than reading a small model.
    """
    packages = (Path(str(package.__file__)).parent for package in (compiler, specs))
    files = (*(file for folder in packages for file in sorted(folder.rglob("*.py"))), Path(weights.__file__))
    states = (file.stat() for file in files)
    return f"{__version__} {[(state.st_mtime_ns, state.st_size) for state in states]}"

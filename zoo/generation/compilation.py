"""Compile models, show a message if compilation takes long, and cache models with packed weights.

Importing torch, building the graphs and packing the weights takes seconds. This work is done when a published model is
first opened with the `native` backend. The result is stored in `storage.compiled()`, under a SHA-256 hash of all its
inputs. From then on, the model translates without torch.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Unpack, cast

import compiler
import specs
from compiler.artefact import Artefact
from compiler.host import cpp_compiler, may_have_gpu
from compiler.kernels.library import kernels_artefact, load_kernels
from compiler.kernels.program import KernelProgram, PackedModel
from specs import Spec, Translation
from zoo.files import storage
from zoo.models import weights
from zoo.models.loading import Model
from zoo.report import Report
from zoo.version import __version__

if TYPE_CHECKING:
    from compiler import Program, Purpose
    from compiler.assemble import BuildOptions


QUIET_SECONDS = 2.0
"""Number of seconds after which a message about the running compilation is shown."""
LAZY_BACKEND = "inductor"
"""The backend that compiles when a model first runs, not when it is built."""
LAZY_MESSAGE = (
    "torch.compile compiles the layers when they first run; this takes up to a minute, but less in later runs, because "
    "the result is cached"
)


def build_with_message(
    spec: Spec, purposes: Iterable[Purpose], report: Report, **options: Unpack[BuildOptions]
) -> Program:
    """Compile a model with `compiler.build`, and show a message if this takes long.

    The compiled files are stored in `storage.compiled()`.

    Args:
        spec: The model's spec.
        purposes: Purposes of the compiled model's graphs, such as training.
        report: Receives the message.
        **options: Weights, device, precision and backend (see `compiler.assemble.BuildOptions`).
    """
    options["folder"] = folder = storage.compiled()
    message = f"compiling the model; this is done once on this machine, and the result is stored in {folder}"
    with message_if_slow(report, message):
        program = compiler.build(spec, purposes, **options)
    if program.backend == LAZY_BACKEND:
        report.info(LAZY_MESSAGE)
    return program


@contextmanager
def message_if_slow(report: Report, message: str) -> Iterator[None]:
    """Show a message and the elapsed seconds if the `with` block takes longer than `QUIET_SECONDS`."""
    finished = Event()

    def count_seconds() -> None:
        if finished.wait(QUIET_SECONDS):
            return
        report.info(message)
        with report.progress("compiling", None, "seconds") as progress:
            progress.advance(round(QUIET_SECONDS))
            while not finished.wait(1):
                progress.advance(1)

    thread = Thread(target=count_seconds, name="message", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()


_PACKED_BACKENDS = ("auto", "native")
Build = Callable[["PackedModel | None"], "Program"]
"""Function that builds the complete compiled model, given the packed weights, or None if no weights are packed."""


class PackedProgram(KernelProgram):
    """Compiled model that translates with packed weights, without importing torch.

    Other operations, such as sampling and scoring, use the complete compiled model, which is built when it is first
    needed.
    """

    def __init__(self, library: Any, model: PackedModel, build: Build) -> None:
        """Open a packed model. `build` is called when the complete compiled model is first needed."""
        self._build, self._lock = build, Lock()
        self._complete: Program | None = None
        super().__init__(library, model)

    @property
    def complete(self) -> Program:
        """The complete compiled model. It shares the packed weights with this packed model."""
        with self._lock:  # several worker threads may need it at the same time
            if self._complete is None:
                self._complete = self._build(self.model)
        return self._complete

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "complete":  # not set yet, or an error in `complete`
            raise AttributeError(name)
        return getattr(self.complete, name)


def packed_artefact(
    model: Model, *, device: str, precision: str | None = None, backend: str | None = None
) -> Artefact | None:
    """Return the cache entry for the model with packed weights, or None if the model cannot be packed.

    See `zoo.load` for the options.
    """
    compilation = model.spec.compilation
    precision = precision or compilation.precision
    is_native = (backend or compilation.backend) in _PACKED_BACKENDS
    on_cpu = device == "cpu" or (device == "auto" and not may_have_gpu())
    is_translator = isinstance(model.spec.task, Translation)
    if not (is_native and on_cpu and model.cache_key and is_translator and cpp_compiler()):
        return None
    kernels = kernels_artefact(storage.compiled()).folder.name
    key = {"model": model.cache_key, "precision": precision, "kernels": kernels, "code": _code_version()}
    return Artefact(storage.compiled(), f"packed-{model.spec.name}-{precision}", key)


def read_or_build(stored: Artefact | None, build: Build) -> Program:
    """Read the packed model from the cache, or build the complete compiled model.

    If the packed model is not in the cache, it is stored there after the build. Then earlier versions of the packed
    model are removed from the cache.

    Args:
        stored: Cache entry of the packed model. None if the model is not packed.
        build: Function that builds the complete compiled model.
    """
    if stored is not None and stored.use():
        with suppress(OSError):  # another process may remove the cache
            model = PackedModel.read(stored.folder)
            return cast("Program", PackedProgram(load_kernels(storage.compiled()), model, build))
    program = build(None)
    if stored is not None and isinstance(program, KernelProgram):
        with suppress(OSError):  # the next process builds the program again
            stored.make(program.model.write, elsewhere=False)
            for other in stored.folder.parent.glob(f"{stored.folder.name.rpartition('-')[0]}-*"):
                if other != stored.folder:
                    shutil.rmtree(other, ignore_errors=True)
    return program


@cache
def _code_version() -> str:
    """Return zoo's version, and the modification time and size of each source file that affects packed weights.

    Every edit changes the modification time. Hashing the files instead would take longer than reading a small model.
    """
    packages = (Path(str(package.__file__)).parent for package in (compiler, specs))
    files = (*(file for folder in packages for file in sorted(folder.rglob("*.py"))), Path(weights.__file__))
    states = (file.stat() for file in files)
    return f"{__version__} {[(state.st_mtime_ns, state.st_size) for state in states]}"

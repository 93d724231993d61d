"""Functions that build programs and tell the user if it takes long, and ahead-of-time compilation (`zoo compile`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TypedDict, Unpack

from torch import Tensor

from compiler import Program, Purpose, build
from compiler.artefact import MANIFEST
from compiler.assemble import prepare_build
from compiler.backends.conformance import disagreement
from specs import Spec
from zoo.files import storage
from zoo.files.storage import folder_bytes
from zoo.models import find
from zoo.models.loading import read_model
from zoo.planning.capacity import require_memory_to_translate
from zoo.report import Report

QUIET_SECONDS = 2.0
"""Seconds before a message tells the user that compilation is running."""
LAZY_BACKEND = "inductor"
"""The backend that compiles when a program first runs, not when it is built."""
LAZY_MESSAGE = (
    "torch.compile compiles the layers when they first run; this takes up to a minute, but less in later runs, because "
    "the result is cached"
)


class BackendOptions(TypedDict, total=False):
    """Options that select device, precision and backend.

    If `precision` or `backend` is missing or None, the value in the spec is used. The default of `device` is auto.
    `device` is auto, cpu, cuda or cuda:N; `precision` is float32, bfloat16 or int8; `backend` is auto or a name that
    `zoo doctor` lists.
    """

    device: str
    precision: str | None
    backend: str | None


@dataclass(frozen=True)
class Artefact:
    """Folder of compiled files in the cache, `storage.compiled()`."""

    folder: str
    bytes: int
    """Size of the folder in bytes."""
    existed: bool
    """Whether the folder existed before the compilation, so that nothing was compiled."""


@dataclass(frozen=True)
class Compiled:
    """Result of an ahead-of-time compilation."""

    name: str
    backend: str
    device: str
    precision: str
    seconds: float
    """Time to build the program and load its weights, in seconds."""
    kept: tuple[Artefact, ...]
    """The stored artefacts of the program. Empty if the backend stores none."""
    disagreement: Mapping[str, float]
    """Largest relative difference from the reference results, by purpose of the program (such as decode_step)."""


def build_with_message(
    spec: Spec,
    purposes: Iterable[Purpose],
    weights: Mapping[str, Tensor],
    report: Report,
    *,
    device: str,
    precision: str | None = None,
    backend: str | None = None,
) -> Program:
    """Return the program that `compiler.build` builds. Show a message if compilation takes long.

    Compiled artefacts are stored in `storage.compiled()`.
    """
    folder = storage.compiled()
    message = f"compiling the program; this is done once on this machine, and the result is stored in {folder}"
    options = {"device": device, "precision": precision, "backend": backend}
    with message_if_slow(report, message):
        program = build(spec, purposes, weights=weights, folder=folder, **options)  # type: ignore[arg-type]
    if program.backend == LAZY_BACKEND:
        report.info(LAZY_MESSAGE)
    return program


@contextmanager
def message_if_slow(report: Report, message: str) -> Iterator[None]:
    """Show a message and count the seconds if the `with` block takes longer than `QUIET_SECONDS`."""
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


def compile_model(name: str, *, report: Report | None = None, **options: Unpack[BackendOptions]) -> Compiled:
    """Compile a published model or a training run. See `compile_spec` for the options and errors.

    Raises:
        ZooError: There is no model of this name.
    """
    model = read_model(find.model(name, report))
    return compile_spec(model.spec, weights=model.weights.tensors, report=report, **options)


def compile_spec(
    spec: Spec,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    report: Report | None = None,
) -> Compiled:
    """Compile the program that translates, and compare its results with those of the float32 reference interpreter.

    Args:
        spec: The model's spec.
        weights: The model's tensors by name. None for random initial weights.
        device: Device to compile for.
        precision: Precision to compile for. None for the precision in the spec.
        backend: Backend to use. None for the backend in the spec.
        report: Receives messages.

    Raises:
        ZooError: The device, precision or backend is not available or cannot run this spec, or the weights do not fit
            into memory.
    """
    report = report or Report()
    if weights is None:
        require_memory_to_translate(spec, device)
    chosen, order = prepare_build(
        spec, weights=weights, device=device, precision=precision, backend=backend, folder=storage.compiled()
    )
    report.info(f"{chosen.name}: {chosen.summary}")
    before, start = _artefact_times(), time.perf_counter()
    with message_if_slow(report, "compiling; this is done once on this machine"):
        program = chosen.build(order)
    seconds = time.perf_counter() - start
    differences = disagreement(program, weights=order.weights)
    return Compiled(
        name=spec.name,
        backend=chosen.name,
        device=order.device,
        precision=order.precision,
        seconds=seconds,
        kept=tuple(_used_artefacts(before, _artefact_times())),
        disagreement={str(purpose): value for purpose, value in differences.items()},
    )


def _artefact_times() -> dict[Path, tuple[int, int]]:
    """Return the times when each artefact was last used and created, by folder, in nanoseconds since the epoch."""
    times = {}
    for folder in storage.compiled().glob("[!.]*"):
        with suppress(OSError):
            times[folder] = (folder.stat().st_mtime_ns, (folder / MANIFEST).stat().st_mtime_ns)
    return times


def _used_artefacts(
    before: Mapping[Path, tuple[int, int]], after: Mapping[Path, tuple[int, int]]
) -> Iterator[Artefact]:
    """Yield the artefacts that were created or used between two calls of `_artefact_times`."""
    for folder, (used, made) in sorted(after.items()):
        used_before, made_before = before.get(folder, (0, 0))
        if used != used_before:
            yield Artefact(str(folder), folder_bytes(folder), made == made_before)

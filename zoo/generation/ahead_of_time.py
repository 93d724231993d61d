"""Ahead-of-time compilation (`zoo compile`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from torch import Tensor

from compiler.artefact import MANIFEST
from compiler.assemble import prepare_build
from compiler.backends.conformance import disagreement
from compiler.options import BackendOptions
from specs import Spec
from zoo.files import storage
from zoo.files.storage import folder_bytes
from zoo.generation.compilation import message_if_slow
from zoo.generation.loading import open_model
from zoo.models import find
from zoo.models.loading import read_model
from zoo.planning.memory_estimate import require_memory_to_translate
from zoo.report import SILENT, Report
from zoo.system.processors import timed


@dataclass(frozen=True)
class Artefact:
    """Cache folder with the files of a compiled model (see `storage.compiled`)."""

    folder: str
    bytes: int
    """Size of the folder in bytes."""
    existed: bool
    """Whether the folder was already in the cache, in which case nothing was compiled."""


@dataclass(frozen=True)
class Compiled:
    """Result of an ahead-of-time compilation."""

    name: str
    backend: str
    device: str
    precision: str
    seconds: float
    """Time to build the compiled model and load its weights, in seconds."""
    kept: tuple[Artefact, ...]
    """The cache folders of the compiled model. Empty if the backend stores no compiled files."""
    disagreement: Mapping[str, float]
    """Largest relative difference from the reference results, by purpose of the graph (such as decode_step)."""


def compile_model(name: str, *, report: Report = SILENT, **options: Unpack[BackendOptions]) -> Compiled:
    """Compile a published model, or the model of a training run. See `compile_spec` for the options and other errors.

    Raises:
        ZooError: There is no model with this name.
    """
    folder = find.model(name, report)
    model = read_model(folder)
    compiled = compile_spec(model.spec, weights=model.weights.tensors, report=report, **options)
    open_model(folder, report=report, **options)  # stores the packed weights of a published model
    return compiled


def compile_spec(
    spec: Spec,
    *,
    weights: Mapping[str, Tensor] | None = None,
    report: Report = SILENT,
    **options: Unpack[BackendOptions],
) -> Compiled:
    """Compile a model for translation, and compare its results with those of the float32 reference interpreter.

    Args:
        spec: The model's spec.
        weights: The model's tensors by name. None for random initial weights.
        report: Receives messages about the backend and the progress.
        **options: Device, precision and backend (see `BackendOptions`).

    Raises:
        ZooError: The device, precision or backend is not available or cannot run this spec, or the weights do not fit
            into memory.
    """
    options.setdefault("device", "auto")
    if weights is None:
        require_memory_to_translate(spec, options["device"])
    chosen, order = prepare_build(spec, weights=weights, folder=storage.compiled(), **options)
    report.info(f"{chosen.name}: {chosen.summary}")
    before = _artefact_times()
    with message_if_slow(report, "compiling; this is done once on this machine"):
        seconds, program = timed(lambda: chosen.build(order))
    differences = disagreement(program, weights=order.weights)
    return Compiled(
        name=spec.name,
        backend=chosen.name,
        device=order.device,
        precision=order.precision,
        seconds=seconds,
        kept=tuple(
            Artefact(str(folder), folder_bytes(folder), existed=created == before.get(folder, (0, 0))[1])
            for folder, (used, created) in sorted(_artefact_times().items())
            if used != before.get(folder, (0, 0))[0]
        ),
        disagreement={str(purpose): value for purpose, value in differences.items()},
    )


def _artefact_times() -> dict[Path, tuple[int, int]]:
    """Return when each cache folder was last used and when it was created, in nanoseconds since the epoch."""
    times = {}
    for folder in storage.compiled().glob("[!.]*"):
        with suppress(OSError):
            times[folder] = (folder.stat().st_mtime_ns, (folder / MANIFEST).stat().st_mtime_ns)
    return times

"""`zoo compile`: what a backend compiles is made ahead, looked at, and kept where `zoo decode` finds it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from torch import Tensor

from compiler.agree import disagreement
from compiler.artefact import MANIFEST
from compiler.assemble import ordered
from specs import Spec
from zoo.files import storage
from zoo.files.storage import folder_bytes
from zoo.generation.building import waiting
from zoo.generation.opening import How
from zoo.models import find
from zoo.models.loading import read_model
from zoo.planning.room import require_to_translate
from zoo.report import Report


@dataclass(frozen=True)
class Kept:
    """A folder of `storage.compiled()`, its size, and whether it was there before."""

    folder: str
    bytes: int
    there: bool


@dataclass(frozen=True)
class Compiled:
    """A program that a backend made."""

    name: str
    backend: str
    device: str
    precision: str
    seconds: float
    """Until the program was ready, its weights in place."""
    kept: tuple[Kept, ...]
    """What it was loaded from; nothing where the backend keeps nothing beyond the process."""
    disagreement: Mapping[str, float]
    """Of each purpose, the largest difference from the interpreter's float32, relative to the largest value."""


def compile_model(name: str, *, report: Report | None = None, **how: Unpack[How]) -> Compiled:
    """`compile_spec` with the weights of a published model or of a run. Raises ZooError where there is none."""
    model = read_model(find.model(name, report))
    return compile_spec(model.spec, weights=model.weights.tensors, report=report, **how)


def compile_spec(
    spec: Spec,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    report: Report | None = None,
) -> Compiled:
    """Builds what translates with these weights (those of before training without any) and runs it once.

    Raises ZooError where device, precision or backend are not there, or cannot express the spec, and where
    the weights are more than there is memory.
    """
    if weights is None:
        require_to_translate(spec, device)
    chosen, order = ordered(
        spec, weights=weights, device=device, precision=precision, backend=backend, folder=storage.compiled()
    )
    (report or Report()).say(f"{chosen.name}: {chosen.summary}")
    before, start = _artefacts(), time.perf_counter()
    with waiting(report or Report(), "compiling, which this machine does once"):
        program = chosen.build(order)
    seconds = time.perf_counter() - start
    found = disagreement(program, weights=order.weights)
    return Compiled(
        name=spec.name,
        backend=chosen.name,
        device=order.device,
        precision=order.precision,
        seconds=seconds,
        kept=tuple(_kept(before, _artefacts())),
        disagreement={str(purpose): value for purpose, value in found.items()},
    )


def _artefacts() -> dict[Path, tuple[int, int]]:
    """What is kept: of each when it was last used and when it was made, in nanoseconds."""
    found = {}
    for folder in storage.compiled().glob("[!.]*"):
        with suppress(OSError):
            found[folder] = (folder.stat().st_mtime_ns, (folder / MANIFEST).stat().st_mtime_ns)
    return found


def _kept(before: Mapping[Path, tuple[int, int]], after: Mapping[Path, tuple[int, int]]) -> Iterator[Kept]:
    for folder, (used, made) in sorted(after.items()):
        old = before.get(folder, (0, 0))
        if used != old[0]:
            yield Kept(str(folder), folder_bytes(folder), made == old[1])

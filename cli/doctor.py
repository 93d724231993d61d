"""`zoo doctor`: what is there on this machine, what is not, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from cli import options

if TYPE_CHECKING:
    from zoo.system.calibration import Calibration
    from zoo.system.doctor import Diagnosis

EXAMPLES = "zoo doctor\n\nzoo doctor --json > machine.json"


def command(json: options.Json = False) -> None:
    """What this machine has for zoo, what it lacks, and why.

    Backends with the reason and the remedy where one is absent, what `auto` takes, versions, processor, GPUs, and
    where things are kept.
    """
    from cli.console import show_json
    from zoo.system.doctor import diagnosis

    found = diagnosis()
    return show_json(asdict(found)) if json else _show(found)


def _show(found: Diagnosis) -> None:
    from cli.console import show_table

    backends = [(b.name, "absent" if b.problem else "present", b.problem or b.summary) for b in found.backends]
    show_table(("backend", "", "what it is, or why it is absent and what to do…"), backends)
    print()
    show_table(("", "…"), [*_machine(found), *_places(found)])


def _machine(found: Diagnosis) -> list[tuple[str, str]]:
    from zoo.report import size

    processor = found.processor
    cores = f"{processor.cores} cores" + (f", {processor.usable} of them ours" * (processor.usable != processor.cores))
    gpus = [(gpu.device, f"{gpu.name}, {size(gpu.bytes)}, capability {gpu.capability}") for gpu in found.gpus]
    return [
        ("auto takes", "; ".join(f"{name} for {what}" for what, name in found.automatic.items())),
        ("versions", ", ".join(f"{name} {version}" for name, version in found.versions.items() if version)),
        ("not installed", ", ".join(name for name, version in found.versions.items() if not version) or "-"),
        ("processor", f"{processor.model}, {cores}; {', '.join(processor.instructions) or 'nobody says what it can'}"),
        ("float32 products", f"{processor.matrix_library}; torch's own kernels use {processor.torch}"),
        ("bfloat16 products", _bfloat16(processor.bfloat16)),
        *(("calibrated", _calibrated(each)) for each in found.calibrations),
        ("C++ compiler", processor.compiler or "none: install g++ or clang++"),
        *(gpus or [("GPU", "none that torch can use")]),
    ]


def _bfloat16(ratio: float) -> str:
    said = f"{ratio:.2g} times as fast as in float32, measured"
    return said if ratio > 1 else f"{said}: emulated; say `training.precision=float32`"


def _calibrated(found: Calibration) -> str:
    measured = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in found.float32.items())
    emulated = f"; bfloat16 {found.slowdown:.2g} times as long" if found.slowdown else ""
    return f"{found.name}: trains in float32 by {found.matrix_library} ({measured} a sample){emulated}"


def _places(found: Diagnosis) -> list[tuple[str, str]]:
    from zoo.report import size

    folders = {str(folder).rpartition("/")[0] for folder in found.packages.values()}
    ours = ", ".join(folders) if len(folders) == 1 else ", ".join(f"{n}: {at}" for n, at in found.packages.items())
    kept = [(place.contents, f"{place.folder}, {size(place.bytes)}") for place in found.places]
    return [*kept, ("free there", size(found.free_bytes)), ("packages of zoo", ours)]

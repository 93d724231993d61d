"""`zoo doctor` and `zoo compile`: describe this machine, and compile models for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument
from specs import ZooError

if TYPE_CHECKING:
    from zoo.generation.ahead_of_time import Compiled
    from zoo.system.doctor import Diagnosis
    from zoo.system.timing import PassTiming


def doctor(json: options.Json = False) -> None:
    """Describe this machine: backends, versions, processor, GPUs and folders.

    For each backend that cannot be used, the output gives the reason and what to install. It also names the backends
    that `auto` selects.

    Examples:
        zoo doctor
        zoo doctor --json > machine.json
    """
    from cli.console import show_json
    from zoo.system.doctor import diagnosis

    result = diagnosis()
    return show_json(asdict(result)) if json else _show_diagnosis(result)


def _show_diagnosis(diagnosis: Diagnosis) -> None:
    from cli.console import show_table

    backends = [
        (backend.name, "unavailable" if backend.problem else "available", backend.problem or backend.summary)
        for backend in diagnosis.backends
    ]
    show_table(("backend", "", "description, or reason and what to do…"), backends)
    print()
    show_table(("", "…"), [*_machine_rows(diagnosis), *_folder_rows(diagnosis)])


def _machine_rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    from zoo.report import size

    processor = diagnosis.processor
    cores = f"{processor.cores} cores"
    if processor.usable != processor.cores:
        cores += f", {processor.usable} of them usable by this process"
    gpus = [(gpu.device, f"{gpu.name}, {size(gpu.bytes)}, capability {gpu.capability}") for gpu in diagnosis.gpus]
    installed = ", ".join(f"{name} {version}" for name, version in diagnosis.versions.items() if version)
    missing = ", ".join(name for name, version in diagnosis.versions.items() if not version)
    instructions = ", ".join(processor.instructions) or "instruction sets unknown"
    bfloat16 = f"{processor.bfloat16:.2g} times the speed of float32, measured"
    if processor.bfloat16 <= 1:
        bfloat16 += ": emulated; use `training.precision=float32`"
    return [
        ("auto selects", "; ".join(f"{name} for {purpose}" for purpose, name in diagnosis.automatic.items())),
        ("versions", installed),
        ("not installed", missing or "-"),
        ("processor", f"{processor.model}, {cores}; {instructions}"),
        ("float32 products", f"{processor.matrix_library}; torch's own kernels use {processor.torch}"),
        ("bfloat16 products", bfloat16),
        *(("timed", _format_timing(timing)) for timing in diagnosis.timings),
        ("C++ compiler", processor.compiler or "none: install g++ or clang++"),
        *(gpus or [("GPU", "none that torch can use")]),
    ]


def _format_timing(timing: PassTiming) -> str:
    times = ", ".join(f"{name} {seconds:.3g} s" for name, seconds in timing.float32.items())
    bfloat16 = f"; bfloat16 takes {timing.slowdown:.2g} times as long" if timing.slowdown else ""
    return f"{timing.name}: float32 training uses {timing.matrix_library} ({times} per sample){bfloat16}"


def _folder_rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    from zoo.report import size

    folders = [(place.contents, f"{place.folder}, {size(place.bytes)}") for place in diagnosis.places]
    return [*folders, ("free disk space", size(diagnosis.free_bytes)), ("this version of zoo", diagnosis.package)]


def compile_model(
    spec: Annotated[
        str | None, argument("SPEC", "Spec to compile with random weights.", complete=options.complete_spec)
    ] = None,
    overrides: options.Overrides = None,
    model: options.Model = None,
    backend: options.Backend = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    json: options.Json = False,
) -> None:
    """Compile a model ahead of time.

    The compiled program is cached in your data folder. Every command that translates uses the cache, and an unchanged
    model is not compiled again. The program is run once, and its results are compared with the float32 interpreter.

    Examples:
        zoo compile base --backend native
        zoo compile --model transformer-big-ende --backend aot --device cpu
        zoo compile tiny architecture.N=6 --backend onnx --json
    """
    from cli.console import report, show_json
    from zoo.generation.ahead_of_time import compile_model, compile_spec
    from zoo.generation.compilation import BackendOptions

    if (spec is None) == (model is None):
        problem = "give either SPEC or `--model`, not both" if model else "SPEC or `--model` is missing"
        raise ZooError(problem, hint="name a SPEC, or trained weights with `--model NAME|RUN`")
    how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    if model is not None:
        compiled = compile_model(model, **how, report=report())
    else:
        import specs

        compiled = compile_spec(specs.load(str(spec), overrides or ()), **how, report=report())
    return show_json(asdict(compiled)) if json else _show_compiled(compiled)


def _show_compiled(compiled: Compiled) -> None:
    from zoo.report import size

    target = f"{compiled.backend}, {compiled.precision}, {compiled.device}"
    print(f"{compiled.name}: {target}; ready in {compiled.seconds:.1f} s")
    for artefact in compiled.kept:
        print(
            f"{artefact.folder}, {size(artefact.bytes)}, {'was in the cache' if artefact.existed else 'compiled now'}"
        )
    if not compiled.kept:
        print("nothing is cached: this backend compiles in every process, or not at all")
    for purpose, difference in compiled.disagreement.items():
        print(f"{purpose}: differs from the interpreter by at most {difference:.1g} of the largest value")

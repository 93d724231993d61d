"""`zoo doctor`, `zoo compile` and `zoo benchmark`: describe this machine, compile models for it, and time them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Unpack, cast

from cli import options
from cli.options import argument, option
from specs import ZooError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from compiler import Program
    from zoo.system.doctor import Diagnosis
    from zoo.system.processors import Spread
    from zoo.training.benchmarks import DecodingSpeed, Measurement, TrainingSpeed


def doctor(json: options.Json = False) -> None:
    """Describe this machine: backends, versions, processor, GPUs and folders.

    For each backend that cannot be used, the output states the reason and what to install. It also names the backends
    that `auto` selects.

    Examples:
        zoo doctor
        zoo doctor --json > machine.json
    """
    from cli.console import show_json, show_tables
    from zoo.report import Table
    from zoo.system.doctor import diagnosis

    result = diagnosis()
    if json:
        return show_json(asdict(result))
    backends = [
        (backend.name, "unavailable" if backend.problem else "available", backend.problem or backend.summary)
        for backend in result.backends
    ]
    columns = ("backend", "", "description, or reason and what to do…")
    return show_tables(Table(columns, backends), Table(("", "…"), _machine_rows(result)))


def _machine_rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    from zoo.report import size

    processor = diagnosis.processor
    usable = f", {processor.usable} of them usable by this process" if processor.usable != processor.cores else ""
    gpus = [(gpu.device, f"{gpu.name}, {size(gpu.bytes)}, capability {gpu.capability}") for gpu in diagnosis.gpus]
    installed = ", ".join(f"{name} {version}" for name, version in diagnosis.versions.items() if version)
    missing = ", ".join(name for name, version in diagnosis.versions.items() if not version)
    instructions = ", ".join(processor.instructions) or "instruction sets unknown"
    emulated = ": emulated; use `training.precision=float32`" if processor.bfloat16 <= 1 else ""
    return [
        ("auto selects", "; ".join(f"{name} for {purpose}" for purpose, name in diagnosis.automatic.items())),
        ("versions", installed),
        ("not installed", missing or "-"),
        ("processor", f"{processor.model}, {processor.cores} cores{usable}; {instructions}"),
        ("float32 products", f"{processor.matrix_library}; torch's own kernels use {processor.torch}"),
        ("bfloat16 products", f"{processor.bfloat16:.2g} times the speed of float32, measured{emulated}"),
        ("C++ compiler", processor.compiler or "none: install g++ or clang++"),
        *(gpus or [("GPU", "none that torch can use")]),
        *((place.contents, f"{place.folder}, {size(place.bytes)}") for place in diagnosis.places),
        ("free disk space", size(diagnosis.free_bytes)),
        ("this version of zoo", diagnosis.package),
    ]


def compile_model(
    spec: Annotated[str | None, argument(complete=options.complete_spec)] = None,
    overrides: options.Overrides = None,
    model: options.Model = None,
    **how: Unpack[options.Execution],
) -> None:
    """Compile a model ahead of time.

    The compiled program is cached in your data folder. Every command that translates uses the cache, and an unchanged
    model is not compiled again. The program is run once, because some backends compile a model when it first runs.

    Options:
        spec SPEC: Spec to compile with random weights.

    Examples:
        zoo compile base --backend native
        zoo compile --model transformer-big-ende --backend aot --device cpu
        zoo compile tiny architecture.N=6 --backend onnx
    """
    import specs
    from cli.console import report
    from compiler import TRANSLATE
    from compiler.backends.conformance import run_once
    from zoo.generation.compilation import build_with_message
    from zoo.generation.loading import open_model
    from zoo.models import find
    from zoo.planning.memory_estimate import require_memory_to_translate
    from zoo.system.processors import timed

    if (spec is None) == (model is None):
        problem = "SPEC and `--model` cannot be used together" if model else "SPEC or `--model` is missing"
        raise ZooError(problem, hint="run `zoo compile SPEC` or, for trained weights, `zoo compile --model NAME|RUN`")

    def build_and_run() -> Program:
        if folder is not None:
            program = cast("Program", open_model(folder, report=report(), **how).program)
        else:
            chosen = specs.load(str(spec), overrides or ())
            require_memory_to_translate(chosen, how["device"])
            program = build_with_message(chosen, TRANSLATE, report(), **how)
        run_once(program)
        return program

    folder = None if model is None else find.model(model, report())
    seconds, program = timed(build_and_run)
    made = f"{program.backend}, {program.precision}, {program.device}"
    print(f"{program.spec.name}: {'' if model else 'with random weights, '}{made}; ready in {seconds:.1f} s")


def benchmark_decode(
    spec: options.Reference,
    overrides: options.Overrides = None,
    batch: Annotated[int, option(min=1, max=100_000)] = 32,
    sentences: Annotated[int, option(min=1, max=100_000)] = 64,
    rounds: Annotated[int, option(min=1, max=100_000)] = 5,
    json: options.Json = False,
    **how: Unpack[options.Execution],
) -> None:
    """Measure how fast a spec translates on this machine.

    The weights are random. The sentences are synthetic, with 23 to 27 tokens, and their translations have 27 tokens.
    Beam size, length penalty and stopping rule come from the spec. The measurement is repeated in several rounds, and
    the table shows their median, minimum and maximum. Stop other programs first, because they distort the results.

    Options:
        batch N: Number of sentences in a batch.
        sentences N: Number of sentences to translate in each round.
        rounds N: How many times to repeat the measurement.

    Examples:
        zoo benchmark decode base
        zoo benchmark decode base --backend native --precision int8 --batch 1 --sentences 8
        zoo benchmark decode big decoding.beam=1 --json
    """
    import specs
    from cli.console import report, show_json
    from zoo.files import storage
    from zoo.training.benchmarks import benchmark_decoding

    speed = benchmark_decoding(
        specs.load(spec, overrides or ()),
        batch=batch,
        sentences=sentences,
        rounds=rounds,
        **how,
        folder=storage.compiled(),
        report=report(),
    )
    return show_json(asdict(speed)) if json else _show_decoding(speed)


def benchmark_train(
    spec: options.Reference,
    overrides: options.Overrides = None,
    steps: Annotated[int, option(min=1, max=1_000)] = 3,
    rounds: Annotated[int, option(min=1, max=1_000)] = 3,
    json: options.Json = False,
    device: options.Device = "auto",
) -> None:
    """Measure how fast a spec trains on this machine. No model is written.

    The training starts from random weights. Each step is a complete update with a different batch of synthetic pairs,
    whose sentences have 4 to 80 tokens. The spec sets the size of the batches. On a CPU, a step with the paper's 25,000
    tokens takes most of a minute: set `training.source_tokens` and `training.target_tokens` to smaller numbers.

    The measurement is repeated in several rounds, and the table shows their median, minimum and maximum. An additional
    first round, which includes compilation, is shown separately. Stop other programs first, because they distort the
    results.

    Options:
        steps N: Number of training steps in each round.
        rounds N: How many times to repeat the measurement.

    Examples:
        zoo benchmark train base training.source_tokens=2500 training.target_tokens=2500
        zoo benchmark train tiny --json
        zoo benchmark train big training.precision=bfloat16 --device cuda
    """
    import specs
    from cli.console import report, show_json
    from compiler.host import tune_process
    from zoo.training.benchmarks import benchmark_training

    tune_process()  # permanent, because this process does nothing else
    chosen = specs.load(spec, overrides or ())
    speed = benchmark_training(chosen, steps=steps, rounds=rounds, device=device, report=report())
    return show_json(asdict(speed)) if json else _show_training(speed)


def _show_decoding(speed: DecodingSpeed) -> None:
    per_round = f"{speed.sentences} per round, in batches of {speed.batch}, workers: {speed.workers}"
    per_sentence = f"{speed.length} per sentence, including EOS"
    rows = [
        ("sentences per second", *_spread_cells(speed.sentences_per_second), per_round),
        ("target tokens per second", *_spread_cells(speed.tokens_per_second), per_sentence),
        ("step, ms", *_spread_cells(speed.step_milliseconds), f"of a batch, beam {speed.beam}"),
        ("single sentence, ms", *_spread_cells(speed.latency_seconds, 1000), "one after the other"),
        ("first sentence, ms", f"{1000 * speed.first_seconds:,.2f}", "", "after the program is loaded"),
        ("build, s", f"{speed.build_seconds:,.2f}", "", "using compiled programs in the cache"),
        ("difference", f"{speed.disagreement:.1g}", "", "from the interpreter, in nats per token"),
    ]
    _show(speed, rows)


def _show_training(speed: TrainingSpeed) -> None:
    from zoo.report import size

    peak = f"of {speed.peak_flops / 1e9:,.0f} GFLOP/s, the speed of a large matrix product"
    source, target = map(_spread_cells, (speed.source_tokens_per_second, speed.target_tokens_per_second))
    rows = [
        ("source tokens per second", *source, "including EOS, excluding padding"),
        ("target tokens per second", *target, "counted the same way"),
        ("step, ms", *_spread_cells(speed.step_seconds, 1000), f"{speed.steps} per round, each with a different batch"),
        ("first round, s", f"{speed.first_seconds:,.2f}", "", "including compilation"),
        ("padding, %", f"{100 * speed.padding:.2f}", "", "of all positions in the batches"),
        ("utilisation, %", *_spread_cells(speed.utilisation, 100), peak),
        ("memory", size(speed.memory_bytes), "", "peak"),
    ]
    _show(speed, rows)


def _spread_cells(spread: Spread, factor: float = 1.0) -> tuple[str, str]:
    """Format the median and the range of measurements, multiplied by `factor`, as two table cells."""
    return f"{factor * spread.median:,.2f}", f"{factor * spread.min:,.2f} to {factor * spread.max:,.2f}"


def _show(speed: Measurement, rows: Sequence[tuple[str, str, str, str]]) -> None:
    from cli.console import show_tables
    from zoo.report import Table

    host, title = speed.host, f"{speed.name}, {speed.backend}, {speed.precision}, {speed.device}"
    show_tables(Table(("", ">", "", "…"), rows, title))
    threads = f"{host.threads} thread{'s' * (host.threads > 1)}"
    print(f"\n{host.processor}, {host.cores} cores, torch {host.torch} on {threads}")

"""`zoo benchmark`: measure how fast a spec translates and trains on this machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zoo.training.benchmarks import DecodingSpeed, Measurement, TrainingSpeed


def decode(
    spec: options.Reference,
    overrides: options.Overrides = None,
    batch: Annotated[int, option("N", "Number of sentences in a batch.", min=1, max=100_000)] = 32,
    sentences: Annotated[int, option("N", "Number of sentences to translate in each round.", min=1, max=100_000)] = 64,
    rounds: Annotated[int, option("N", "How many times to repeat the measurement.", min=1, max=100_000)] = 5,
    json: options.Json = False,
    device: options.Device = "auto",
    backend: options.Backend = None,
    precision: options.Precision = None,
) -> None:
    """Measure how fast a spec translates on this machine.

    The weights are random. The sentences are synthetic, with 23 to 27 tokens, and their translations have 27 tokens.
    Beam size, length penalty and stopping rule come from the spec. The measurement is repeated in several rounds, and
    the table shows their median, minimum and maximum. Stop other programs first, because they distort the results.

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
        device=device,
        backend=backend,
        precision=precision,
        folder=storage.compiled(),
        report=report(),
    )
    return show_json(asdict(speed)) if json else _show_decoding(speed)


def train(
    spec: options.Reference,
    overrides: options.Overrides = None,
    steps: Annotated[int, option("N", "Number of training steps in each round.", min=1, max=1_000)] = 3,
    rounds: Annotated[int, option("N", "How many times to repeat the measurement.", min=1, max=1_000)] = 3,
    json: options.Json = False,
    device: options.Device = "auto",
) -> None:
    """Measure how fast a spec trains on this machine. No model is written.

    Each step is a complete update, starting from random weights, with a different batch of synthetic pairs of 4 to 80
    tokens. The spec sets the size of the batches. On a CPU, a step with the paper's 25,000 tokens takes most of a
    minute: set `training.source_tokens` and `training.target_tokens` to smaller numbers.

    The measurement is repeated in several rounds, and the table shows their median, minimum and maximum. An additional
    first round, which includes compilation, is shown separately. Stop other programs first, because they distort the
    results.

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
    from cli.console import spread_cells

    per_round = f"{speed.sentences} per round, in batches of {speed.batch}, workers: {speed.workers}"
    per_sentence = f"{speed.length} per sentence, including EOS"
    rows = [
        ("sentences per second", *spread_cells(speed.sentences_per_second), per_round),
        ("target tokens per second", *spread_cells(speed.tokens_per_second), per_sentence),
        ("step, ms", *spread_cells(speed.step_milliseconds), f"of a batch, beam {speed.beam}"),
        ("single sentence, ms", *spread_cells(speed.latency_seconds, 1000), "one after the other"),
        ("first sentence, ms", f"{1000 * speed.first_seconds:,.2f}", "", "after the program is loaded"),
        ("build, s", f"{speed.build_seconds:,.2f}", "", "using compiled programs in the cache"),
        ("difference", f"{speed.disagreement:.1g}", "", "from the interpreter, in nats per token"),
    ]
    _show(speed, rows)


def _show_training(speed: TrainingSpeed) -> None:
    from cli.console import spread_cells
    from zoo.report import size

    peak = f"of {speed.peak_flops / 1e9:,.0f} GFLOP/s, the speed of a large matrix product"
    source, target = map(spread_cells, (speed.source_tokens_per_second, speed.target_tokens_per_second))
    rows = [
        ("source tokens per second", *source, "including EOS, excluding padding"),
        ("target tokens per second", *target, "counted in the same way"),
        ("step, ms", *spread_cells(speed.step_seconds, 1000), f"{speed.steps} per round, each with another batch"),
        ("first round, s", f"{speed.first_seconds:,.2f}", "", "including compilation"),
        ("padding, %", f"{100 * speed.padding:.2f}", "", "of all positions in the batches"),
        ("utilisation, %", *spread_cells(speed.utilisation, 100), peak),
        ("memory", size(speed.memory_bytes), "", "peak"),
    ]
    _show(speed, rows)


def _show(speed: Measurement, rows: Sequence[tuple[str, str, str, str]]) -> None:
    from cli.console import show_table

    host, title = speed.host, f"{speed.name}, {speed.backend}, {speed.precision}, {speed.device}"
    show_table(("", ">", "", "…"), rows, title=title)
    threads = f"{host.threads} thread{'s' * (host.threads > 1)}"
    print(f"\n{host.processor}, {host.cores} cores, torch {host.torch} on {threads}")

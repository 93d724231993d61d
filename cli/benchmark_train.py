"""`zoo benchmark train`: how fast does a spec train on this machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.training.benchmarks import TrainingSpeed

EXAMPLES = (
    "zoo benchmark train base training.source_tokens=2500 training.target_tokens=2500"
    "\n\nzoo benchmark train tiny --json\n\nzoo benchmark train big training.precision=bfloat16 --device cuda"
)


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    steps: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Updates of a round, each on another batch.")
    ] = 3,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000, help="Rounds, of which the median is told.")
    ] = 3,
    json: options.Json = False,
    device: options.Device = "auto",
) -> None:
    """How fast a spec trains on this machine. Nothing is kept.

    Whole updates of weights from before training, on made-up pairs of 4 to 80 tokens in batches of the spec's budget
    (the paper's 25,000 tokens a side take a CPU most of a minute: set less). One round goes ahead, in which whatever
    is compiled is compiled. End all other work first: a busy machine makes the figures worthless.
    """
    import specs
    from cli.console import report, show_json
    from cli.spreads import plain
    from zoo.system.device_memory import keep_freed_memory
    from zoo.training.benchmarks import benchmark_training

    keep_freed_memory()  # this process is ours
    chosen = specs.load(spec, overrides or ())
    speed = benchmark_training(chosen, steps=steps, rounds=rounds, device=device, report=report())
    return show_json(plain(speed)) if json else _show(speed)


def _show(speed: TrainingSpeed) -> None:
    from cli.console import show_table
    from cli.spreads import columns
    from zoo.report import size

    host = speed.host
    show_table(
        ("", ">", "", "…"),
        [
            ("source tokens a second", *columns(speed.source_tokens_per_second), "EOS counted, padding not"),
            ("target tokens a second", *columns(speed.target_tokens_per_second), "the same"),
            ("a step, ms", *columns(speed.step_seconds, 1000), f"{speed.steps} a round, each on another batch"),
            ("the first round, s", f"{speed.first_seconds:,.2f}", "", "with whatever is compiled"),
            ("padding, %", f"{100 * speed.padding:.2f}", "", "of all places of the batches"),
            (
                "utilisation, %",
                *columns(speed.utilisation, 100),
                f"of {speed.peak_flops / 1e9:,.0f} GFLOP/s, which a large product reaches",
            ),
            ("memory", size(speed.memory_bytes), "", "the most that there was"),
        ],
        title=f"{speed.name}, {speed.backend}, {speed.precision}, {speed.device}",
    )
    print(f"\n{host.processor}, {host.cores} cores, torch {host.torch} on {host.threads} threads")

"""`zoo benchmark decode`: how fast does a spec translate on this machine?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.training.benchmarks.decode import Speed

EXAMPLES = (
    "zoo benchmark decode base\n\nzoo benchmark decode base --backend native --precision int8 --batch 1 --sentences 8"
    "\n\nzoo benchmark decode big decoding.beam=1 --json"
)


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Sentences that are translated together.")
    ] = 32,
    sentences: Annotated[int, typer.Option(metavar="N", min=1, max=100_000, help="Sentences of a round.")] = 64,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="Rounds, of which the median is told.")
    ] = 5,
    json: options.Json = False,
    device: options.Device = "auto",
    backend: options.Backend = None,
    precision: options.Precision = None,
) -> None:
    """How fast a spec translates on this machine.

    Random weights, made-up sentences of 23 to 27 tokens, translations of 27 tokens; beam, penalty and ending of the
    spec. Figures are medians, with the least and the greatest of all rounds. End all other work first: a busy machine
    makes them worthless.
    """
    import specs
    from cli.console import report, show_json
    from cli.spreads import plain
    from zoo.files import storage
    from zoo.training.benchmarks.decode import Work, measure

    speed = measure(
        specs.load(spec, overrides or ()),
        Work(batch, sentences, rounds),
        device=device,
        backend=backend,
        precision=precision,
        folder=storage.compiled(),
        report=report(),
    )
    return show_json(plain(speed)) if json else _show(speed)


def _show(speed: Speed) -> None:
    from cli.console import show_table
    from cli.spreads import columns

    host = speed.host
    what = f"{speed.name}, {speed.backend}, {speed.precision}, {speed.device}"
    show_table(
        ("", ">", "", "…"),
        [
            (
                "sentences a second",
                *columns(speed.sentences_per_second),
                f"{speed.sentences} a round, by {speed.batch}, workers: {speed.workers}",
            ),
            ("target tokens a second", *columns(speed.tokens_per_second), f"{speed.length} a sentence, EOS counted"),
            ("a step, ms", *columns(speed.step_milliseconds), f"of a batch, beam {speed.beam}"),
            ("a sentence alone, ms", *columns(speed.latency_seconds, 1000), "one after the other"),
            ("the first sentence, ms", f"{1000 * speed.first_seconds:,.2f}", "", "of the program's life"),
            ("building, s", f"{speed.build_seconds:,.2f}", "", "with what was kept of it"),
            ("disagreement", f"{speed.disagreement:.1g}", "", "with the interpreter, nats a token"),
        ],
        title=what,
    )
    print(f"\n{host.processor}, {host.cores} cores, torch {host.torch} on {host.threads} threads")

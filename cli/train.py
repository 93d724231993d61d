"""`zoo train`: from a spec to trained weights."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options

EXAMPLES = (
    "zoo train tiny\n\nzoo train base training.source_tokens=4096 training.target_tokens=4096"
    "\n\nzoo train own.yaml --run runs/second --device cuda"
)


def command(
    spec: options.Reference,
    overrides: options.Overrides = None,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="runs/SPEC", help="The run's folder; one that is there is resumed."),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove what the run holds, and start over.")] = False,
    device: options.Device = "auto",
) -> int | None:
    """Prepare what is missing, train, average, score the dev set.

    The last checkpoints are averaged, as many as `training.average` says. Ctrl-C writes a checkpoint and stops; the
    same command goes on from there, to the same weights. By `training.checkpoint_minutes` what is averaged depends on
    the clock; by `training.checkpoint_steps` it does not.
    """
    import specs
    from cli.console import report
    from cli.errors import INTERRUPTED
    from zoo.training.checkpoint import checkpoints
    from zoo.training.train import train

    words = report()
    chosen = specs.load(spec, overrides or ())
    done = train(chosen, run=run, fresh=fresh, device=device, report=words)
    if max((each.step for each in checkpoints(done)), default=0) < chosen.training.steps:
        return INTERRUPTED
    model, name = (f"--model {run}", str(run)) if run else (f"--spec {spec}", chosen.short)
    words.say(f"next: zoo decode {model}, zoo evaluate {model}, zoo publish {name}")
    return None

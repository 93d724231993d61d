"""`zoo train`: from a spec to trained weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from specs import Spec

EXAMPLES = (
    "zoo train tiny\n\nzoo train base training.source_tokens=4096 training.target_tokens=4096"
    "\n\nzoo train runs/tiny/spec.yaml training.steps=3000"
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
    verify_resume: Annotated[
        bool,
        typer.Option(
            "--verify-resume", help="Train a few steps twice, once killed two times and resumed, and compare."
        ),
    ] = False,
) -> int | None:
    """Prepare what is missing, train, average, score the dev set.

    The last checkpoints are averaged, as many as `training.average` says. Ctrl-C writes a checkpoint and stops; the
    same command, or `zoo train RUN/spec.yaml`, goes on from there, to the same weights. By
    `training.checkpoint_minutes` what is averaged depends on the clock; by `training.checkpoint_steps` it does not.
    """
    from shlex import quote

    import specs
    from cli.console import report
    from cli.errors import INTERRUPTED
    from specs.task import COMMANDS
    from zoo.models.find import run_of_spec_file
    from zoo.models.folder import differing_fields
    from zoo.system.ram import keep_freed
    from zoo.training.train import trained

    keep_freed()  # this process is ours
    words = report()
    chosen = specs.load(spec, overrides or ())
    if verify_resume:
        return _verify(chosen, device, run, fresh)
    run = run or run_of_spec_file(spec)
    done = trained(chosen, run=run, fresh=fresh, device=device, report=words)
    if not done.ended:
        return INTERRUPTED
    if not done.first:
        return None
    place = run or (done.run.folder if differing_fields(chosen, specs.load(spec)) else None)
    model, name = ("--model", str(place)) if place else ("--spec", spec)
    model, name = f"{model} {quote(name)}", quote(name if place else chosen.short)
    name += "" if chosen.named else " --name NAME"
    words.say(f"next: zoo {COMMANDS[chosen.task.kind]} {model}, zoo evaluate {model}, zoo publish {name}")
    return None


def _verify(spec: Spec, device: str, run: Path | None, fresh: bool) -> int | None:
    from cli.console import report
    from specs import ZooError
    from zoo.training.resume_proof import verify_resume

    if run or fresh:
        hint = "leave `--run` and `--fresh` out: it trains in a folder of its own, which it removes"
        raise ZooError("`--verify-resume` touches no run", hint=hint)
    verdict = verify_resume(spec, device=device, report=report())
    kills = ", ".join(str(step) for step in verdict.kills)
    if verdict.differing:
        raise ZooError(
            f"after kills at steps {kills}, step {verdict.steps} has another {' and '.join(verdict.differing)}",
            hint="this machine or device does not compute the same twice: `zoo doctor` says what it is",
            exit_code=1,
        )
    print(f"killed after steps {kills}: weights and moments of step {verdict.steps} are the same bits")
    return None

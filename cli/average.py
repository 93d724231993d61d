"""`zoo average`: from checkpoints to weights."""

from __future__ import annotations

import math
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.training.averaging import AverageSearch

EXAMPLES = "zoo average tiny\n\nzoo average runs/big --last 5\n\nzoo average tiny --search"


def command(
    run: options.Run,
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=1_000, show_default="training.average of its spec", help="How many checkpoints."
        ),
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Write nothing: score means of 1, 2, 5, 10, 20 on the dev set, as far as they are kept."
        ),
    ] = False,
    json: options.Json = False,
    device: options.Device = "auto",
) -> None:
    """Write the mean of a run's last checkpoints as its weights.

    With --search, nothing is written: means of the checkpoints that the run has kept (of every one, every second, every
    fourth, ...) are scored on its dev set by its `training.dev_score`. Behind what a mean has more than the best stands
    half its interval of 95 %, by drawing sentences anew (paired bootstrap).
    """
    from cli.console import report, show_json
    from specs import ZooError
    from zoo.models import find
    from zoo.training.averaging import average
    from zoo.training.run import Run

    if not search:
        for option, given in (("--json", json), ("--device", device != "auto")):
            if given:
                raise ZooError(f"`{option}` is for `--search` only", hint=f"leave `{option}` out")
        return print(average(Run(find.run(run)), last))
    if last is not None:
        raise ZooError("`--last` chooses, and `--search` asks what to choose", hint="leave one of them out")
    from zoo.training.averaging import search_averages as searched

    found = searched(Run(find.run(run)), device=device, report=report())
    if json:
        told = [{**asdict(each), "metric": found.metric.name, "worse": each.worse} for each in found.averages]
        return show_json([{key: value if _finite(value) else None for key, value in each.items()} for each in told])
    return _show(found, run)


def _finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _show(found: AverageSearch, run: str) -> None:
    from cli.console import report, show_table
    from zoo.training.averaging import COUNTS

    metric, best = found.metric, found.best
    rows = []
    for each in found.averages:
        half = "" if each.half_interval is None else f" ± {metric.written(each.half_interval)}"
        more = "the best" if each is best else f"{each.difference:+.{metric.decimals}f}{half}"
        steps = f"{each.steps[0]:,} to {each.steps[-1]:,}" if len(each.steps) > 1 else f"{each.steps[0]:,}"
        rows.append((f"{each.last}", f"{each.every}", steps, metric.written(each.score), more))
    show_table(("last>", "of every>", "steps>", f"dev {metric.called}>", "more than the best>"), rows)
    if lacking := [f"{count}" for count in COUNTS if count > max(each.last for each in found.averages)]:
        how = f"`training.average={lacking[-1]}` and a smaller `training.checkpoint_steps` keep more, while it trains"
        report().say(f"for means of {', '.join(lacking)} there are too few checkpoints; {how}")
    if best.half_interval is None:
        return report().say(f"how much of it is chance is not known of {metric.called}")
    alike = [f"{each.last} of every {each.every}" for each in found.averages if not each.worse and each is not best]
    told = f"within noise of the best: {', '.join(alike)}" if alike else "the best is beyond noise"
    written = (
        f"`zoo average {quote(run)} --last {best.last}` writes it"
        if best.every == 1
        else f"a training with {best.every} times its `training.checkpoint_steps` would keep those"
    )
    return report().say(f"{told}; {written}")

"""`zoo sweep`: rows of specs, several seeds each, and what their scores say of one another."""

from __future__ import annotations

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.training.sweeps.comparison import SweepComparison

EXAMPLES = (
    "zoo sweep specs/table3 training.steps=2000 --seeds 2"
    "\n\nzoo sweep table3/base table3/a-h1 --seeds 3 --jobs 2"
    "\n\nzoo sweep specs/table3 --list | tr '\\n' '\\0' | xargs -0 -P 2 -n 1 sh -c 'eval \"$0\"'"
)


def command(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC|KEY=VALUE",
            show_default=False,
            help="Folders of specs (`specs/table3`) or specs; and fields to set in all of them.",
        ),
    ],
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, max=100, help="Each row is trained by the seeds 1 to N.")
    ] = 1,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="How many runs are trained at a time.")] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(metavar="DIR", show_default="runs/sweep-FOLDER", help="The folder of the sweep's runs."),
    ] = None,
    list: Annotated[
        bool, typer.Option("--list", help="Only print the command line of each run, for another that starts them.")
    ] = False,
    table: Annotated[bool, typer.Option("--table", help="Only print the table, of the runs that are done.")] = False,
    json: options.Json = False,
    device: options.Device = "auto",
) -> int | None:
    """Train rows of specs by several seeds, and compare them.

    Each run is one `zoo train`, in a folder ROW.seedN: what is killed goes on by the same command, and what is done is
    left. What is set, is set in the row that others extend; those keep their proportion to it: with
    `architecture.N=3`, a row of Table 3 with 2 layers in place of 6 has 1. All are scored on the dev set, by the beam
    and the penalty of their specs. Behind a score stands half its interval of 95 %, by drawing sentences anew; a
    difference counts where it is larger than what sentences (with two seeds or more, seeds, too) make by chance in 95
    of 100 cases.
    """
    from cli.console import report, show_json
    from cli.errors import INTERRUPTED
    from specs import ZooError
    from zoo.paper.sweep_report import sweep_json
    from zoo.training.sweeps.comparison import compare as table_of
    from zoo.training.sweeps.rows import make_rows, parse_arguments
    from zoo.training.sweeps.trials import default_folder, make_trials, train_all

    if list and (table or json):
        raise ZooError("`--list` prints command lines alone", hint="leave `--table` and `--json` out")
    rows = make_rows(*parse_arguments(specs))
    trials = make_trials(rows, seeds, folder or default_folder(rows))
    if list:
        print(*(join(trial.command(device)) for trial in trials), sep="\n")
        return None
    words = report()
    if not table and not train_all(trials, jobs=jobs, device=device, report=words):
        return INTERRUPTED
    found = table_of(rows, trials, words)
    if not found.results:
        raise ZooError("no run of this sweep is done yet", hint="without `--table` it trains them")
    if json:
        show_json(sweep_json(found))
    else:
        _show(found)
    return None


def _show(found: SweepComparison) -> None:
    from cli.console import report, show_table
    from zoo.paper.sweep_report import pair_table, row_table, sweep_notes

    show_table(*row_table(found))
    if found.pairs:
        print()
        show_table(*pair_table(found))
    for note in sweep_notes(found):
        report().say(note)

"""`zoo sweep`: train several specs with several seeds each, and compare their scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, flag, option
from specs import ZooError

if TYPE_CHECKING:
    from zoo.report import Report
    from zoo.training.sweeps.comparison import SweepComparison
    from zoo.training.sweeps.rows import SweepRow

_SPECS = argument(
    "SPEC|KEY=VALUE",
    "Specs or folders of specs (such as `specs/table3`), and fields to set in all specs.",
    complete=options.complete_spec,
)
_LIST = flag("Only print the command of each training run, for use with a job scheduler.", "--list")


def sweep(
    specs: Annotated[list[str], _SPECS],
    seeds: Annotated[int, option("N", "Train each spec with the seeds 1 to N.", min=1, max=100)] = 1,
    jobs: Annotated[int, option("N", "Number of training runs in parallel.", min=1, max=100)] = 1,
    folder: Annotated[
        Path | None, option("DIR", "Folder for the runs of the sweep.", shown="runs/sweep-FOLDER")
    ] = None,
    list: Annotated[bool, _LIST] = False,
    table: Annotated[bool, flag("Compare the finished runs without further training.", "--table")] = False,
    json: options.Json = False,
    device: options.Device = "auto",
) -> int | None:
    r"""Train several specs with several seeds each, and compare them.

    Each training run is one `zoo train` in the folder SPEC.seedN. The same command resumes interrupted runs and skips
    finished ones.

    KEY=VALUE changes the base spec. Specs that extend the base spec and set the same field keep the ratio of the two
    numbers: with `architecture.N=3`, a spec that has 2 layers instead of the base spec's 6 gets 1 layer.

    All models are scored on the dev set with the beam size and length penalty of their specs. The table shows each
    score ± half its 95 % confidence interval, by bootstrap over sentences. A difference is significant if its 95 %
    confidence interval excludes 0. This interval considers the choice of sentences and the choice of seeds. With one
    seed per spec, no difference is tested, because another seed could reverse it.

    Examples:
        zoo sweep specs/table3 training.steps=2000 --seeds 2
        zoo sweep table3/base table3/a-h1 --seeds 3 --jobs 2
        zoo sweep specs/table3 --list | tr '\n' '\0' | xargs -0 -P 2 -n 1 sh -c 'eval "$0"'
    """
    from cli.console import report, show_json
    from cli.errors import INTERRUPTED
    from zoo.paper.sweep_report import sweep_json
    from zoo.training.sweeps.comparison import compare as compare_rows
    from zoo.training.sweeps.rows import make_rows, parse_arguments
    from zoo.training.sweeps.trials import default_folder, make_trials, train_all

    if list and (table or json):
        raise ZooError("`--list` only prints commands", hint="leave `--table` and `--json` out")
    rows = make_rows(*parse_arguments(specs))
    messages = report()
    _warn_about_head_sizes(rows, messages)
    trials = make_trials(rows, seeds, folder or default_folder(rows))
    if list:
        print(*(join(trial.command(device)) for trial in trials), sep="\n")
        return None
    if not table and not train_all(trials, jobs=jobs, device=device, report=messages):
        return INTERRUPTED
    results = compare_rows(rows, trials, messages)
    if not results.results:
        raise ZooError("no run of this sweep is finished", hint="leave `--table` out to train the runs")
    if json:
        show_json(sweep_json(results))
    else:
        _show_results(results)
    return None


def _warn_about_head_sizes(rows: Sequence[SweepRow], messages: Report) -> None:
    """Warn about the first spec in which an override breaks the equation h * d_k = h * d_v = d_model."""
    import specs

    warnings = [(row.name, specs.describe_head_sizes(row.spec, row.reference)) for row in rows]
    affected = [(name, warning) for name, warning in warnings if warning]
    if affected:
        name, warning = affected[0]
        messages.warn(f"{name}: {warning}" + (f" ({len(affected) - 1} other specs, too)" if affected[1:] else ""))


def _show_results(results: SweepComparison) -> None:
    from cli.console import report, show_table
    from zoo.paper.sweep_report import pair_table, row_table, sweep_notes

    show_table(*row_table(results))
    if results.pairs:
        print()
        show_table(*pair_table(results))
    for note in sweep_notes(results):
        report().info(note)

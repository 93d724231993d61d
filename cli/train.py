"""Commands that prepare a corpus, train models, and add averaged weights or a shortlist to a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, option
from specs import ZooError
from zoo.entry_point import SIGNALLED

if TYPE_CHECKING:
    from zoo.training.run import Run


def prepare(spec: options.Reference, overrides: options.Overrides = None) -> None:
    """Download the corpus, learn the vocabulary and write the tokenised training data.

    If a part of the corpus lists `models`, its text is first translated by these models. Archives are verified by
    their hashes, and finished work is not repeated. The environment variable ZOO_HOME sets where the data is stored.
    ZOO_MIRROR sets a folder or URL from which archives are fetched instead of their original URLs, and ZOO_OFFLINE=1
    prevents downloads.

    Examples:
        zoo prepare tiny
        zoo prepare base vocabulary.size=32000
        ZOO_MIRROR=/data/wmt zoo prepare base
    """
    import specs
    from cli.console import report
    from zoo.training.initial_model import prepare_corpus

    messages = report()
    with _missing_files_located(spec, overrides):
        prepared = prepare_corpus(specs.load(spec, overrides or ()), messages)
    messages.info("\n  dropped, ".join([f"train: {prepared.counts}", *prepared.dropped_examples]))
    print(prepared.folder)


def train(
    spec: options.Reference,
    overrides: options.Overrides = None,
    run: Path | None = None,
    fresh: bool = False,
    yes: bool = False,
    device: options.Device = "auto",
) -> int | None:
    """Train a model, or resume its training.

    Missing data is prepared first. At the end, the last `training.average` checkpoints are averaged, and the average is
    scored on the dev set. If the last checkpoint alone has a better dev score, it is used instead of the average.

    Ctrl-C writes a checkpoint and stops. The same command, or `zoo train RUN/spec.yaml`, resumes and gives the same
    weights as an uninterrupted training run.

    Options:
        run DIR: Folder of the run. An existing run is resumed. [default: runs/SPEC]
        fresh: Remove an existing run first, after confirmation, and start again.
        yes: Remove the run without asking for confirmation.

    Examples:
        zoo train tiny
        zoo train base training.source_tokens=4096 training.target_tokens=4096
        zoo train runs/tiny/spec.yaml training.steps=3000
        zoo train own.yaml --run runs/second --device cuda
    """
    import specs
    from cli.console import report
    from compiler.host import tune_process
    from zoo.models.find import run_of_spec_file
    from zoo.models.folder import differing_fields
    from zoo.training.run import Run
    from zoo.training.train import run_training

    tune_process()  # permanent, because this process does nothing else
    messages = report()
    chosen = specs.load(spec, overrides or ())
    run = run or run_of_spec_file(spec)
    if fresh and not yes and not _may_remove(Run(run) if run else Run.default(chosen)):
        messages.info("nothing was removed or trained")
        return 1
    with _missing_files_located(spec, overrides):
        result = run_training(chosen, run=run, fresh=fresh, device=device, report=messages)
    if result.stop_signal:
        return SIGNALLED + result.stop_signal
    if not result.first:
        return None
    folder = run or (result.run.folder if differing_fields(chosen, specs.load(spec)) else None)
    model = f"--model {quote(str(folder))}" if folder else f"--spec {quote(spec)}"
    name = quote(str(folder) if folder else chosen.short_name) + ("" if chosen.has_own_name else " --name NAME")
    messages.info(f"next: zoo {chosen.task.command} {model}, zoo evaluate {model}, zoo publish {name}")
    return None


@contextmanager
def _missing_files_located(spec: str, overrides: list[str] | None) -> Iterator[None]:
    """Add the location in the spec to any error about a missing corpus file that is raised in the `with` block.

    The location is the spec file and line, or the override, that specifies the corpus file.
    """
    import specs
    from zoo.data.corpus import MissingFileError

    try:
        yield
    except MissingFileError as error:
        error.locate(specs.where_written(spec, overrides or (), error.name))
        raise


def _may_remove(run: Run) -> bool:
    """Return whether a run may be removed: it has no results yet, or the user agrees to lose them."""
    from cli.console import confirm
    from zoo.files.storage import folder_bytes
    from zoo.report import size
    from zoo.training.checkpoints import list_checkpoints

    run.require_own_files()
    checkpoints = list_checkpoints(run)
    if not (checkpoints or run.trained):
        return True
    step = f"trained to step {checkpoints[-1].step:,}, " if checkpoints else ""
    question = f"remove the run `{run.folder}` ({step}{size(folder_bytes(run.folder))}) and start again?"
    return confirm(question, f"`{run.folder}` was not removed")


def average(
    run: options.Run,
    last: Annotated[int | None, option(min=1, max=1_000)] = None,
    int8: bool = False,
) -> None:
    """Average the last checkpoints of a run, and store the average as the run's weights.

    The scores of the earlier weights are removed. `zoo evaluate` computes new scores.

    Options:
        last N: Number of most recent checkpoints to average. [default: the spec's training.average]
        int8: Round embeddings and linear maps to int8, so that the weights take about a quarter of the space.

    Examples:
        zoo average tiny
        zoo average runs/big --last 5
        zoo average tiny --int8
    """
    from zoo.models import find
    from zoo.training.averaging import average
    from zoo.training.run import Run

    print(average(Run(find.run(run)), last, int8=int8))


def shortlist(run: options.Run) -> None:
    """Write the vocabulary shortlist of a run, which makes decoding with the `native` backend faster.

    For each source token, the shortlist contains its most probable translations (target tokens) in the training text,
    according to IBM Model 1. `zoo decode --shortlist`, or `decoding.shortlist: true` in the spec, restricts decoding to
    the most frequent target tokens and the translations that the shortlist contains for the source tokens.
    `zoo publish` includes the shortlist in the bundle.

    Examples:
        zoo shortlist tiny
        zoo shortlist runs/big && zoo publish runs/big
    """
    from cli.console import report
    from zoo.models import find
    from zoo.training.alignment import make_shortlist
    from zoo.training.run import Run

    print(make_shortlist(Run(find.run(run)), report()))


def sweep(
    specs: Annotated[list[str], argument(complete=options.complete_spec)],
    seeds: Annotated[int, option(min=1, max=100)] = 1,
    jobs: Annotated[int, option(min=1, max=100)] = 1,
    folder: Path | None = None,
    list: bool = False,
    table: bool = False,
    json: options.Json = False,
    device: options.Device = "auto",
) -> int | None:
    r"""Train several specs with several seeds each, and compare them.

    Each training run is one `zoo train` command, which writes to the folder SPEC.seedN. The same sweep command resumes
    interrupted runs and skips finished runs.

    All models are scored on the dev set with the beam size and length penalty of their specs. The table shows each
    score ± half its 95% confidence interval, by bootstrap over sentences. The difference between two specs is
    significant if its 95% confidence interval excludes 0. This interval accounts for the choice of sentences and the
    choice of seeds. With one seed per spec, differences are not tested, because another seed could reverse them.

    Options:
        specs SPEC|KEY=VALUE: Specs or folders of specs (such as `specs/table3`), and fields to set in all specs.
        seeds N: Train each spec with the seeds 1 to N.
        jobs N: Number of training runs in parallel.
        folder DIR: Folder for the runs of the sweep. [default: runs/sweep-FOLDER for shipped specs in one folder,
            otherwise runs/sweep]
        list: Only print the command of each training run, for use with a job scheduler.
        table: Compare the finished runs without further training.

    Examples:
        zoo sweep specs/table3 training.steps=2000 --seeds 2
        zoo sweep table3/base table3/a-h1 --seeds 3 --jobs 2
        zoo sweep specs/table3 --list | tr '\n' '\0' | xargs -0 -P 2 -n 1 sh -c 'eval "$0"'
    """
    from cli.console import report, show_json, show_tables
    from zoo.paper.sweep_report import sweep_json, sweep_tables
    from zoo.training.sweeps.comparison import compare as compare_rows
    from zoo.training.sweeps.trials import default_folder, make_rows, make_trials, parse_arguments, train_all

    if list:
        options.refuse_beside("--list", table=table, json=json)
    rows = make_rows(*parse_arguments(specs))
    messages = report()
    trials = make_trials(rows, seeds, folder or default_folder(rows))
    if list:
        print(*(join(trial.command(device)) for trial in trials), sep="\n")
        return None
    if not table and (stop_signal := train_all(trials, jobs=jobs, device=device, report=messages)):
        return SIGNALLED + stop_signal
    results = compare_rows(rows, trials, messages)
    if not results.results:
        raise ZooError("no run in this sweep has finished yet", hint="omit `--table` to train the runs")
    if json:
        show_json(sweep_json(results))
    else:
        show_tables(*sweep_tables(results))
    return None

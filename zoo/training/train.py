"""`zoo train`: prepare what is missing, train, average, score the dev set."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import torch

from compiler import trainable
from compiler.switches import fast_float32, matrix_libraries, matrix_library
from specs import Spec, ZooError
from zoo.data.ahead import aside
from zoo.data.prepare import Prepared, prepare
from zoo.data.training_set import TrainingSet
from zoo.evaluation.own_sets import evaluate_model
from zoo.evaluation.scores import in_words
from zoo.files.reading import UnreadableError, read_json
from zoo.files.storage import folder_bytes, require_space
from zoo.planning.footprint import footprint
from zoo.planning.room import require_to_train
from zoo.report import Report
from zoo.system.called import called
from zoo.text.vocabulary import Vocabulary
from zoo.training import sharding
from zoo.training.average import average
from zoo.training.checkpoint import checkpoints
from zoo.training.dev import DevSet, too_long, unscored
from zoo.training.prediction import Outset
from zoo.training.processes import Processes, joined
from zoo.training.run import Basis, Run
from zoo.training.start import first_model
from zoo.training.trainer import Trainer
from zoo.version import __version__


def train(
    spec: Spec,
    *,
    run: Path | str | None = None,
    fresh: bool = False,
    device: str = "auto",
    report: Report | None = None,
) -> Run:
    """Trains by this spec in a run's folder (`runs/SPEC` unless `run` names another), from where that run is.

    Under torchrun every process calls it, and they share each step's batch. A process that does nothing else is faster
    on a CPU after `zoo.system.ram.keep_freed()`, as `zoo train` is.
    Ctrl-C or SIGTERM writes a checkpoint and stops. At the end the last checkpoints are averaged and the dev set is
    scored. With `fresh` what the run holds is removed first. Raises ZooError, before anything of the run is written,
    where it was begun with another spec or corpus, where another process trains in it, where the disk or the
    memory is too small, or where the device is not there.
    """
    return trained(spec, run=run, fresh=fresh, device=device, report=report).run


class Trained(NamedTuple):
    """How a training went."""

    run: Run
    ended: bool
    """Whether it is at its end, and was not stopped before."""
    first: bool
    """Whether this is the process that wrote the run, of all that torchrun started."""


def trained(spec: Spec, *, run: Path | str | None, fresh: bool, device: str, report: Report | None = None) -> Trained:
    """As `train`, and how it went."""
    report = report or Report()
    place = Run(Path(run)) if run is not None else Run.default(spec)
    fresh = fresh and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0  # a restart goes on
    if fresh:
        place.check_own()
    else:
        place.check(spec)
    require_space(place.folder, footprint(spec).disk_bytes - folder_bytes(place.checkpoints), "the run")
    with ExitStack() as held:
        with joined(device) as processes:
            require_to_train(spec, str(processes.device), processes.count)
            report = report if processes.first else Report()
            if processes.first:
                held.enter_context(place.locked())
            ended = _trained(spec, place, processes, fresh=fresh, report=report)
        if ended and processes.first:
            average(place)
            report.say(f"averaged the last checkpoints into {place.weights}")
            _score_dev(place, str(processes.device), report)
    return Trained(place, ended, processes.first)


def train_steps(spec: Spec, run: Path | str, device: str = "auto", report: Report | None = None) -> None:
    """The steps of `train` alone: nothing is averaged or scored at the end."""
    place = Run(Path(run))
    with joined(device) as processes, place.locked():
        _trained(spec, place, processes, fresh=False, report=report or Report())


def _trained(spec: Spec, run: Run, processes: Processes, *, fresh: bool, report: Report) -> bool:
    """What every process does."""
    # The model that a run started from may be gone once it has checkpoints of its own.
    model = first_model(spec, report) if fresh or not checkpoints(run) else None
    with processes.first_then_others(on_each_machine=True):
        first = model.vocabulary if model else Vocabulary.load(run.folder) if spec.training.start_from else None
        prepared = prepare(spec, report, first)
    report.say(f"train: {prepared.counts}")
    device = str(processes.device)
    program = trainable(spec, weights=model.weights.tensors if model else None, device=device)
    data = TrainingSet.of(spec, prepared, aside(prepared.verify) if processes.first_here else None)
    longest, backend = int(data.store.source_lengths.max()), program.backend
    sharded = processes.count > 1 and sharding.is_needed(spec, data.mean(0), processes)
    software = f"zoo {__version__} and torch {torch.__version__}"
    outset = Outset.of(spec, program, report) if processes.first else None
    chosen, threads = outset.matrix_library if outset else "", torch.get_num_threads()
    basis = Basis(
        *(prepared.fingerprint, longest, backend, threads, processes.count, sharded, software, chosen, spec.named),
        machine=called(device),
    )
    with processes.first_then_others():
        if processes.first and (problem := too_long(spec, prepared.vocabulary)):
            if fresh or not checkpoints(run):
                raise problem
            report.warn(problem.summary)  # what a run has learned is not lost for it
        if processes.first and fresh:
            run.clear()
        if processes.first:
            _require_same(prepared, run)
        basis = run.start(spec, basis, report) if processes.first else run.basis
        if processes.first:
            prepared.vocabulary.save(run.folder)
    if spec.training.patience is not None and not spec.corpus.dev:
        report.warn("`training.patience` ends nothing: `corpus.dev` is empty, and nothing is scored")
    scored = spec.training.dev_score and spec.corpus.dev and processes.first
    dev = DevSet(spec, prepared.vocabulary, device, report) if scored else None
    library = basis.matrix_library if basis.matrix_library in matrix_libraries() else matrix_library()
    with fast_float32(library), _threads(basis.threads, report), _stopping(report) as stopped:
        trainer = Trainer(spec, data, run, processes, report, dev, program, outset, sharded=basis.sharded)
        try:
            done = trainer.train(stopped)
        except Exception:
            data.verify(wait=False)  # a damaged corpus is the better word for what came of it
            raise
    if not done:
        report.say(f"stopped at step {trainer.progress.step:,}; `zoo train {run.spec_file}` goes on from there")
    return done


def _require_same(prepared: Prepared, run: Run) -> None:
    """Raises ZooError where a run with checkpoints has another: its embeddings are of other tokens."""
    known = read_json(run.data).get("fingerprint") if run.data.is_file() else None
    if known != prepared.fingerprint or not checkpoints(run):  # of another corpus `Run.start` tells
        return
    try:
        begun = Vocabulary.load(run.folder)
    except UnreadableError:
        raise
    except ZooError:  # gone or damaged: it is written anew
        return
    if not begun.has_the_pieces_of(prepared.vocabulary):
        problem = f"the same corpus has given another vocabulary than `{run.folder}` was begun with"
        hint = "go on where it was begun, start over with `--fresh`, or train beside it with `--run DIR`"
        raise ZooError(problem, hint=hint, exit_code=1)


@contextmanager
def _threads(count: int, report: Report) -> Iterator[None]:
    """While it lasts, torch computes on as many threads as the run began with: the order of its sums depends on it."""
    ours = torch.get_num_threads()
    if count != ours:
        report.say(f"on {count} threads, as the run began, and not on {ours}: sums come out the same then")
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(ours)


def _score_dev(run: Run, device: str, report: Report) -> None:
    if not run.spec.corpus.dev:
        report.say("there is no dev set to score")
        return
    with unscored(report):
        scores = evaluate_model(run.folder, "dev", device=device, precision="float32", report=report, show=True)
        report.say(f"dev: {in_words(scores)}")


@contextmanager
def _stopping(report: Report) -> Iterator[Callable[[], bool]]:
    """While it lasts, a first SIGINT or SIGTERM asks for a stop after the step; a second one acts as usual."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()
        signal.signal(number, before[signal.Signals(number)])
        report.say("stopping after this step (once more stops at once, without a checkpoint)")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""Run `zoo train`: generate synthetic text, prepare the corpus, train, average checkpoints, and score the model."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral
from pathlib import Path
from shlex import quote
from types import FrameType
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

import specs
from compiler import EmittedProgram, Purpose, build_module
from compiler.host import fast_float32, matrix_libraries, matrix_library
from specs import Spec, ZooError
from zoo.data.batches import Batch
from zoo.data.prefetch import run_in_thread
from zoo.data.prepare import prepare
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.data.store import longest_input
from zoo.data.training_set import TrainingSet
from zoo.evaluation.evaluate import evaluate_models
from zoo.evaluation.metrics import summary_line
from zoo.files.reading import UnreadableError, read_json
from zoo.files.storage import folder_bytes, require_space
from zoo.models.weights import Weights
from zoo.planning.memory_estimate import estimate_memory, require_memory_to_train
from zoo.report import SILENT, LibraryReport, Report
from zoo.system.processors import bfloat16_speed, device_name
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import BatchAligner
from zoo.training.averaging import average, end_of_training, mean_of
from zoo.training.checkpoints import list_checkpoints, scheduled_checkpoints
from zoo.training.dev_set import DevSet, continue_without_score, require_scorable_dev_set
from zoo.training.distributed import Processes, full_tensor, join_processes, needs_sharding
from zoo.training.initial_model import initial_model, prepare_corpus
from zoo.training.run import Run, RunIdentity
from zoo.training.step import TrainStep
from zoo.training.synthetic import write_missing
from zoo.training.trainer import Trainer
from zoo.version import __version__

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TrainingResult(NamedTuple):
    """Result of `run_training`: the trained run, and how its training ended."""

    run: Run
    stop_signal: int
    """Number of the signal that stopped training. 0 if training is complete."""
    first: bool
    """Whether this process wrote the run. If torchrun starts several processes, only the first process does."""


def train(
    spec: Spec,
    *,
    run: Path | str | None = None,
    fresh: bool = False,
    device: str = "auto",
    report: Report = SILENT,
) -> Run:
    """Train the model that a spec describes. Resume the run if its folder exists.

    Ctrl-C, SIGTERM or SIGHUP (a closed terminal) writes a checkpoint and stops. At the end, the last checkpoints are
    averaged, and the model is scored on the dev set. Under torchrun, every process calls this function, and the
    processes share the batch of each step.

    If the process does nothing else, call `compiler.host.tune_process()` first, as `zoo train` does. This call
    speeds up training on a CPU. If a run is resumed without it, rounding may differ.

    Args:
        spec: Spec of the model, its corpus and its training.
        run: The run's folder. By default `runs/SPEC`.
        fresh: Whether to remove an existing run in the folder first.
        device: "auto", "cpu", "cuda" or "cuda:N".
        report: Receives messages and progress.

    Returns:
        The run.

    Raises:
        ZooError: The run was started with a different spec or corpus, it has weights but no checkpoint, another process
            is training it, there is not enough disk space or memory, or the device does not exist. In these cases, the
            run is unchanged.
    """
    return run_training(spec, run=run, fresh=fresh, device=device, report=report).run


def run_training(
    spec: Spec, *, run: Path | str | None, fresh: bool, device: str, report: Report = SILENT
) -> TrainingResult:
    """Train as `train` does. Also return whether training is complete or was stopped by a signal."""
    chosen = Run(Path(run)) if run is not None else Run.default(spec)
    # When torchrun restarts the processes, they must resume the run instead of removing it again.
    fresh = fresh and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) == 0
    if fresh:
        chosen.require_own_files()
    else:
        chosen.check(spec)
    require_space(chosen.folder, estimate_memory(spec).disk_bytes - folder_bytes(chosen.checkpoints), "the run")
    with ExitStack() as lock:
        with join_processes(device) as processes:
            require_memory_to_train(spec, str(processes.device), processes.count)
            report = report if processes.first else Report()
            if processes.first:
                lock.enter_context(chosen.locked())
            if not fresh:
                _require_resumable(chosen, spec)
                limits = {"training.steps", "training.max_tokens"}
                is_same = chosen.exists and specs.difference(chosen.spec, spec).keys() <= limits
                if is_same and (reason := end_of_training(chosen, spec)):
                    report.info(f"nothing is left to train: {reason}; the averaged weights are in `{chosen.weights}`")
                    return TrainingResult(chosen, 0, processes.first)
            stop_signal = _train(spec, chosen, processes, fresh=fresh, report=report)
        if not stop_signal and processes.first:
            _average(chosen, str(processes.device), report)
            _score_dev_set(chosen, str(processes.device), report)
    return TrainingResult(chosen, stop_signal, processes.first)


def _require_resumable(run: Run, spec: Spec) -> None:
    """Raise ZooError if a run has done more than `training.steps` steps, or has only weights, as after `zoo.save`."""
    step = max((checkpoint.step for checkpoint in list_checkpoints(run)), default=0)
    if run.trained and not step:
        problem = f"`{run.folder}` has trained weights, but no checkpoint from which training could resume"
        start = quote(f"training.start_from={run.folder}")
        hint = f"set `{start}` and train in another folder with `--run DIR`, or use `--fresh`"
        raise ZooError(problem, hint=hint)
    if step > spec.training.steps:
        problem = f"`training.steps` is {spec.training.steps:,}, but `{run.folder}` is already at step {step:,}"
        hint = "set a larger `training.steps`, start over with `--fresh`, or train in another folder with `--run DIR`"
        raise ZooError(problem, hint=hint)


def _train(spec: Spec, run: Run, processes: Processes, *, fresh: bool, report: Report) -> int:
    """Prepare the corpus and train, in every process. Return the number of the signal that stopped training, or 0."""
    device = str(processes.device)
    # Once a run has checkpoints, the model that it started from is no longer needed and may be gone.
    starts = fresh or not list_checkpoints(run)
    model = initial_model(spec, report) if starts else None
    with processes.first_then_others(on_each_machine=True):
        given = model.vocabulary if model else Vocabulary.load(run.folder) if spec.training.start_from else None
        known = run.identity.synthetic if not fresh and run.data.is_file() else ()
        complete, synthetic = write_missing(spec, report, device, known)
        prepared = prepare(complete, report, given)
    report.info(f"train: {prepared.counts}")
    resumes = not starts and run.data.is_file()
    chosen = _with_backend_of(run, spec) if resumes and spec.compilation.backend == "auto" else spec
    program = build_module(chosen, weights=model.weights.tensors if model else None, device=device)
    verified = run_in_thread(prepared.verify) if processes.first_on_machine else None
    packs = Purpose.UPDATE in program.graphs
    data = TrainingSet.from_prepared(spec, prepared)
    sharded = processes.count > 1 and needs_sharding(spec, None if packs else data.mean_size(), processes)
    identity = RunIdentity(
        fingerprint=prepared.fingerprint,
        longest_source=longest_input(data.store),
        backend=program.backend,
        threads=torch.get_num_threads(),
        processes=processes.count,
        sharded=sharded,
        packed=packs and not sharded,
        software=f"zoo {__version__} and torch {torch.__version__}",
        matrix_library=matrix_library() if device == "cpu" else "",
        named=spec.has_own_name,
        machine=device_name(device),
        synthetic=synthetic,
    )
    with processes.first_then_others():
        if processes.first:
            identity = _start(spec, run, prepared, identity, fresh=fresh, report=report)
        else:
            identity = run.identity
    if identity.packed:
        data = TrainingSet.from_prepared(spec, prepared, packed=True)
    if processes.first:
        _warn(spec, data, device, report)
    dev = None
    if spec.training.dev_score and spec.corpus.dev and processes.first:
        dev = DevSet(spec, prepared.vocabulary, device, report)
    on_stop = partial(report.info, "stopping after this step (repeat to stop immediately, without a checkpoint)")
    library = identity.matrix_library if identity.matrix_library in matrix_libraries() else matrix_library()
    with fast_float32(library), _torch_threads(identity.threads, report), stop_requested(on_stop) as received:
        aligner = BatchAligner(data.store, prepared.vocabulary) if spec.training.guided_alignment is not None else None
        train_step = TrainStep(spec, program, processes, report, sharded=identity.sharded, aligner=aligner)
        trainer = Trainer(train_step, data, run, dev, verified)
        try:
            ended = trainer.train(lambda: bool(received()))
        except Exception:
            trainer.verify_data(wait=False)  # if the corpus is damaged, that is the cause to report
            raise
    if ended:
        return 0
    report.info(f"stopped at step {trainer.progress.step:,}; run `zoo train {quote(str(run.spec_file))}` to resume")
    return processes.maximum(received())[0]


def _warn(spec: Spec, data: TrainingSet, device: str, report: Report) -> None:
    """Warn if training is very short, or if a setting makes it slow or has no effect."""
    training, steps = spec.training, spec.training.steps
    if training.max_tokens is not None:
        steps = min(steps, -(-training.max_tokens // data.mean_size().target_tokens))
    if warning := training.describe_short_training(steps):
        report.warn(warning)
    if training.precision == "bfloat16" and device == "cpu" and (speed := bfloat16_speed()) < 1:
        emulated = f"this processor only emulates bfloat16, at {speed:.2g} times the speed of float32"
        report.warn(f"{emulated}; set `training.precision=float32` before you start a run")
    if training.patience is not None and not spec.corpus.dev:
        report.warn("`training.patience` has no effect: `corpus.dev` is empty, so nothing is scored")


def _with_backend_of(run: Run, spec: Spec) -> Spec:
    """Return the spec with the backend that a run was started with, because `auto` may choose a different one now."""
    compilation = spec.compilation.model_copy(update={"backend": run.identity.backend})
    return spec.model_copy(update={"compilation": compilation})


def _start(
    spec: Spec, run: Run, prepared: PreparedCorpus, identity: RunIdentity, *, fresh: bool, report: Report
) -> RunIdentity:
    """Start a run (if `fresh`, from the beginning) or resume it, in the process that writes the run's files.

    Return the identity of the run.
    """
    if fresh or not list_checkpoints(run):
        require_scorable_dev_set(spec, prepared.vocabulary)
    if fresh:
        run.clear()
    _require_same_vocabulary(prepared, run)
    identity = run.start(spec, identity, report)
    prepared.vocabulary.save(run.folder)
    return identity


def _require_same_vocabulary(prepared: PreparedCorpus, run: Run) -> None:
    """Raise ZooError if the corpus produces a vocabulary that does not fit the embeddings in the run's checkpoints."""
    fingerprint = read_json(run.data).get("fingerprint") if run.data.is_file() else None
    if fingerprint != prepared.fingerprint or not list_checkpoints(run):  # `Run.start` reports a different corpus
        return
    try:
        vocabulary = Vocabulary.load(run.folder)
    except UnreadableError:
        raise
    except ZooError:  # missing or damaged: it will be written again
        return
    if not vocabulary.has_same_tokens_as(prepared.vocabulary):
        problem = f"the vocabulary differs from the one in `{run.folder}`, although the corpus has not changed"
        hint = "resume on the original machine, start over with `--fresh`, or train in another folder with `--run DIR`"
        raise ZooError(problem, hint=hint, exit_code=1)


@contextmanager
def _torch_threads(count: int, report: Report) -> Iterator[None]:
    """In the `with` block, use `count` torch threads, as at the start of the run, so that rounding is the same."""
    before = torch.get_num_threads()
    if count != before:
        report.info(f"using {count} threads instead of {before}, as at the start of the run, to get the same results")
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _average(run: Run, device: str, report: Report) -> None:
    """Average a run's last checkpoints.

    If the last checkpoint scores better on the dev set than the average, use the last checkpoint's weights and warn.
    """
    average(run)
    averaged = scheduled_checkpoints(run)[-run.spec.training.average :]
    what = "averaged the last checkpoints into" if len(averaged) > 1 else "copied the weights of the last checkpoint to"
    report.info(f"{what} {run.weights}")
    if run.spec.training.dev_score is None or not run.spec.corpus.dev or len(averaged) == 1:
        return
    with continue_without_score(report):
        dev = DevSet(run.spec, Vocabulary.load(run.folder), device, report)
        mean, last = (dev.score(mean_of([each.weights for each in chosen])) for chosen in (averaged, averaged[-1:]))
        if dev.metric.is_better(last, mean):
            average(run, 1)
            title, scores = dev.metric.title, [dev.metric.format_score(score) for score in (mean, last)]
            report.warn(
                f"the average of the last {len(averaged)} checkpoints has a worse dev {title} ({scores[0]}) than the "
                f"last checkpoint ({scores[1]}), which is used instead; "
                f"run `zoo average {quote(str(run.folder))} --last {len(averaged)}` to use the average"
            )


def _score_dev_set(run: Run, device: str, report: Report) -> None:
    if not run.spec.corpus.dev:
        report.info("there is no dev set, so the model is not scored")
        return
    with continue_without_score(report):
        scores = evaluate_models([run.folder], "dev", device=device, precision="float32", report=report, show=True)
        report.info(f"dev: {summary_line(scores)}")


@contextmanager
def stop_requested(on_stop: Callable[[], object]) -> Iterator[Callable[[], int]]:
    """Yield a function that returns the number of the first signal that requests a stop, or 0 if there was none.

    Each of _STOP_SIGNALS requests a stop and calls `on_stop`. If the same signal arrives again, it has its usual
    effect. In threads other than the main thread, signals cannot be handled, and the function always returns 0.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: 0
        return

    def request(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])
        on_stop()

    numbers = [each for each in _STOP_SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]  # `nohup` ignores SIGHUP
    before = {number: signal.signal(number, request) for number in numbers}
    try:
        yield lambda: next(iter(received), 0)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def batches(spec: Spec | str | os.PathLike[str]) -> Iterator[Batch]:
    """Yield the training batches for a spec endlessly, epoch after epoch, in the same order as `zoo train`.

    If the corpus is not prepared yet, it is prepared first.

    Args:
        spec: A spec, or its name or path.

    Yields:
        Padded token IDs: `batch.source` is a `zoo.PaddedBatch`. `batch.target.values` is a tensor
        `[batch, target + 1]`, whose rows begin with BOS.

    Raises:
        ZooError: The corpus is missing or cannot be used.
    """
    loaded = spec if isinstance(spec, Spec) else specs.load(spec)
    data = TrainingSet.from_prepared(loaded, prepare_corpus(loaded, LibraryReport()))
    for examples, _ in data.batches_from(0):
        yield examples.to_batch()


def save(model: nn.Module, run: str | os.PathLike[str], *, steps: int) -> Run:
    """Save a module from `zoo.model` as a run: write its spec, its vocabulary and its weights to a folder.

    `zoo.load` and all commands that take a run accept the folder. Scores of earlier weights are removed. If several
    processes train together, the first process writes the folder. If the module is sharded, all processes have to call
    this function.

    Args:
        model: The trained module, or a wrapper around one module, such as `DistributedDataParallel`.
        run: Folder of the run. It is created if it does not exist.
        steps: Number of steps that the module was trained for. The model card shows this number.

    Raises:
        ZooError: The folder cannot be created, or contains a run of `zoo train`, a run with a different spec, or files
            that no training run wrote. Also raised if a weight is not finite, if `zoo.model` did not create one of the
            module's parameters, or if `steps` is negative or not an integer.
    """
    if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 0:
        hint = "pass the number of training steps"
        raise ZooError(f"`steps` must be a non-negative integer, not `{steps!r}`", hint=hint)
    programs = [each for each in model.modules() if isinstance(each, EmittedProgram)]
    if len(programs) != 1:
        hint = "pass the module that `zoo.model` returned, or a wrapper around it"
        raise ZooError(f"`model` contains {len(programs)} modules from `zoo.model` instead of one", hint=hint)
    program, spec, chosen = programs[0], programs[0].spec, Run(Path(run))
    tensors = program.in_file_layout({n: full_tensor(tensor.detach()) for n, tensor in program.named_parameters()})
    if broken := [name for name, tensor in tensors.items() if not tensor.isfinite().all()]:
        hint = "save the model before its training diverges, or lower the learning rate"
        raise ZooError(f"the weights `{broken[0]}` are not finite", hint=hint)
    chosen.check(spec)
    if list_checkpoints(chosen) or chosen.log.exists():
        problem = f"`{chosen.folder}` contains a run of `zoo train`, whose weights would be overwritten"
        raise ZooError(problem, hint="save to another folder")
    if dist.is_initialized() and dist.get_rank():
        return chosen
    prepared = prepare_corpus(spec, Report())
    longest = longest_input(prepared.store("train"))
    identity = RunIdentity(prepared.fingerprint, longest, program.backend, torch.get_num_threads(), processes=1)
    software, machine = f"zoo {__version__} and torch {torch.__version__}", device_name(str(program.device))
    with chosen.locked():
        chosen.start(spec, replace(identity, software=software, named=spec.has_own_name, machine=machine), Report())
        prepared.vocabulary.save(chosen.folder)
        for file in (chosen.scores, chosen.answers("dev"), chosen.answers("test")):
            file.unlink(missing_ok=True)
        Weights(tensors, {"steps": str(int(steps)), "longest_source": str(longest)}).write(chosen.weights)
    return chosen

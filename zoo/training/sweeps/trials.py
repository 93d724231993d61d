"""Rows and trials in a sweep. A row is a spec with overrides. A trial is a training run of a row with one seed.

Each trial is trained in its own `zoo train` process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import specs
from compiler.host import cores
from specs import METADATA_FIELDS, Spec, Translation, ZooError
from specs.catalogue import specs_in_folder
from zoo.data.prefetch import run_in_thread
from zoo.models.folder import RUNS
from zoo.report import Report
from zoo.training.averaging import end_of_training
from zoo.training.run import Run
from zoo.training.train import stop_requested

SEED = "training.seed"
_POLL_SECONDS = 0.2
_OTHER_SWEEP_HINT = "use another folder with `--folder DIR`, or set the fields that this run was started with"


@dataclass(frozen=True)
class SweepRow:
    """Row in a sweep: one spec, which is trained with one or more seeds."""

    name: str
    """Name of the row. The names of its runs begin with this name."""
    reference: str
    """Name or path of the spec, as given on the command line."""
    overrides: tuple[str, ...]
    """Overrides from the command line."""
    spec: Spec
    """Spec with the overrides, but with its original seed."""
    parent: str | None
    """Name of the row that this row extends and is compared with."""
    changes: Mapping[str, Any]
    """Values that differ from the values in the parent row, keyed by dotted field names."""


def parse_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split command-line arguments into specs and overrides. Overrides contain "=".

    Raises:
        ZooError: There is no spec.
    """
    references = [word for word in words if "=" not in word]
    if not references:
        hint = "specify a folder of specs, such as `specs/table3`, or several specs"
        raise ZooError("no specs were given for the sweep", where="command line", hint=hint)
    return references, [word for word in words if "=" in word]


def make_rows(references: Sequence[str], overrides: Sequence[str]) -> tuple[SweepRow, ...]:
    """Return the rows of a sweep, one for each spec. A spec precedes the specs that extend it.

    Args:
        references: Names or paths of specs, and folders of specs.
        overrides: Fields to set in all rows: "KEY=VALUE".

    Raises:
        ZooError: A spec does not exist or does not describe a translation model, two specs have the same name or
            describe the same model, or the overrides set the seed.
    """
    if any(text.partition("=")[0].strip() == SEED for text in overrides):
        hint = "use `--seeds N` instead, which trains with the seeds 1 to N"
        raise ZooError(f"`{SEED}` is set by the sweep itself", where="command line", hint=hint)
    unique = dict.fromkeys(spec for reference in references for spec in specs_in_folder(reference) or (reference,))
    plain = {reference: specs.load(reference) for reference in unique}
    rows: dict[str, SweepRow] = {}
    for reference in sorted(plain, key=lambda name: (_depth(name, plain), _natural_order(plain[name].short_name))):
        rows[reference] = _make_row(reference, plain, rows, overrides)
    _require_distinct(rows.values())
    return tuple(rows.values())


def _make_row(reference: str, plain: dict[str, Spec], rows: dict[str, SweepRow], overrides: Sequence[str]) -> SweepRow:
    """Return the row of a spec. If the spec's parent is in the sweep, `rows` must already contain the parent's row.

    `plain` contains all specs in the sweep, without overrides.
    """
    spec, parent = plain[reference], rows.get(_parent(reference, plain) or "")
    if not isinstance(spec.task, Translation):
        problem = f"the task of `{reference}` is `{spec.task.kind}`, but a sweep compares translation models"
        raise ZooError(problem, hint=f"remove the spec from the sweep, and run `zoo train {reference}`")
    changed = specs.load(reference, overrides)
    differing = specs.difference(changed, parent.spec) if parent else {}
    changes = {key: value for key, (_, value) in differing.items() if key not in METADATA_FIELDS}
    name = spec.short_name.rpartition("/")[2]
    return SweepRow(name, reference, tuple(overrides), changed, parent.name if parent else None, changes)


def _parent(reference: str, plain: dict[str, Spec]) -> str | None:
    """Return the name or path of a spec's parent, the spec that it extends. None if the parent is not in the sweep.

    `plain` contains all specs in the sweep, without overrides.
    """
    parent = specs.parent(reference)
    if parent is None:
        return None
    return next((name for name, spec in plain.items() if (spec.short_name, spec) == (parent.short_name, parent)), None)


def _depth(reference: str, plain: dict[str, Spec]) -> int:
    parent = _parent(reference, plain)
    return 0 if parent is None else 1 + _depth(parent, plain)


def _require_distinct(rows: Iterable[SweepRow]) -> None:
    """Raise ZooError if two rows have the same name, or describe the same model."""
    names, models = dict[str, SweepRow](), dict[Spec, SweepRow]()
    for row in rows:
        if (same := names.setdefault(row.name, row)) is not row:
            problem = f"`{same.reference}` and `{row.reference}` would have the same name in the sweep, `{row.name}`"
            raise ZooError(problem, hint="rename one of the spec files, or omit one of the specs")
        bare = row.spec.model_copy(update={"name": "row", "description": "", "licence": None})
        if (same := models.setdefault(bare, row)) is not row:
            problem = f"with these overrides, `{row.reference}` describes the same model as `{same.reference}`"
            raise ZooError(problem, hint=f"override fewer fields, or omit `{row.reference}`")


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Return a sort key that orders numbers by value: h4 before h16."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


@dataclass(frozen=True)
class Trial:
    """One training run in a sweep, with one spec and one seed. A `zoo train` command trains it in a separate folder."""

    row: SweepRow
    seed: int
    run: Run

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.run.folder.name

    @property
    def spec(self) -> Spec:
        """The spec of this trial: the spec of its row in the sweep, with the trial's seed."""
        spec = self.row.spec
        return spec.model_copy(update={"training": spec.training.model_copy(update={"seed": self.seed})})

    def command(self, device: str = "auto") -> list[str]:
        """Return the command line that trains or resumes the run."""
        words = ["zoo", "train", self.row.reference, *self.row.overrides, f"{SEED}={self.seed}"]
        return [*words, "--run", str(self.run.folder), *(["--device", device] if device != "auto" else [])]

    @property
    def finished(self) -> bool:
        """Whether training is complete, and the averaged weights have been scored on the dev set."""
        return self.run.answers("dev").is_file() and end_of_training(self.run, self.spec) is not None

    @property
    def lock_problem(self) -> str | None:
        """Error message if another process has locked the run, otherwise None.

        On a file system without locks, `Run.is_training` stays True if the training process is killed, so this property
        also tries to acquire the lock.
        """
        try:
            with self.run.locked() if self.run.is_training else nullcontext():
                return None
        except ZooError as error:
            return error.problem


def make_trials(rows: Sequence[SweepRow], seeds: int, folder: Path) -> tuple[Trial, ...]:
    """Return one trial (training run) per row (spec) and seed: all rows with seed 1, then all with seed 2, and so on.

    Raises:
        ZooError: The folder already contains a run with the same name as a trial, but with a different spec.
    """
    trials = tuple(
        Trial(row, seed, Run(folder / f"{row.name}.seed{seed}")) for seed in range(1, seeds + 1) for row in rows
    )
    for trial in trials:
        try:
            trial.run.check(trial.spec)
        except ZooError as error:
            raise ZooError(error.problem, hint=_OTHER_SWEEP_HINT) from None
    return trials


def default_folder(rows: Sequence[SweepRow]) -> Path:
    """Return the default folder for the runs.

    This is `runs/sweep-FOLDER` if all specs are shipped specs in one folder, such as `table3`. Otherwise, it is
    `runs/sweep`.
    """
    folders = {row.spec.short_name.rpartition("/")[0] for row in rows}
    return RUNS / "-".join(["sweep", *(folders.pop().split("/") if len(folders) == 1 else [])]).rstrip("-")


class TrainingProcess:
    """Process that executes one training run in a sweep. Each line of its output is reported with the run's name."""

    def __init__(self, trial: Trial, device: str, environment: Mapping[str, str], report: Report) -> None:
        command = [sys.executable, "-m", *trial.command(device)]
        self.trial, self._report = trial, report
        # The child has its own process group, so that Ctrl-C reaches it only once: a second signal would prevent the
        # checkpoint. If this process is killed, the child ends when it next writes to the closed pipe.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=environment,
            process_group=0,
        )
        self.problem = run_in_thread(self._read)
        """Future of the error message, which is empty if the process succeeds."""

    def _read(self) -> str:
        """Report the output of the training process until the process ends. Return the error message, or ""."""
        error = ""
        with self._process as process:
            for line in cast(IO[str], process.stdout):
                if line.startswith("error: "):
                    error = line.rstrip()
                if line.strip():
                    self._report.info(f"{self.trial.name}: {line.rstrip()}")
        if not process.returncode:
            return ""
        return error.removeprefix("error: ") or f"its process ended with status {process.returncode}"

    def stop(self) -> None:
        """Ask the training process to write a checkpoint and end."""
        self._process.terminate()

    def close(self) -> None:
        """Stop the training process, and wait until it has ended."""
        self.stop()
        self.problem.exception()


def train_all(trials: Sequence[Trial], *, jobs: int, device: str, report: Report) -> int:
    """Train all unfinished runs of a sweep (`trials`) in order, `jobs` at a time.

    Runs that other processes are already training come last. Ctrl-C, SIGTERM or SIGHUP makes each process write a
    checkpoint and end.

    Returns:
        The number of the signal that stopped the sweep, or 0 if all trials are finished.

    Raises:
        ZooError: Some trials failed. The error is raised after all other trials have finished.
    """
    waiting = [trial for trial in trials if not trial.finished]
    report.info(f"runs: {len(trials):,}, of which {len(trials) - len(waiting):,} finished")
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // jobs))} if jobs > 1 else {}
    running: list[TrainingProcess] = []
    failed: list[TrainingProcess] = []
    reported = ""

    def stop_all() -> None:
        for process in running:
            process.stop()

    with ExitStack() as processes, stop_requested(stop_all) as stopped:
        while running or (waiting and not stopped()):
            for process in [process for process in running if process.problem.done()]:
                running.remove(process)
                if process.problem.result() and not stopped():
                    failed.append(process)
            following = _take_next(waiting) if len(running) < jobs and not stopped() else None
            if following is not None:
                process = TrainingProcess(following, device, {**threads, **os.environ}, report)
                running.append(processes.enter_context(closing(process)))
                if stopped():  # the signal came while the process was started
                    process.stop()
                continue
            if waiting and not running and (problem := waiting[0].lock_problem) and problem != reported:
                report.info(f"waiting: {(reported := problem)}")
            time.sleep(_POLL_SECONDS)
    if failed:
        problems = "".join(f"\n  {process.trial.name}: {process.problem.result()}" for process in failed)
        hint = "repeat the command to train the failed runs again; add `--list` to print the command line of each run"
        raise ZooError(f"{len(failed)} of {len(trials)} runs failed:{problems}", hint=hint, exit_code=1)
    return stopped()


def _take_next(waiting: list[Trial]) -> Trial | None:
    """Remove and return the first unfinished trial that no process is training, if any. Drop finished trials."""
    for trial in list(waiting):
        if not trial.lock_problem:
            waiting.remove(trial)
            if not trial.finished:
                return trial
    return None

"""The work of a sweep: each trial's command line in a process of its own, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread
from typing import IO

from compiler.host import cores
from specs import ZooError
from zoo.report import Report
from zoo.training.run import TAKEN
from zoo.training.sweeps.trial import Trial

_AGAIN = 0.2  # seconds between two looks at the processes
_THREADS = "OMP_NUM_THREADS"


class Child:
    """A process that trains; what it says is said by its trial's name."""

    def __init__(self, trial: Trial, device: str, threads: int | None, report: Report) -> None:
        command = [sys.executable, "-m", *trial.command(device)]
        environment = {**os.environ, _THREADS: str(threads)} if threads else None
        self.trial, self._report, self._last = trial, report, ""
        # In a group of its own: a Ctrl-C is passed on once, and twice would be no checkpoint. Where we are killed, it
        # ends at the next line that it says, which nobody reads.
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
        self._heard = Thread(target=self._hear, args=[self._process.stdout], daemon=True)
        self._heard.start()

    def _hear(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._last = line.rstrip() if line.startswith("error: ") else self._last
                if line.strip():
                    self._report.info(f"{self.trial.name}: {line.rstrip()}")

    @property
    def status(self) -> int | None:
        """How it ended, when it has, and all that it said was heard."""
        if self._process.poll() is not None:
            self._heard.join()
        return self._process.returncode

    @property
    def problem(self) -> str:
        """Of one that failed."""
        return self._last.removeprefix("error: ") or f"its process ended with {self.status}"

    def stop(self) -> None:
        """Asks it to write a checkpoint and end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        self._process.wait()
        self._heard.join()


def train_all(trials: Sequence[Trial], *, jobs: int, device: str, report: Report) -> bool:
    """Trains what is not finished, `jobs` at a time, in their order; False where it was stopped.

    One that another process trains waits until the others are begun. Ctrl-C or SIGTERM has each process write its
    checkpoint. Raises ZooError, when all others are done, where one failed.
    """
    waiting = [trial for trial in trials if not trial.finished]
    report.info(f"{len(trials):,} runs, {len(trials) - len(waiting):,} of them done")
    threads = max(1, cores() // jobs) if jobs > 1 and _THREADS not in os.environ else None
    running: list[Child] = []
    failed: list[Child] = []
    said = ""
    with _stopping(running) as stopped:
        while running or (waiting and not stopped):
            for child in [each for each in running if each.status is not None]:
                running.remove(child)
                if child.status and not stopped:
                    # A process takes its run's lock seconds after it was begun: another one may have been quicker.
                    if TAKEN in child.problem or child.trial.busy or child.trial.finished:
                        waiting.append(child.trial)
                    else:
                        failed.append(child)
            trial = _next(waiting) if len(running) < jobs and not stopped else None
            if trial is not None:
                running.append(Child(trial, device, threads, report))
                if stopped:  # meanwhile
                    running[-1].stop()
                continue
            if waiting and not running and (busy := waiting[0].busy) and busy != said:
                report.info(f"waiting: {(said := busy)}")
            time.sleep(_AGAIN)
    if failed:
        raise _failure(failed, len(trials))
    return not stopped


def _next(waiting: list[Trial]) -> Trial | None:
    """Takes out the first that nobody trains, and what another process has finished before it."""
    for trial in list(waiting):
        if not trial.busy:
            waiting.remove(trial)
            if not trial.finished:
                return trial
    return None


@contextmanager
def _stopping(running: Sequence[Child]) -> Iterator[list[int]]:
    """While it lasts, SIGINT and SIGTERM ask the processes to stop; a list that then is not empty."""
    asked: list[int] = []

    def stop(number: int, frame: object) -> None:
        asked.append(number)
        for child in running:
            child.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for child in running:  # an error of ours
            child.stop()
            child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)


def _failure(failed: Sequence[Child], of: int) -> ZooError:
    told = "".join(f"\n  {child.trial.name}: {child.problem}" for child in failed)
    hint = "the same command tries them again, and leaves what is done; `--list` shows the command line of each"
    return ZooError(f"{len(failed)} of {of} runs failed:{told}", hint=hint, exit_code=1)

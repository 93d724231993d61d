"""Runs many cases in a few worker processes. A worker that crashes or hangs is killed, and its case is named."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import Any
from unittest import mock

import torch

from hostile import bundles, data, faults, imports, judge, registries
from hostile.judge import Case, Clock, Escaped, FileGuard, Outcome, TooLong, WrongResult
from hostile.trial import Trial
from hostile.world import World
from zoo.system.memory import peak_memory

_TESTS = Path(__file__).resolve().parents[1]
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["torch", "zoo.generation.loading"])
RUN: dict[str, Callable[[Random, Trial], None]] = {
    "bundles": bundles.run,
    "intruders": bundles.run_intruder,
    "imports": imports.run,
    "registries": registries.run,
    "vocabularies": data.run_vocabulary,
    "archives": data.run_archive,
    "faults": faults.run,
}
KINDS = [kind for kind in RUN if kind != "faults"]
_START_SECONDS, _ANSWER_SECONDS = 120, 20
"""Time limits for the start of a worker, and for its answer, which comes after half of it."""
_MAX_CASES = 1500
"""Number of cases after which a worker is replaced."""


def run_cases(cases: Iterable[Case], folder: Path, workers: int = 2) -> list[Outcome]:
    """Run cases, and return their outcomes in any order. The folder is empty before, and useless afterwards."""
    queue: SimpleQueue[Case] = SimpleQueue()
    for case in cases:
        queue.put(case)
    world = World(folder / "world")
    world.folder.mkdir()
    environment = mock.patch.dict(os.environ, _environment(), clear=True)
    paths = mock.patch.object(sys, "path", [str(_TESTS.parent), str(_TESTS), *sys.path])
    with environment, paths, ThreadPoolExecutor(workers) as pool:
        maker = _start(world.make)
        maker.join()
        assert maker.exitcode == 0, "the shared files cannot be made"
        results = [pool.submit(_run_queue, queue, folder / f"worker-{index}", world) for index in range(workers)]
        return [outcome for each in results for outcome in each.result()]


def _run_queue(queue: SimpleQueue[Case], folder: Path, world: World) -> list[Outcome]:
    outcomes: list[Outcome] = []
    while not queue.empty():
        worker, usable = _Worker(Path(f"{folder}-{len(outcomes)}"), world), True
        with suppress(Empty):
            while usable:
                outcome, usable = worker.run(queue.get_nowait())
                outcomes.append(outcome)
        worker.end()
    return outcomes


class _Worker:
    """A process that runs cases, seen from outside."""

    def __init__(self, folder: Path, world: World) -> None:
        folder.mkdir()
        self._log = folder / "log"
        self._cases = 0
        self._connection, other = _PROCESSES.Pipe()
        self._process = _start(_serve, other, self._log, folder / "sandbox", world)
        self._pid: int = self._process.pid  # type: ignore[assignment]
        other.close()  # so that an end of the process is noticed
        if self._answer(_START_SECONDS) is None:
            self.end()
            raise RuntimeError(f"the worker does not start: {self._last_log()}")

    def run(self, case: Case) -> tuple[Outcome, bool]:
        """Return the outcome of a case, and whether the process can run another one."""
        self._cases += 1
        start = time.monotonic()
        try:
            self._connection.send(case)
            answer = self._answer(_ANSWER_SECONDS)
        except (EOFError, OSError):
            self._process.join()
            problem = f"it ended the process ({self._process.exitcode})\n{self._last_log()}"
            return Outcome(case, problem, time.monotonic() - start), False
        if answer is not None:
            outcome, too_large = answer
            interrupted = (outcome.failure or "").startswith("TooLong")
            return outcome, not (interrupted or too_large) and self._cases < _MAX_CASES
        os.kill(self._pid, signal.SIGUSR1)  # it logs its stack
        time.sleep(0.5)
        return Outcome(case, f"it hangs\n{self._last_log()}", time.monotonic() - start), False

    def end(self) -> None:
        """Kill the process and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        self._process.join()
        self._connection.close()

    def _answer(self, seconds: float) -> Any:
        """Return what the process sends, or None if the time is over. Raise EOFError if the process has ended."""
        clock = Clock(self._pid)
        while not self._connection.poll(1):
            if clock.seconds() > seconds:
                return None
        return self._connection.recv()

    def _last_log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


def _environment() -> dict[str, str]:
    """Return the environment of a worker: one thread, and no settings of this process."""
    removed = ("ZOO_", "PYTEST_", "OMP_", "MKL_", "TORCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


class _Sandbox:
    """Runs cases in this process, each in its own folder, next to a folder that nothing may change."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world, self.guard = folder, world, FileGuard()
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "kept").write_text("as it is\n")
        os.chdir(self.outside)
        world.hypotheses  # noqa: B018  (computed before the memory is limited)
        judge.limit_memory()

    def run(self, case: Case) -> Outcome:
        folder = self.folder / "case" / f"{case.kind}-{case.seed}"
        (temporary := folder / "tmp").mkdir(parents=True)
        trial = Trial(folder, self.world, self.guard)
        own = {"ZOO_HOME": trial.home, "ZOO_OFFLINE": 1, "HOME": folder, "TMPDIR": temporary}
        with mock.patch.dict(os.environ, {name: str(each) for name, each in own.items()}), chdir(folder):
            tempfile.tempdir = None
            clock = Clock()
            failure = self._failure(case, trial)
            seconds = clock.seconds()
        if failure is not None:
            failure = f"{failure}\n\n" + "\n".join(trial.notes)
        shutil.rmtree(folder, ignore_errors=True)
        return Outcome(case, failure, seconds, trial.answered, trial.refused)

    def _failure(self, case: Case, trial: Trial) -> str | None:
        try:
            with self.guard.inside(trial.folder, self.outside, self.world.folder), judge.time_limit():
                RUN[case.kind](case.random, trial)
        except WrongResult as wrong:
            return f"wrong: {wrong}"
        except (TooLong, Escaped) as error:
            return f"{type(error).__name__}: {error}{_stack(error)}"
        except BaseException as error:
            return f"traceback: {type(error).__name__}: {str(error)[:500]}{_stack(error)}"
        used = peak_memory("cpu")
        return f"it took {used / 1e9:.1f} GB" if used > judge.BYTES else None


def _stack(error: BaseException) -> str:
    return "\n" + "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-12:]))


def _start(target: Callable[..., None], *arguments: object) -> BaseProcess:
    """Start a process with the environment of this one, which is not that of the server of processes."""
    process = _PROCESSES.Process(target=_run_in, args=(dict(os.environ), target, *arguments))
    process.start()
    return process


def _run_in(environment: Mapping[str, str], action: Callable[..., None], *arguments: object) -> None:
    os.environ.clear()
    os.environ |= environment
    action(*arguments)


def _serve(connection: Connection, log: Path, folder: Path, world: World) -> None:
    """Run the cases that a connection sends. The first answer means that the worker is ready."""
    sys.dont_write_bytecode = True  # the first process has read its environment before
    os.setsid()
    with log.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    torch.set_num_threads(1)
    sandbox = _Sandbox(folder, world)
    connection.send("ready")
    with suppress(EOFError):
        while True:
            outcome = sandbox.run(connection.recv())
            is_large = peak_memory("cpu") > judge.BYTES // 2  # what the process keeps counts for later cases
            connection.send((outcome, is_large))

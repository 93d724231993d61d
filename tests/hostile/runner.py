"""Runs many cases in a few worker processes. A worker that crashes or hangs is killed, and its case is named."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random

import torch

from hostile import bundles, commands, data, faults, imports, judge, registries, specs
from hostile.judge import Case, Clock, Escaped, FileGuard, Outcome, TooLong, WrongResult
from hostile.trial import Trial
from hostile.world import World

_TESTS = Path(__file__).resolve().parents[1]
RUN: dict[str, Callable[[Random, Trial], None]] = {
    "specs": specs.run,
    "bundles": bundles.run,
    "intruders": bundles.run_intruder,
    "imports": imports.run,
    "registries": registries.run,
    "vocabularies": data.run_vocabulary,
    "corpora": data.run_corpus,
    "trees": data.run_treebank,
    "lines": commands.run_lines,
    "arguments": commands.run_arguments,
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
    world = folder / "world"
    world.mkdir()
    script = "import sys, pathlib; from hostile.world import World; World(pathlib.Path(sys.argv[1])).make()"
    subprocess.run(
        [sys.executable, "-c", script, str(world)], env=_environment(), check=True, stdout=subprocess.DEVNULL
    )
    with ThreadPoolExecutor(workers) as pool:
        results = [pool.submit(_run_queue, queue, folder / f"worker-{index}", world) for index in range(workers)]
        return [outcome for each in results for outcome in each.result()]


def _run_queue(queue: SimpleQueue[Case], folder: Path, world: Path) -> list[Outcome]:
    outcomes: list[Outcome] = []
    worker, number = None, 0
    with suppress(Empty):
        while True:
            case = queue.get_nowait()
            if worker is None:
                number += 1
                worker = _Worker(Path(f"{folder}-{number}"), world)
            outcome, usable = worker.run(case)
            outcomes.append(outcome)
            if not usable:
                worker.end()
                worker = None
    if worker is not None:
        worker.end()
    return outcomes


class _Worker:
    """A process that runs cases, seen from outside."""

    def __init__(self, folder: Path, world: Path) -> None:
        folder.mkdir()
        self._log = folder / "log"
        self._cases = 0
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hostile.runner", str(folder / "sandbox"), str(world)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,
            )
        if not self._line(_START_SECONDS):
            self.end()
            raise RuntimeError(f"the worker does not start: {self._last_log()}")

    def run(self, case: Case) -> tuple[Outcome, bool]:
        """Return the outcome of a case, and whether the process can run another one."""
        self._cases += 1
        start = time.monotonic()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{case}\n".encode())
            self._process.stdin.flush()
        line = self._line(_ANSWER_SECONDS)
        seconds = time.monotonic() - start
        if line:
            fields, too_large = json.loads(line)
            outcome = Outcome(case, **fields)
            interrupted = (outcome.failure or "").startswith("TooLong")
            return outcome, not (interrupted or too_large) and self._cases < _MAX_CASES
        if line is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGUSR1)  # it logs its stack
            time.sleep(0.5)
            return Outcome(case, f"it hangs\n{self._last_log()}", seconds), False
        return Outcome(case, f"it ended the process ({self._process.wait()})\n{self._last_log()}", seconds), False

    def end(self) -> None:
        """Kill the process and all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]

    def _line(self, seconds: float) -> bytes | None:
        """Return the next line; None if the time is over, b"" if the process has ended."""
        assert self._process.stdout is not None
        clock, line = Clock(self._process.pid), b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], 1)
            if not ready:
                if clock.seconds() > seconds:
                    return None
                continue
            part = os.read(self._process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            line += part
        return line

    def _last_log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


def _environment() -> dict[str, str]:
    """Return the environment of a worker: one thread, and no settings of this process."""
    removed = ("ZOO_", "PYTEST_", "OMP_", "MKL_", "TORCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    paths = os.pathsep.join((str(_TESTS.parent), str(_TESTS)))
    own = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return {**kept, **own}


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
        (folder / "tmp").mkdir(parents=True)
        trial = Trial(folder, self.world, self.guard)
        before = dict(os.environ)
        temporary = str(folder / "tmp")
        os.environ |= {"ZOO_HOME": str(trial.home), "ZOO_OFFLINE": "1", "HOME": str(folder), "TMPDIR": temporary}
        tempfile.tempdir = None
        os.chdir(folder)
        clock = Clock()
        failure = self._failure(case, trial)
        seconds = clock.seconds()
        if failure is not None:
            failure = f"{failure}\n\n" + "\n".join(trial.notes)
        os.chdir(self.outside)
        os.environ.clear()
        os.environ |= before
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
        if judge.used_memory() > judge.BYTES:
            return f"it took {judge.used_memory() / 1e9:.1f} GB"
        return None


def _stack(error: BaseException) -> str:
    return "\n" + "".join(traceback.format_list(traceback.extract_tb(error.__traceback__)[-12:]))


def serve(folder: Path, world: World) -> None:
    """Run the cases named on stdin until it ends. The first line on stdout is empty: the worker is ready."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    torch.set_num_threads(1)
    sandbox = _Sandbox(folder, world)
    print(flush=True, file=answers)
    for line in sys.stdin:
        kind, seed = line.split()
        outcome = sandbox.run(Case(kind, int(seed)))
        fields = {name: value for name, value in vars(outcome).items() if name != "case"}
        print(json.dumps([fields, judge.used_memory() > judge.BYTES]), flush=True, file=answers)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    serve(Path(sys.argv[1]), World(Path(sys.argv[2])))

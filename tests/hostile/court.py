"""Many cases in a few processes: one that crashes or hangs in native code is ended from here, and its case named."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from hostile.case import Case, Verdict
from hostile.clock import Clock

_BEGIN, _PATIENCE = 120, 20
"""Seconds that a worker may take to begin, and to answer: it rings itself at half of that."""
_RENEWED = 1500
"""Cases after which a worker has grown old."""
_TESTS = Path(__file__).resolve().parents[1]


def verdicts(cases: Iterable[Case], folder: Path, workers: int = 2) -> list[Verdict]:
    """Of all cases, in any order. The folder is empty, and what is in it afterwards is of no use."""
    waiting: SimpleQueue[Case] = SimpleQueue()
    for case in cases:
        waiting.put(case)
    world = folder / "world"
    world.mkdir()
    making = "import sys, pathlib; from hostile.world import World; World(pathlib.Path(sys.argv[1])).make()"
    subprocess.run(
        [sys.executable, "-c", making, str(world)], env=_environment(), check=True, stdout=subprocess.DEVNULL
    )
    with ThreadPoolExecutor(workers) as pool:
        judged = [pool.submit(_judged, waiting, folder / f"worker-{number}", world) for number in range(workers)]
        return [verdict for each in judged for verdict in each.result()]


def _judged(waiting: SimpleQueue[Case], folder: Path, world: Path) -> list[Verdict]:
    found: list[Verdict] = []
    worker, number = None, 0
    while True:
        try:
            case = waiting.get_nowait()
        except Empty:
            break
        if worker is None:
            number += 1
            worker = _Worker(Path(f"{folder}-{number}"), world)
        verdict, goes_on = worker.verdict(case)
        found.append(verdict)
        if not goes_on:
            worker.end()
            worker = None
    if worker is not None:
        worker.end()
    return found


class _Worker:
    """A process that runs cases."""

    def __init__(self, folder: Path, world: Path) -> None:
        folder.mkdir()
        self._told = folder / "told"
        self._cases = 0
        with self._told.open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hostile.worker", str(folder / "bench"), str(world)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
                env=_environment(),
                start_new_session=True,
            )
        if self._line(_BEGIN) is None:
            self.end()
            raise RuntimeError(f"no worker: {self._last_words()}")

    def verdict(self, case: Case) -> tuple[Verdict, bool]:
        """Of a case, and whether the process can be asked again."""
        self._cases += 1
        start = time.monotonic()
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{case}\n".encode())
            self._process.stdin.flush()
        line = self._line(_PATIENCE)
        seconds = time.monotonic() - start
        if line:
            told, spent = json.loads(line)
            found = Verdict(case, **told)
            torn = (found.failure or "").startswith("TooLong")  # out of whatever it was in
            return found, not (torn or spent) and self._cases < _RENEWED
        if line is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGUSR1)  # it tells where it is
            time.sleep(0.5)
            return Verdict(case, f"it hangs\n{self._last_words()}", seconds), False
        return Verdict(case, f"it ended the process ({self._process.wait()})\n{self._last_words()}", seconds), False

    def end(self) -> None:
        """Of the process, and of all that it started."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]

    def _line(self, seconds: float) -> bytes | None:
        """The next line; None where none comes in time, nothing where the process has ended."""
        assert self._process.stdout is not None
        clock, found = Clock(self._process.pid), b""
        while not found.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], 1)
            if not ready:
                if clock.seconds() > seconds:
                    return None
                continue
            some = os.read(self._process.stdout.fileno(), 1 << 16)
            if not some:
                return b""
            found += some
        return found

    def _last_words(self) -> str:
        return self._told.read_text(encoding="utf-8", errors="replace")[-3000:]


def _environment() -> dict[str, str]:
    """One thread a process, since there are several; nothing of this one's own."""
    left_out = ("ZOO_", "PYTEST_", "OMP_", "MKL_", "TORCH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    paths = os.pathsep.join((str(_TESTS.parent), str(_TESTS)))
    own = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    return {**kept, **own}

"""A process that runs cases, one after another: asked for on stdin by kind and seed, answered on stdout in JSON."""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

import torch

from hostile import judge
from hostile.case import Case, Verdict
from hostile.clock import Clock
from hostile.fence import Escaped, Fence
from hostile.judge import TooLong, Wrong
from hostile.trial import Trial
from hostile.world import World

_FRAMES = 12


class Bench:
    """Where cases are run: a folder of its own, beside one that nothing may touch."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world, self.fence = folder, world, Fence()
        self.outside = folder / "outside"
        self.outside.mkdir(parents=True)
        (self.outside / "kept").write_text("as it is\n")
        os.chdir(self.outside)
        world.found  # noqa: B018  (before memory is bounded, and outside of any case)
        judge.bound_memory()

    def verdict(self, case: Case) -> Verdict:
        """The case run and judged."""
        folder = self.folder / "case" / f"{case.kind}-{case.seed}"
        (folder / "tmp").mkdir(parents=True)
        trial = Trial(folder, self.world)
        before = dict(os.environ)
        os.environ |= {
            "ZOO_HOME": str(trial.home),
            "ZOO_OFFLINE": "1",
            "HOME": str(folder),
            "TMPDIR": str(folder / "tmp"),
        }
        tempfile.tempdir = None
        os.chdir(folder)
        clock = Clock()
        failure = self._failure(case, trial)
        seconds = clock.seconds()
        if failure is not None:
            failure = f"{failure}\n\n" + "\n".join(trial.told)
        os.chdir(self.outside)
        os.environ.clear()
        os.environ |= before
        shutil.rmtree(folder, ignore_errors=True)
        return Verdict(case, failure, seconds, trial.answered, trial.refused)

    def _failure(self, case: Case, trial: Trial) -> str | None:
        run = import_module(f"hostile.{case.kind}").run
        try:
            with self.fence.around(trial.folder, self.outside, self.world.folder), judge.in_time():
                run(case.draw, trial)
        except Wrong as wrong:
            return f"wrong: {wrong}"
        except (TooLong, Escaped) as error:
            return f"{type(error).__name__}: {error}{_where(error)}"
        except BaseException as error:
            return f"traceback: {type(error).__name__}: {str(error)[:500]}{_where(error)}"
        if judge.used() > judge.BYTES:
            return f"it took {judge.used() / 1e9:.1f} GB"
        return None


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    return "\n" + "".join(traceback.format_list(frames))


def serve(folder: Path, world: World) -> None:
    """Until stdin ends. The first line is empty: the worker is there."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    torch.set_num_threads(1)
    bench = Bench(folder, world)
    print(flush=True, file=answers)
    for line in sys.stdin:
        kind, seed = line.split()
        verdict = bench.verdict(Case(kind, int(seed)))
        told = {name: value for name, value in vars(verdict).items() if name != "case"}
        print(json.dumps([told, judge.used() > judge.BYTES]), flush=True, file=answers)


def alone(case: Case) -> Verdict:
    """The verdict of a case in this process, in a world of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        world = World(Path(scratch) / "world")
        world.folder.mkdir()
        world.make()
        verdict = Bench(Path(scratch) / "bench", world).verdict(case)
        os.chdir("/")
    return verdict


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    serve(Path(sys.argv[1]), World(Path(sys.argv[2])))

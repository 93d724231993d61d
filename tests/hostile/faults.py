"""What the judge must see: not a kind of hostile case, but one of each end that a case must not have."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from random import Random

import numpy as np

from cli import app
from hostile.judge import right
from hostile.trial import Trial
from specs import ZooError


def run(draw: Random, trial: Trial) -> None:
    """The one that the seed names."""
    seed = int(trial.folder.name.partition("-")[2])
    FAULTS[seed](trial)


def _traceback(trial: Trial) -> None:
    raise KeyError("x")


def _wrong(trial: Trial) -> None:
    right(False, "two and two is five")


def _speechless(trial: Trial) -> None:
    def refused() -> None:
        raise ZooError(" ", exit_code=2)

    trial.answer(refused)


def _fault(trial: Trial) -> None:
    before = app.COMMANDS
    app.COMMANDS = None  # type: ignore[assignment]
    try:
        trial.zoo("schema")
    finally:
        app.COMMANDS = before


def _writes(trial: Trial) -> None:
    (trial.folder.parents[1] / "outside" / "new").write_text("x")


def _renames(trial: Trial) -> None:
    (trial.folder / "x").write_text("x")
    os.replace(trial.folder / "x", trial.world.folder / "x")


def _writes_unseen(trial: Trial) -> None:
    subprocess.run(["touch", str(trial.folder.parents[1] / "outside" / "new")], check=True)


def _takes_all(trial: Trial) -> None:
    np.ones(9 << 27)  # 9 GB, at once


def _takes_much(trial: Trial) -> None:
    np.ones(2200 << 17)  # a little more than is allowed


def _crashes(trial: Trial) -> None:
    os.abort()


def _sleeps(trial: Trial) -> None:
    time.sleep(60)


def _hangs(trial: Trial) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(600)


FAULTS: tuple[Callable[[Trial], None], ...] = (
    *(_traceback, _wrong, _speechless, _fault, _writes, _renames, _writes_unseen, _takes_all, _takes_much, _crashes),
    *(_sleeps, _hangs),
)

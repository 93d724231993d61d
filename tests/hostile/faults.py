"""Faults that the judge must find: one case for each end that a case must not have."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from random import Random
from unittest import mock

import numpy as np

from cli import app
from hostile.judge import check
from hostile.trial import Trial
from specs import ZooError


def run(random: Random, trial: Trial) -> None:
    """Run the fault with the index that is the case's seed."""
    list(FAULTS.values())[int(trial.folder.name.partition("-")[2])][1](trial)


def _internal_error(trial: Trial) -> None:
    with mock.patch.object(app, "COMMANDS", None):
        trial.zoo("schema")


def _rename(trial: Trial) -> None:
    (trial.folder / "x").write_text("x")
    os.replace(trial.folder / "x", trial.world.folder / "x")


def _write_unseen(trial: Trial) -> None:
    subprocess.run(["touch", str(trial.folder.parents[1] / "outside" / "other")], check=True)


def _hang(trial: Trial) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    time.sleep(600)


_EMPTY_ERROR = mock.Mock(side_effect=ZooError(" ", exit_code=2))
FAULTS: dict[str, tuple[str, Callable[[Trial], object]]] = {
    "traceback": ("traceback: KeyError: 'x'", lambda trial: {}["x"]),
    "wrong result": ("wrong: two and two is five", lambda trial: check(False, "two and two is five")),
    "error without a problem": ("wrong: an error without a problem", lambda trial: trial.call(_EMPTY_ERROR)),
    "internal error": ("wrong: error: internal error in zoo: TypeError: ", _internal_error),
    "write outside": ("Escaped: open of ", lambda trial: (trial.folder.parents[1] / "outside" / "new").write_text("x")),
    "rename to outside": ("Escaped: os.rename of ", _rename),
    "write outside by another program": ("wrong: written outside its folder", _write_unseen),
    "9 GB at once": ("traceback: MemoryError: Unable to allocate", lambda trial: np.ones(9 << 27)),
    "crash": ("it ended the process (-6)", lambda trial: os.abort()),
    "2.3 GB": ("it took ", lambda trial: np.ones(2200 << 17)),
    "sleep": ("TooLong: it takes more than 10 s", lambda trial: time.sleep(60)),
    "hang": ("it hangs", _hang),
}
"""The beginning of the failure that the judge must report, and the fault."""
FAST = 9
"""Number of faults that take less than a second."""

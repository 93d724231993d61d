"""What is asked of a published model: to be opened, to be verified, to be listed with the others."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from random import Random
from typing import Any

import zoo
from hostile import judge
from hostile.judge import right
from hostile.trial import Trial
from hostile.world import GOOD, LINES
from specs import ZooError

MANIFEST = "manifest.json"


def opened(trial: Trial) -> None:
    found = trial.answer(lambda: zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
    if not isinstance(found, ZooError):
        same(found, trial)


def same(found: Any, trial: Trial) -> None:
    right(found == trial.world.found, f"it translates otherwise: {found[0]!r:.200}, not {trial.world.found[0]!r:.200}")


def checked(draw: Random, trial: Trial, often: float = 0.05) -> None:
    """`zoo verify` must see what is not as it was published; `zoo list` goes on in any case."""
    if draw.random() < 0.6:
        bundle = trial.home / "models" / GOOD
        done = trial.zoo("verify", GOOD)
        if done.status == 0:
            right(_contents(bundle) == _contents(trial.world.shelf / GOOD), f"it is verified: {done.out}")
        elif _contents(bundle) == _contents(trial.world.shelf / GOOD):
            right(False, f"as it was published, and not verified: {done.err}")
    if draw.random() < often:
        listed(draw, trial)


def _contents(bundle: Path) -> dict[str, Any]:
    """Of each file; how the manifest is laid out means nothing."""
    found: dict[str, Any] = {}
    for file in sorted(bundle.iterdir()) if bundle.is_dir() else ():
        regular = stat.S_ISREG(os.stat(file).st_mode) if file.exists() and not file.is_symlink() else False
        found[file.name] = file.read_bytes() if regular and file.stat().st_size < 1 << 24 else None
    try:
        found[MANIFEST] = json.loads(found.get(MANIFEST) or b"")
    except (ValueError, RecursionError):
        found[MANIFEST] = "damaged"
    return found


def listed(draw: Random, trial: Trial) -> None:
    json_ = draw.random() < 0.3
    done = trial.zoo("list", *(["--json"] if json_ else []))
    right(done.status == 0, f"what is damaged hides the rest: {done.err}")
    if json_:
        json.loads(done.out)
    else:
        judge.printable(done.out)

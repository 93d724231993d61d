"""SIGKILL at random moments: the run that is started again ends with the weights of one that was never stopped."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import specs
from zoo.training.checkpoints import list_checkpoints
from zoo.training.run import Run
from zoo.training.train import train

KEYS = [
    "architecture={N: 1, d_model: 32, d_ff: 48, h: 2, d_k: 6, d_v: 4, dropout: 0.1}",
    "vocabulary.size=200",
    "corpus={train: [{grammar: 300}], dev: [{grammar: 10}], test: [{grammar: 10}]}",
    "training={steps: 400, source_tokens: 400, target_tokens: 400, checkpoint_steps: 7, average: 3}",
]
PROGRAM = "import sys, zoo; zoo.train(zoo.spec('tiny', sys.argv[2:]), run=sys.argv[1])"


@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])], ids=["2", "20"]
)
def test_killed_runs_end_with_the_same_bits(kills: int) -> None:
    steps = f"training.steps={80 * kills}"
    whole = train(specs.load("tiny", [*KEYS, steps]), run="whole")
    random_moments = random.Random(7)
    killed = 0
    while killed < kills:
        command = [sys.executable, "-c", PROGRAM, "killed", *KEYS, steps]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        _until_it_trains(process, Path("killed/checkpoints"))
        time.sleep(random_moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode == -signal.SIGKILL, f"it ended before it was killed: {said}"
        killed += 1
    run = train(specs.load("tiny", [*KEYS, steps]), run="killed")
    _same(whole, run)


def _until_it_trains(process: subprocess.Popen[str], folder: Path) -> None:
    """Until a checkpoint is there that was not before: from then on every moment is one of training or of writing."""
    before = {p.name for p in folder.iterdir()} if folder.exists() else set()
    while process.poll() is None:
        if folder.exists() and any(p.name.isdigit() and p.name not in before for p in folder.iterdir()):
            return
        time.sleep(0.02)


def _same(a: Run, b: Run) -> None:
    for file in (a.weights, list_checkpoints(a)[-1].weights):
        ours = load_file(file)
        theirs = load_file(b.folder / file.relative_to(a.folder))
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), file

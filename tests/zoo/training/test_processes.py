"""Two processes under torchrun: the losses of one, resumed bit for bit, and started again when one of them dies."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specs import Spec, ZooError
from zoo.training.checkpoints import list_checkpoints
from zoo.training.distributed import Processes
from zoo.training.run import Run
from zoo.training.train import train

PROGRAM = "from cli.app import main; main()"
SMALL = f"from zoo.system import ram; ram.there = lambda device: 150_000; {PROGRAM}"
"""The same on devices of which two, and not one, hold weights, gradients and moments."""
TWO = ("--standalone", "--nproc-per-node", "2")


def _launched(run: str, spec: Spec, options: tuple[str, ...] = TWO, code: str = PROGRAM) -> subprocess.Popen[str]:
    """`torchrun ... zoo train SPEC --run RUN`."""
    Path(f"{run}.yaml").write_text(spec.yaml(), encoding="utf-8")
    program = ["--no-python", "--", sys.executable, "-c", code, "train", f"{run}.yaml", "--run", run]
    command = [sys.executable, "-m", "torch.distributed.run", *options, *program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def _trained(run: str, spec: Spec, code: str = PROGRAM) -> Run:
    process = _launched(run, spec, code=code)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    return Run(Path(run))


def _stopped(run: Run) -> str:
    """This run as it was before its last checkpoint."""
    before = Run(Path(shutil.copytree(run.folder, "stopped")))
    shutil.rmtree(list_checkpoints(before)[-1].folder)
    before.weights.unlink()
    return str(before.folder)


def _losses(run: Run) -> list[float]:
    return [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]


def _same(a: Run, b: Run) -> None:
    for file in (a.weights, list_checkpoints(a)[-1].weights):
        ours, theirs = load_file(file), load_file(b.folder / file.relative_to(a.folder))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), file


PLAIN = ("architecture.dropout=0.0", "training.epsilon=1.0e-3")
"""Nothing at random, and an epsilon that keeps Adam from blowing up the rounding of gradients next to nothing."""

SHORT = ("training.steps=12", "training.log_steps=1")


def _about_the_same(a: Run, b: Run) -> None:
    assert len(_losses(a)) == 12
    assert _losses(b) == pytest.approx(_losses(a), abs=2e-5)
    for name, tensor in load_file(a.weights).items():
        torch.testing.assert_close(load_file(b.weights)[name], tensor, atol=2e-5, rtol=1e-4)


def test_two_processes_equal_one_and_resume_bit_for_bit(world: Callable[..., Spec]) -> None:
    spec = world(*PLAIN, *SHORT)
    one, two = train(spec, run="one"), _trained("two", spec)
    _about_the_same(one, two)
    assert two.identity.processes == 2
    _same(two, _trained(_stopped(two), spec))


def test_what_does_not_fit_is_spread_over_the_processes(world: Callable[..., Spec]) -> None:
    """Same losses and same files as of a process that holds all of it, and resumed bit for bit.

    In so many parts that the shares of some batches have more rows than parts, and some have fewer.
    """
    spec = world(*PLAIN, *SHORT, "architecture.N=2", "training.clip_norm=1.0", "training.accumulation_steps=12")
    one, two = train(spec, run="one"), _trained("two", spec, SMALL)
    assert (one.identity.sharded, two.identity.sharded) == (False, True)
    _about_the_same(one, two)
    resumed = _trained(_stopped(two), spec)
    assert resumed.identity.sharded
    _same(two, resumed)


@pytest.mark.slow
def test_a_run_goes_on_spread_over_the_processes(world: Callable[..., Spec]) -> None:
    begun = _trained("run", world(*PLAIN, "training.steps=12"))
    assert not begun.identity.sharded
    _about_the_same(train(world(*PLAIN), run="one"), _trained("run", world(*PLAIN), SMALL))
    assert begun.identity.sharded


@pytest.mark.slow
def test_a_stopped_launcher_leaves_a_checkpoint_to_go_on_from(world: Callable[..., Spec]) -> None:
    """With dropout, whose masks are each process's own."""
    whole = _trained("whole", world("training.steps=300"))
    process = _launched("stopped", world("training.steps=300"))
    _until(process, Run(Path("stopped")), 5)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=100)
    assert process.returncode != 0
    assert 5 <= list_checkpoints(Run(Path("stopped")))[-1].step < 300, said
    _same(whole, _trained("stopped", world("training.steps=300")))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, -1])
def test_a_killed_worker_is_started_again_from_the_last_checkpoint(world: Callable[..., Spec], which: int) -> None:
    whole = _trained("whole", world("training.steps=300"))
    process = _launched("killed", world("training.steps=300"), options=(*TWO, "--max-restarts", "2"))
    _until(process, Run(Path("killed")), 5)
    worker = _workers(process.pid)[which]
    os.kill(worker, signal.SIGKILL)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert "resuming at step" in said
    assert "Traceback" not in said.replace("Traceback : ", "")
    _same(whole, Run(Path("killed")))


@pytest.mark.slow
def test_two_machines_equal_one_of_two_processes(world: Callable[..., Spec]) -> None:
    """Two launchers that meet at an address, as on two machines that share a disk."""
    whole = _trained("whole", world())
    meeting = ("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "zoo")
    at = ("--rdzv-endpoint", f"localhost:{_free_port()}")
    nodes = [_launched("nodes", world(), options=(*meeting, *at)) for _ in range(2)]
    said = [node.communicate(timeout=200)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], said
    _same(whole, Run(Path("nodes")))


def test_a_process_alone_exchanges_nothing() -> None:
    alone, sums = Processes("cpu"), torch.ones(2)
    assert alone.first
    assert alone.any(True, False) == (True, False)
    assert alone.total(sums) is sums
    with alone.first_then_others(on_each_machine=True):
        pass


def test_more_processes_than_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    from zoo.training import distributed

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert distributed._own_gpu("auto", 1) == "cuda:1"
    with pytest.raises(ZooError, match="2 GPUs for at least 3 processes"):
        distributed._own_gpu("cuda", 2)
    with pytest.raises(ZooError, match="`cuda:1` is one GPU"):
        distributed._own_gpu("cuda:1", 0)


def _until(process: subprocess.Popen[str], run: Run, count: int) -> None:
    """Until the run has come so many checkpoints far."""
    while not any(checkpoint.step >= 4 * count for checkpoint in list_checkpoints(run)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def _workers(launcher: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher)], capture_output=True, text=True, check=True)
    return [int(pid) for pid in re.findall(r"\d+", found.stdout)]


def _free_port() -> int:
    import socket

    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        return int(opened.getsockname()[1])

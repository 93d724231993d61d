"""Two processes under torchrun: the losses of one, resumed bit for bit, and started again when one of them dies."""

from __future__ import annotations

import json
import os
import re
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
from zoo.training.checkpoint import checkpoints
from zoo.training.processes import Processes
from zoo.training.run import Run
from zoo.training.train import train

PROGRAM = "from cli.app import main; main()"
TWO = ("--standalone", "--nproc-per-node", "2")


def _launched(run: str, spec: Spec, options: tuple[str, ...] = TWO) -> subprocess.Popen[str]:
    """`torchrun ... zoo train SPEC --run RUN`."""
    Path(f"{run}.yaml").write_text(spec.yaml(), encoding="utf-8")
    program = ["--no-python", "--", sys.executable, "-c", PROGRAM, "train", f"{run}.yaml", "--run", run]
    command = [sys.executable, "-m", "torch.distributed.run", *options, *program]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def _trained(run: str, spec: Spec) -> Run:
    process = _launched(run, spec)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    return Run(Path(run))


def _losses(run: Run) -> list[float]:
    return [json.loads(line)["loss"] for line in run.log.read_text().splitlines()]


def _same(a: Run, b: Run) -> None:
    for file in (a.weights, checkpoints(a)[-1].weights):
        ours, theirs = load_file(file), load_file(b.folder / file.relative_to(a.folder))
        assert all(torch.equal(ours[name], theirs[name]) for name in ours), file


def test_two_processes_equal_one_and_resume_bit_for_bit(world: Callable[..., Spec]) -> None:
    plain = "architecture.dropout=0.0"
    one, two = train(world(plain), run="one"), _trained("two", world(plain))
    assert len(_losses(one)) == 12
    assert _losses(two) == pytest.approx(_losses(one), abs=2e-5)
    for name, tensor in load_file(one.weights).items():
        torch.testing.assert_close(load_file(two.weights)[name], tensor, atol=2e-3, rtol=1e-2)
    assert two.basis.processes == 2
    _trained("stopped", world(plain, "training.steps=10"))
    _same(two, _trained("stopped", world(plain)))


@pytest.mark.slow
def test_a_stopped_launcher_leaves_a_checkpoint_to_go_on_from(world: Callable[..., Spec]) -> None:
    """With dropout, whose masks are each process's own."""
    whole = _trained("whole", world("training.steps=300"))
    process = _launched("stopped", world("training.steps=300"))
    _until(process, Run(Path("stopped")), 5)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=100)
    assert process.returncode != 0
    assert 5 <= checkpoints(Run(Path("stopped")))[-1].step < 300, said
    _same(whole, _trained("stopped", world("training.steps=300")))


@pytest.mark.slow
def test_a_killed_worker_is_started_again_from_the_last_checkpoint(world: Callable[..., Spec]) -> None:
    whole = _trained("whole", world("training.steps=300"))
    process = _launched("killed", world("training.steps=300"), options=(*TWO, "--max-restarts", "2"))
    _until(process, Run(Path("killed")), 5)
    worker = _workers(process.pid)[-1]
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
    from zoo.training import processes

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert processes._own_gpu("auto", 1) == "cuda:1"
    with pytest.raises(ZooError, match="2 GPUs for at least 3 processes"):
        processes._own_gpu("cuda", 2)
    with pytest.raises(ZooError, match="`cuda:1` is one GPU"):
        processes._own_gpu("cuda:1", 0)


def _until(process: subprocess.Popen[str], run: Run, count: int) -> None:
    """Until the run has come so many checkpoints far."""
    while not any(checkpoint.step >= 4 * count for checkpoint in checkpoints(run)):
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

"""Several processes: the losses of one, identical weights after a resume, sharding, and restarts by torchrun."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specs import Spec
from tests.forks import Fork
from tests.refusals import refused
from tests.zoo.training.conftest import Patch, World
from tests.zoo.training.test_train import assert_same_weights
from zoo.data.batches import BatchSize
from zoo.planning.memory_estimate import training_bytes, update_bytes
from zoo.system import memory
from zoo.training import distributed
from zoo.training.checkpoints import list_checkpoints
from zoo.training.distributed import Processes, needs_sharding
from zoo.training.run import Run
from zoo.training.train import train

PROGRAM = "from zoo.entry_point import main; main()"
SMALL_DEVICES = f"from zoo.system import memory as d; d.available_memory = lambda device: 150_000; {PROGRAM}"
"""The same program on devices of which two can hold weights, gradients and moments, but not one."""
TWO = ("--standalone", "--nproc-per-node", "2")
PLAIN = ("architecture.dropout=0.0", "training.epsilon=1.0e-3")
"""No dropout, and an epsilon with which Adam does not amplify rounding errors in tiny gradients."""


def start_torchrun(run: str, spec: Spec, options: tuple[str, ...] = TWO, code: str = PROGRAM) -> subprocess.Popen[str]:
    """Start `torchrun ... zoo train SPEC --run RUN`."""
    Path(f"{run}.yaml").write_text(spec.yaml(), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", *options, "--no-python", "--", sys.executable, "-c", code]
    command += ["train", f"{run}.yaml", "--run", run]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def train_by_torchrun(run: str, spec: Spec, code: str = PROGRAM) -> Run:
    process = start_torchrun(run, spec, code=code)
    _, output = process.communicate(timeout=280)
    assert process.returncode == 0, output
    return Run(Path(run))


def train_by_two_forks(run: str, spec: Spec, code: str = PROGRAM) -> Run:
    """Train in two processes without torchrun, which would import torch in each of them."""
    Path(f"{run}.yaml").write_text(spec.yaml(), encoding="utf-8")
    common = {"TORCHELASTIC_RUN_ID": "test", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": free_port()}
    environments = [{**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank} for rank in "01"]
    processes = [Fork(code, "train", f"{run}.yaml", "--run", run, environment=each) for each in environments]
    assert [process.wait() for process in processes] == [0, 0], [process.stderr for process in processes]
    return Run(Path(run))


def without_last_checkpoint(run: Run, name: str = "stopped") -> str:
    """Copy a run to the state before its last checkpoint."""
    before = Run(Path(shutil.copytree(run.folder, f"{run.folder}-{name}")))
    shutil.rmtree(list_checkpoints(before)[-1].folder)
    before.weights.unlink()
    return str(before.folder)


def assert_similar(a: Run, b: Run) -> None:
    """Sums are rounded differently with another number of processes."""
    ours, theirs = ([json.loads(line)["loss"] for line in run.log.read_text().splitlines()] for run in (a, b))
    assert theirs == pytest.approx(ours, abs=1e-4)
    for name, tensor in load_file(a.weights).items():
        torch.testing.assert_close(load_file(b.weights)[name], tensor, atol=1e-4, rtol=1e-3)


SHORT = ("training.steps=8", "training.log_steps=1", "training.average=1")


@pytest.mark.integration
@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_equal_one(world: World, sharded: bool) -> None:
    """With more accumulation steps than some shares of a batch have rows."""
    keys = ["training.clip_norm=1.0", "training.accumulation_steps=12"] * sharded
    spec = world(*PLAIN, *SHORT, "training.steps=3", *keys)
    two = train_by_two_forks("two", spec, SMALL_DEVICES if sharded else PROGRAM)
    assert (two.identity.processes, two.identity.sharded) == (2, sharded)
    assert_similar(train(spec, run="one"), two)


@pytest.mark.slow
def test_two_processes_resume_to_identical_weights(world: World) -> None:
    spec = world(*PLAIN, *SHORT)
    two = train_by_torchrun("two", spec)
    assert_similar(train(spec, run="one"), two)
    assert_same_weights(two, train_by_torchrun(without_last_checkpoint(two, "resumed"), spec))
    continued = train_by_torchrun(without_last_checkpoint(two), spec, SMALL_DEVICES)
    assert continued.identity.sharded
    assert_similar(two, continued)
    sharded = train_by_torchrun("sharded", spec, SMALL_DEVICES)
    resumed = train_by_torchrun(without_last_checkpoint(sharded), spec)
    assert resumed.identity.sharded, "once a run is sharded it stays so"
    assert_same_weights(sharded, resumed)


@pytest.mark.slow
def test_stopped_launcher_leaves_a_checkpoint(world: World) -> None:
    """With dropout, whose masks differ between processes."""
    whole, stopped = train_by_torchrun("whole", world("training.steps=300")), Run(Path("stopped"))
    process = start_torchrun("stopped", world("training.steps=300"))
    wait_for_step(process, stopped, 20)
    process.send_signal(signal.SIGTERM)
    _, output = process.communicate(timeout=100)
    assert process.returncode != 0
    assert 5 <= list_checkpoints(stopped)[-1].step < 300, output
    assert_same_weights(whole, train_by_torchrun("stopped", world("training.steps=300")))


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, -1])
def test_killed_worker_is_restarted_from_the_last_checkpoint(world: World, which: int) -> None:
    whole = train_by_torchrun("whole", world("training.steps=300"))
    process = start_torchrun("killed", world("training.steps=300"), options=(*TWO, "--max-restarts", "2"))
    wait_for_step(process, Run(Path("killed")), 20)
    listed = subprocess.check_output(["ps", "-o", "pid=", "--ppid", f"{process.pid}"], text=True)
    os.kill(int(listed.split()[which]), signal.SIGKILL)
    _, output = process.communicate(timeout=280)
    assert process.returncode == 0, output
    assert "resuming at step" in output
    assert "Traceback" not in output.replace("Traceback : ", "")
    assert_same_weights(whole, Run(Path("killed")))


@pytest.mark.slow
def test_two_machines_equal_two_processes(world: World) -> None:
    """Two launchers that connect through an address, as on two machines that share a disk."""
    whole = train_by_torchrun("whole", world())
    options = f"--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d --rdzv-id zoo --rdzv-endpoint localhost:{free_port()}"
    nodes = [start_torchrun("nodes", world(), options=(*options.split(),)) for _ in range(2)]
    output = [node.communicate(timeout=280)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], output
    assert_same_weights(whole, Run(Path("nodes")))


def wait_for_step(process: subprocess.Popen[str], run: Run, step: int) -> None:
    while not any(checkpoint.step >= step for checkpoint in list_checkpoints(run)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def free_port() -> str:
    with socket.socket() as opened:
        opened.bind(("localhost", 0))
        return str(opened.getsockname()[1])


def test_more_processes_than_gpus_are_refused(monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert distributed._gpu_of_process("auto", 1) == "cuda:1"
    refused("at least 3 processes, but the number of GPUs is 2", distributed._gpu_of_process, "cuda", 2)
    refused("`cuda:1` is a single GPU", distributed._gpu_of_process, "cuda:1", 0)


def test_sharding_is_needed_if_a_process_cannot_hold_its_share(world: World, monkeypatch: Patch) -> None:
    """Each process holds the whole state, but only the activations of its share of a batch."""
    spec, mean, two = world(), BatchSize(20, 400, 400, 800), Processes("cpu")
    two.count = 2
    needed, update = int(training_bytes(spec, mean.divided_by(2)) / 0.9), update_bytes(spec, 2) / 0.9
    assert needed < training_bytes(spec, mean) / 0.9
    for size, free, expected in ((mean, needed + 2, False), (mean, needed - 2, True), (None, update + 2, False)):
        monkeypatch.setattr(memory, "available_memory", lambda device, free=free: free)
        assert needs_sharding(spec, size, two) is expected


def test_memory_is_shared_by_processes_and_limited_by_containers(monkeypatch: Patch, tmp_path: Path) -> None:
    cpu, limit = torch.device("cpu"), tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_LIMIT", limit)
    monkeypatch.setattr(memory, "machine_memory", memory.machine_memory.__wrapped__)  # without its cache
    whole = memory.available_memory(cpu)
    for content, processes, expected in (("max\n", "1", whole), ("123456\n", "1", 123456), ("123456\n", "4", 30864)):
        limit.write_text(content)
        monkeypatch.setenv("LOCAL_WORLD_SIZE", processes)
        assert memory.available_memory(cpu) == expected

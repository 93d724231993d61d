"""When a training is spread over its processes; that it comes out the same is in `test_processes.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specs import Spec
from zoo.planning.training_estimate import PROCESS_BYTES, estimate_training, full_batch, training_bytes
from zoo.system import device_memory, memory
from zoo.training.distributed import Processes, needs_sharding

World = Callable[..., Spec]


class Two(Processes):
    """Two processes that are of one mind."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.count = 2


def test_what_fits_each_process_is_not_spread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """State stands whole in each of them, and activations are those of its share."""
    spec = world()
    mean = full_batch(spec, 20)
    takes = PROCESS_BYTES + training_bytes(spec, mean.share(2))
    assert takes < PROCESS_BYTES + training_bytes(spec, mean)
    monkeypatch.setattr(device_memory, "available_memory", lambda device: int(takes / 0.9) + 2)
    assert not needs_sharding(spec, mean, Two())
    monkeypatch.setattr(device_memory, "available_memory", lambda device: int(takes / 0.9) - 2)
    assert needs_sharding(spec, mean, Two())


def test_shards_hold_less(world: World) -> None:
    mean = full_batch(world(), 20)
    held = [training_bytes(world(), mean, shards) for shards in (1, 2, 4, 8)]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == 4


def test_the_plan_says_whether_a_device_is_enough(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimate_training(world(), 20, "cpu").fits
    monkeypatch.setattr(device_memory, "available_memory", lambda device: 1000)
    monkeypatch.setattr("zoo.planning.training_estimate.sampled", lambda *_: pytest.fail("it built what has no room"))
    found = estimate_training(world(), 20, "cpu")
    assert (found.fits, found.device_bytes) == (False, 1000)


def test_processes_share_the_memory_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = device_memory.available_memory(torch.device("cpu"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert device_memory.available_memory(torch.device("cpu")) == alone // 4


def test_a_container_has_less_than_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_CGROUP_LIMIT", limit)
    free = device_memory.available_memory(torch.device("cpu"))
    limit.write_text("max\n")
    assert device_memory.available_memory(torch.device("cpu")) == free
    limit.write_text("123456\n")
    assert device_memory.available_memory(torch.device("cpu")) == 123456

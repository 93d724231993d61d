"""When a training is spread over its processes; that it comes out the same is in `test_processes.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specs import Spec
from zoo.planning.forecast import AROUND, full_batch, needed
from zoo.planning.outlook import outlook
from zoo.system import installed, ram
from zoo.training.processes import Processes
from zoo.training.sharding import is_needed

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
    takes = AROUND + needed(spec, mean.share(2))
    assert takes < AROUND + needed(spec, mean)
    monkeypatch.setattr(ram, "there", lambda device: int(takes / 0.9) + 2)
    assert not is_needed(spec, mean, Two())
    monkeypatch.setattr(ram, "there", lambda device: int(takes / 0.9) - 2)
    assert is_needed(spec, mean, Two())


def test_shards_hold_less(world: World) -> None:
    mean = full_batch(world(), 20)
    held = [needed(world(), mean, shards) for shards in (1, 2, 4, 8)]
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == 4


def test_the_plan_says_whether_a_device_is_enough(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert outlook(world(), 20, "cpu").fits
    monkeypatch.setattr(ram, "there", lambda device: 1000)
    monkeypatch.setattr("zoo.planning.outlook.sampled", lambda *_: pytest.fail("it built what has no room"))
    found = outlook(world(), 20, "cpu")
    assert (found.fits, found.device_bytes) == (False, 1000)


def test_processes_share_the_memory_of_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = ram.there(torch.device("cpu"))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert ram.there(torch.device("cpu")) == alone // 4


def test_a_container_has_less_than_its_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(installed, "_LIMIT", limit)
    free = ram.there(torch.device("cpu"))
    limit.write_text("max\n")
    assert ram.there(torch.device("cpu")) == free
    limit.write_text("123456\n")
    assert ram.there(torch.device("cpu")) == 123456

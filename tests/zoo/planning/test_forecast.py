"""What a training is forecast to take: formulas, and that it is said beside what happened."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler import Purpose, cost, graphs
from compiler.switches import keeps_memory, matrix_library
from specs import Spec, ZooError
from zoo.planning.training_estimate import estimate_training, forecast_training, full_batch
from zoo.system.processors import DeviceSpeed, device_speed
from zoo.training.train import train

World = Callable[..., Spec]
ROOT = str(Path(__file__).parents[3])
PACE = DeviceSpeed(flops=1e9, bytes=1e9)


def test_time_follows_from_flops_and_bytes(world: World) -> None:
    spec = world()
    batch = full_batch(spec, 20)
    assert batch == (20, 400, 400, 800)
    whole = forecast_training(spec, batch, 10, PACE)
    assert whole.seconds == pytest.approx(10 * whole.step_seconds)
    products = forecast_training(spec, batch, 1, replace(PACE, bytes=1e30)).step_seconds
    moves = forecast_training(spec, batch, 1, replace(PACE, flops=1e30)).step_seconds
    assert products + moves == pytest.approx(whole.step_seconds)
    flops = 3 * cost(graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN]).flops(batch=20, source=20, target=20)
    assert products == pytest.approx(flops / 1e9, rel=0.3)


def test_parts_save_memory_and_what_is_held_counts(world: World) -> None:
    batch = full_batch(world(), 20)
    whole = forecast_training(world(), batch, 1, PACE).memory_bytes
    assert forecast_training(world("training.accumulation_steps=4"), batch, 1, PACE).memory_bytes < whole
    assert forecast_training(world(), batch, 1, PACE, held=1000).memory_bytes == whole + 1000


def test_a_device_is_measured() -> None:
    found = device_speed(torch.device("cpu"), "float32")
    assert found.flops > 1e8
    assert found.bytes > 1e8


def test_the_forecast_stands_beside_what_happened(world: World, words: Any) -> None:
    train(world("training.steps=9"), report=words)
    assert any(re.match(r"forecast for 9 steps: 0:\d\d and [\d.]+ [MG]B of memory, by ", line) for line in words.said)
    assert any(re.match(r"9 steps took \d:\d\d and .*; the forecast was \d:\d\d and ", line) for line in words.said)


@pytest.mark.slow
@pytest.mark.skipif(not keeps_memory(), reason="what this C library keeps is not foretold")
def test_a_training_takes_the_memory_that_it_is_forecast_to() -> None:
    """In a process of its own, whose memory nothing else has used."""
    keys = ["corpus.train=[{grammar: 3000}]", "corpus.dev=[{grammar: 3}]", "training.steps=60"]
    command = [sys.executable, "-m", "zoo", "train", "tiny", *keys, "training.checkpoint_steps=60"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    taken, said = re.findall(r"([\d.]+) MB", next(line for line in done.stderr.splitlines() if "steps took" in line))
    assert float(said) == pytest.approx(float(taken), rel=0.2)


def test_an_outlook_says_what_was_chosen(world: World) -> None:
    found = estimate_training(world(), 20, "cpu")
    assert (found.device, found.precision, found.steps) == ("cpu", "float32", 24)
    assert found.matrix_library == matrix_library()
    assert found.seconds == pytest.approx(24 * found.step_seconds)
    with pytest.raises(ZooError, match="tpu"):
        estimate_training(world(), 20, "tpu")

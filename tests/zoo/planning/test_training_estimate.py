"""Estimates of training time and memory: formulas, and times of passes that are measured once per machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from compiler import Purpose, build_module, cost, graphs
from compiler.host import DEFAULT, keeps_memory, matrix_libraries, matrix_library
from specs import Spec
from zoo.planning import training_estimate
from zoo.planning.training_estimate import Done, TrainingEstimator, estimate_training, full_batch, time_passes
from zoo.report import Report
from zoo.system import processors, timing
from zoo.system.processors import DeviceSpeed
from zoo.system.timing import PassTiming, emulation_warning
from zoo.training import step
from zoo.training.train import train_steps

World = Callable[..., Spec]
ROOT = str(Path(__file__).parents[3])
SPEED = DeviceSpeed(flops=1e9, bytes=1e9)
OTHER = matrix_libraries()[-1]
MEASURED = PassTiming("measured", 10, 27, {matrix_library(): 2.0, OTHER: 1.0}, None, 1.0, 0.0)
EMULATED = replace(MEASURED, bfloat16=MEASURED.seconds("float32") * 2.6)
TWO_LIBRARIES = pytest.mark.skipif(len(matrix_libraries()) < 2, reason="this processor has one float32 library")


def test_time_follows_from_flops_and_bytes(world: World) -> None:
    spec = world()
    batch = full_batch(spec, 20)
    assert batch == (20, 400, 400, 800)
    whole = TrainingEstimator(spec, 0, SPEED).forecast(batch)
    assert whole.seconds == pytest.approx(24 * whole.step_seconds)
    products = TrainingEstimator(spec, 0, replace(SPEED, bytes=1e30)).forecast(batch).step_seconds
    traffic = TrainingEstimator(spec, 0, replace(SPEED, flops=1e30)).forecast(batch).step_seconds
    assert products + traffic == pytest.approx(whole.step_seconds)
    flops = 3 * cost(graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN]).flops(batch=20, source=20, target=20)
    assert products == pytest.approx(0.88 * flops / 1e9)
    accumulated = TrainingEstimator(world("training.accumulation_steps=4"), 0, SPEED).forecast(batch)
    assert accumulated.memory_bytes < whole.memory_bytes
    assert TrainingEstimator(spec, 1000, SPEED).forecast(batch).memory_bytes == whole.memory_bytes + 1000


def test_a_limit_in_tokens_shortens_the_forecast(world: World) -> None:
    batch = full_batch(world(), 20)
    whole = TrainingEstimator(world(), 0, SPEED).forecast(batch)
    assert (whole.steps, whole.limit) == (24, "steps")
    tokens = TrainingEstimator(world("training.max_tokens=4000"), 0, SPEED).forecast(batch)
    assert (tokens.steps, tokens.limit) == (10, "max_tokens")
    rest = TrainingEstimator(world("training.max_tokens=4000"), 0, SPEED).forecast(batch, done=Done(8, 3200))
    assert (rest.steps, rest.limit, rest.seconds) == (2, "max_tokens", pytest.approx(2 * whole.step_seconds))


def test_timing_scales_the_time_of_each_pass(world: World) -> None:
    spec, speed = world("training.accumulation_steps=2"), DeviceSpeed(1e9, 1e30)
    batch = full_batch(spec, 20)
    plain = TrainingEstimator(spec, 0, speed).forecast(batch).step_seconds
    slow = replace(MEASURED, level=3.0, new_shape=0.25)
    slower = TrainingEstimator(spec, 0, speed, slow).forecast(batch).step_seconds
    assert slower == pytest.approx(3 * plain + 2 * 0.25)


@pytest.mark.slow
@pytest.mark.skipif(not keeps_memory(), reason="the memory that this C library keeps is not predicted")
def test_forecast_of_memory_is_met() -> None:
    """In a new process, whose memory nothing else has used.

    The forecast is higher on processors on which oneDNN, whose buffers it includes, is not used.
    """
    keys = ["corpus.train=[{grammar: 3000}]", "corpus.dev=[{grammar: 3}]", "training.steps=60"]
    command = [sys.executable, "-m", "zoo", "train", "tiny", *keys, "training.checkpoint_steps=60"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": ROOT})
    expected = float(re.findall(r"forecast for .* ([\d.]+) MB of memory", done.stderr)[0])
    log = Path("runs/tiny/log.jsonl").read_text().splitlines()
    assert 0.6 * expected < json.loads(log[-1])["memory_bytes"] / 1e6 < 1.2 * expected


def test_passes_are_timed_once_per_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = time_passes(world(), Report())
    assert first is not None
    assert (first.length, first.rows) == (27, 400 // 27)
    assert all(seconds > 0 for seconds in first.float32.values())
    assert first.level > 0
    assert first.bfloat16 is None
    with monkeypatch.context() as patch:
        patch.setattr(training_estimate, "_measure", lambda passes: pytest.fail("it is stored"))
        assert time_passes(world("training.steps=7", "training.learning_rate_factor=0.5"), Report()) == first
    monkeypatch.setattr(training_estimate, "_measure", lambda passes: MEASURED)
    assert time_passes(world("architecture.d_ff=25"), Report()) == MEASURED
    monkeypatch.setattr(timing, "cpuinfo", lambda: {"model name": "another processor"})
    assert time_passes(world(), Report()) == MEASURED


def test_timing_of_a_busy_machine_is_not_stored(world: World, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_estimate, "_measure", lambda passes: MEASURED)
    monkeypatch.setattr(training_estimate, "_is_busy", lambda: True)
    assert time_passes(world(), words) == MEASURED
    assert timing.load_timing(world()) is None
    assert "other programs were running" in words.said[-1]
    monkeypatch.setattr(training_estimate, "_measure", Mock(side_effect=MemoryError))
    assert time_passes(world(), Report()) is None


def test_timed_passes_do_not_change_the_program(world: World) -> None:
    """Also with bfloat16, and with fewer learned positions than a pass usually has."""
    learned = ["architecture.positions={kind: learned, rows: 20}", "corpus.max_length=10"]
    spec = world(*learned, "decoding.extra_length=2", "training.precision=bfloat16")
    program = build_module(spec)
    before = {name: tensor.clone() for name, tensor in program.state_dict().items()}
    library = torch.backends.mkldnn.matmul.fp32_precision
    measured = time_passes(spec, Report(), program)
    assert measured is not None
    assert measured.length < 20
    assert measured.bfloat16
    assert measured.seconds("bfloat16") == measured.bfloat16
    assert all(torch.equal(tensor, before[name]) for name, tensor in program.state_dict().items())
    assert all(parameter.grad is None for parameter in program.parameters())
    assert torch.backends.mkldnn.matmul.fp32_precision == library


@pytest.mark.parametrize(("other", "chosen"), [(0.5, OTHER), (0.98, matrix_library()), (1.5, matrix_library())])
def test_other_library_must_be_clearly_faster(other: float, chosen: str) -> None:
    assert replace(MEASURED, float32={matrix_library(): 1.0} | {OTHER: other}).matrix_library == chosen


def test_damaged_timing_is_ignored(world: World) -> None:
    timing.save_timing(world(), MEASURED)
    assert timing.all_timings() == [timing.load_timing(world())] == [MEASURED]
    file = timing._file(world())
    for text in ("{", "{}", '{"timing": {"name": "x"}}', '{"timing": 3}', "[]"):
        file.write_text(text)
        assert timing.load_timing(world()) is None
        assert timing.all_timings() == []


def test_emulated_bfloat16_is_warned_about(world: World, words: Any) -> None:
    spec = world("training.precision=bfloat16")
    timing.save_timing(spec, EMULATED)
    assert EMULATED.slowdown == pytest.approx(2.6)
    assert replace(EMULATED, bfloat16=0.4).slowdown is None
    TrainingEstimator.measure(spec, build_module(spec), words)
    assert words.said == [f"bfloat16 {emulation_warning(2.6)}"]
    assert "2.6 times as long as float32" in words.said[0]
    assert estimate_training(spec, 27, "cpu").slowdown == EMULATED.slowdown


@TWO_LIBRARIES
@pytest.mark.integration
def test_training_uses_the_library_that_the_run_was_started_with(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries: list[str] = []
    original = step.TrainStep.__call__

    def recording(self: Any, *args: Any) -> Any:
        libraries.append(torch.backends.mkldnn.matmul.fp32_precision)
        return original(self, *args)

    monkeypatch.setattr(step.TrainStep, "__call__", recording)
    timing.save_timing(world(), MEASURED)
    train_steps(world("training.steps=2"), "runs/tiny")
    assert MEASURED.matrix_library == DEFAULT
    assert set(libraries) == {torch.backends.mkldnn.matmul.fp32_precision} != {"bf16"}
    timing.save_timing(world(), replace(MEASURED, float32={matrix_library(): 1.0, OTHER: 5.0}))
    train_steps(world("training.steps=4"), "runs/tiny")
    assert "bf16" not in libraries
    assert len(libraries) == 4


@TWO_LIBRARIES
def test_speed_is_measured_with_the_default_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timings of passes are relative to it."""
    libraries: list[str] = []

    def record(work: Any, seconds: float, rounds: int) -> list[float]:
        libraries.append(torch.backends.mkldnn.matmul.fp32_precision)
        return [1.0]

    monkeypatch.setattr(processors, "repeat", record)
    assert processors.matrix_peak.__wrapped__(torch.device("cpu"), "float32") == 2 * 1024**3
    assert libraries == ["bf16"]  # torch's name of oneDNN's setting

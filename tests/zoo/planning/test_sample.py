"""What is measured of a spec before it trains: once a machine, without a trace, and a run keeps what was chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from compiler import trainable
from compiler.switches import DEFAULT, ONEDNN, matrix_libraries, matrix_library
from specs import Spec
from zoo.planning import training_estimate
from zoo.planning.training_estimate import estimate_training, forecast_training, full_batch
from zoo.report import Report
from zoo.system import calibration, peak, processors
from zoo.system.calibration import Calibration, emulation_warning
from zoo.system.doctor import diagnosis
from zoo.system.processors import DeviceSpeed
from zoo.training import step
from zoo.training.benchmarks import benchmark_training
from zoo.training.train import train

World = Callable[..., Spec]
OTHER = matrix_libraries()[-1]
FOUND = Calibration("found", 10, 27, {matrix_library(): 2.0, OTHER: 1.0}, None, 1.0, 0.0)
EMULATED = replace(FOUND, bfloat16=FOUND.seconds("float32") * 2.6)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else is going on here."""
    monkeypatch.setattr(training_estimate, "_is_busy", lambda: False)


def test_what_was_measured_beside_other_work_is_not_kept(
    world: World, words: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_estimate, "_is_busy", lambda: True)
    assert training_estimate.calibrate(world(), words) is not None
    assert calibration.load_calibration(world()) is None
    assert "other work was going on" in words.said[-1]


def test_it_is_measured_once_a_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = training_estimate.calibrate(world(), Report())
    assert found is not None
    assert (found.length, found.rows) == (27, 400 // 27)
    assert all(seconds > 0 for seconds in found.float32.values())
    assert found.level > 0
    assert found.bfloat16 is None
    monkeypatch.setattr(training_estimate, "_measure", lambda passes: pytest.fail("it is known"))
    assert training_estimate.calibrate(world("training.steps=7", "training.learning_rate=0.5"), Report()) == found
    monkeypatch.setattr(training_estimate, "_measure", lambda passes: FOUND)
    assert training_estimate.calibrate(world("architecture.d_ff=25"), Report()) == FOUND
    monkeypatch.setattr(calibration, "cpuinfo", lambda: {"model name": "another processor"})
    assert training_estimate.calibrate(world(), Report()) == FOUND


def test_a_precision_is_measured_where_a_spec_trains_in_it(world: World) -> None:
    found = training_estimate.calibrate(world("training.precision=bfloat16"), Report())
    assert found is not None
    assert found.bfloat16
    assert found.seconds("bfloat16") == found.bfloat16


def test_it_leaves_no_trace_in_the_program(world: World) -> None:
    program = trainable(world())
    before = {name: tensor.clone() for name, tensor in program.state_dict().items()}
    route = torch.backends.mkldnn.matmul.fp32_precision
    training_estimate.calibrate(world(), Report(), program)
    assert all(torch.equal(tensor, before[name]) for name, tensor in program.state_dict().items())
    assert all(parameter.grad is None for parameter in program.parameters())
    assert torch.backends.mkldnn.matmul.fp32_precision == route


def test_learned_positions_are_not_outgrown(world: World) -> None:
    short = ["architecture.positional_encoding=learned", "architecture.max_positions=20", "corpus.max_length=10"]
    found = training_estimate.calibrate(world(*short, "decoding.extra_length=2"), Report())
    assert found is not None
    assert found.length < 20


def test_what_lacks_memory_is_not_measured(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(passes: Any) -> Calibration:
        raise MemoryError

    monkeypatch.setattr(training_estimate, "_measure", short)
    assert training_estimate.calibrate(world(), Report()) is None


@pytest.mark.parametrize(("other", "chosen"), [(0.5, OTHER), (0.98, matrix_library()), (1.5, matrix_library())])
def test_another_library_must_be_clearly_faster(other: float, chosen: str) -> None:
    assert replace(FOUND, float32={matrix_library(): 1.0} | {OTHER: other}).matrix_library == chosen


def test_a_damaged_entry_is_measured_anew(world: World) -> None:
    calibration.save_calibration(world(), FOUND)
    (file,) = calibration.storage.calibrations().iterdir()
    for text in ("{", "{}", '{"calibration": {"name": "x"}}', '{"calibration": 3}', "[]"):
        file.write_text(text)
        assert calibration.load_calibration(world()) is None
        assert calibration.all_calibrations() == []


def test_a_forecast_goes_by_the_level_and_by_new_shapes(world: World) -> None:
    spec, pace = world("training.accumulation_steps=2"), DeviceSpeed(1e9, 1e30)
    batch = full_batch(spec, 20)
    plain = forecast_training(spec, batch, 1, pace).step_seconds
    slower = forecast_training(spec, batch, 1, pace, sample=replace(FOUND, level=3.0, new_shape=0.25)).step_seconds
    assert slower == pytest.approx(3 * plain + 2 * 0.25)


@pytest.mark.skipif(len(matrix_libraries()) < 2, reason="this processor has one library of exact float32 products")
def test_a_run_keeps_its_library(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    routes: list[str] = []
    real = step.Updater.step

    def listening(self: Any, *args: Any) -> Any:
        routes.append(torch.backends.mkldnn.matmul.fp32_precision)
        return real(self, *args)

    monkeypatch.setattr(step.Updater, "step", listening)
    calibration.save_calibration(world(), FOUND)
    run = train(world("training.steps=4"))
    assert run.identity.matrix_library == DEFAULT == FOUND.matrix_library
    assert set(routes) == {torch.backends.mkldnn.matmul.fp32_precision} != {"bf16"}
    calibration.save_calibration(world(), replace(FOUND, float32={ONEDNN: 1.0, DEFAULT: 5.0}))
    routes.clear()
    train(world("training.steps=8"))
    assert "bf16" not in routes
    assert len(routes) == 4
    assert run.identity.matrix_library == DEFAULT


def test_a_run_of_before_goes_on_with_the_usual_library(world: World, words: Any) -> None:
    run = train(world("training.steps=4"))
    written = json.loads(run.data.read_text())
    del written["matrix_library"]
    run.data.write_text(json.dumps(written))
    calibration.save_calibration(world(), FOUND)
    train(world("training.steps=8"), report=words)
    assert run.identity.matrix_library == ""
    run.data.write_text(json.dumps({**written, "matrix_library": "a library of elsewhere"}))
    train(world("training.steps=12"), report=words)
    assert "a library of elsewhere cannot compute the products here" in " ".join(words.said)
    assert run.identity.matrix_library in matrix_libraries()


def test_a_precision_that_is_emulated_is_said(world: World, words: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = world("training.precision=bfloat16", "training.steps=2")
    calibration.save_calibration(spec, EMULATED)
    assert EMULATED.slowdown == pytest.approx(2.6)
    assert replace(EMULATED, bfloat16=0.4).slowdown is None
    warning = f"bfloat16 {emulation_warning(2.6)}"
    assert "2.6 times as long as float32" in warning
    train(spec, report=words)
    assert warning in words.said
    words.said.clear()
    benchmark_training(spec, steps=1, rounds=1, device="cpu", report=words)
    assert warning in words.said
    assert estimate_training(spec, 27, "cpu").slowdown == EMULATED.slowdown
    assert [each.slowdown for each in diagnosis().calibrations] == [EMULATED.slowdown]


@pytest.mark.skipif(len(matrix_libraries()) < 2, reason="this processor has one library of exact float32 products")
def test_a_forecast_goes_by_the_pace_of_the_usual_library_whatever_was_chosen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of which a kept sample's level is told: by the chosen one's it would be counted twice that it is faster."""
    routes: list[str] = []

    def listening(work: Any, device: Any, rounds: int) -> float:
        routes.append(torch.backends.mkldnn.matmul.fp32_precision)
        return 1.0

    monkeypatch.setattr(peak, "_quickest", listening)
    processors.matrix_peak.cache_clear()
    processors.device_speed.cache_clear()
    spec = world("training.steps=2")
    calibration.save_calibration(spec, FOUND)
    try:
        train(spec)
    finally:
        processors.matrix_peak.cache_clear()
        processors.device_speed.cache_clear()
    assert FOUND.matrix_library == DEFAULT
    assert routes[0] == "bf16"  # the name of oneDNN's route
    assert len(routes) == 2

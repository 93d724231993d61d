"""Forecast the time and memory of a training run before its first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from compiler import EmittedProgram
from specs import Spec
from zoo.data.batches import BatchSize
from zoo.planning.training_estimate import Done, calibrate, forecast_training
from zoo.report import Report
from zoo.system.calibration import Calibration, emulation_warning
from zoo.system.device_memory import peak_memory
from zoo.system.processors import DeviceSpeed, device_speed
from zoo.training.checkpoints import TrainingProgress
from zoo.training.distributed import Processes


@dataclass(frozen=True)
class StartMeasurements:
    """Measurements before the first step, from which the time and memory of a training run are predicted."""

    used_bytes: int
    """Memory that the process uses before training, without its weights."""
    speed: DeviceSpeed
    """Speed of the device with its default matrix library. The calibration is relative to this speed."""
    calibration: Calibration | None

    @classmethod
    def measure(cls, spec: Spec, program: EmittedProgram, report: Report) -> Self:
        """Measure the speed of the device. Unless a calibration is stored, also time some real steps of the spec.

        Warns if bfloat16 is emulated. Call this method after the weights are allocated and before Adam's moments
        are, because it also measures the memory that the process uses without them.
        """
        weights = sum(parameter.nbytes for parameter in program.parameters())
        used = max(0, peak_memory(program.device) - weights)
        speed = device_speed(program.device, spec.training.precision)
        calibration = calibrate(spec, report, program)
        if calibration and calibration.slowdown:
            report.warn(f"bfloat16 {emulation_warning(calibration.slowdown)}")
        return cls(used, speed, calibration)

    @property
    def matrix_library(self) -> str:
        """Fastest library for float32 matrix products. Empty if there is no calibration."""
        return self.calibration.matrix_library if self.calibration else ""


def report_forecast(
    spec: Spec,
    mean: BatchSize,
    start: TrainingProgress,
    processes: Processes,
    measurements: StartMeasurements,
    report: Report,
    sharded: bool,
) -> None:
    """Report a forecast of the time and memory of a training run.

    Args:
        spec: The spec to train.
        mean: The mean size of a batch, which the processes share.
        start: The progress at which training starts or resumes.
        processes: The processes.
        measurements: The measurements of this process.
        report: Receives the forecast.
        sharded: Whether weights and moments are sharded over the processes.
    """
    speed = measurements.speed
    expected = forecast_training(
        spec,
        mean,
        speed,
        processes=processes.count,
        sharded=sharded,
        used_bytes=measurements.used_bytes,
        calibration=measurements.calibration,
        done=Done(start.step, start.tokens, start.seconds),
    )
    if warning := spec.training.describe_short_training(start.step + expected.steps):
        report.warn(warning)
    until = "" if expected.limit == "steps" else f", until `training.{expected.limit}` is reached"
    measured = f"{speed.flops / 1e9:,.0f} GFLOP/s of matrix products and {speed.bytes / 1e9:,.0f} GB/s of copies"
    report.info(f"forecast for {expected.steps:,} steps{until}: {expected} of memory, based on {measured}")

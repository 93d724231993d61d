"""Forecast of time and memory, reported before the first step of a run and compared with the result after the last."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from compiler import EmittedProgram
from specs import Spec
from zoo.data.batches import BatchSize
from zoo.planning.training_estimate import Forecast, calibrate, forecast_training
from zoo.report import Report
from zoo.system.calibration import Calibration, emulation_warning
from zoo.system.device_memory import peak_memory
from zoo.system.processors import DeviceSpeed, device_speed
from zoo.training.checkpoints import TrainingProgress
from zoo.training.distributed import Processes


@dataclass(frozen=True)
class StartMeasurements:
    """Measurements taken before training starts, from which its time and memory are predicted."""

    used_bytes: int
    """Memory that the process uses, without its weights."""
    speed: DeviceSpeed
    """Speed of the device with its default matrix library, which is also the reference of the calibration."""
    calibration: Calibration | None

    @classmethod
    def measure(cls, spec: Spec, program: EmittedProgram, report: Report) -> Self:
        """Measure the device, and calibrate the spec unless a calibration is stored.

        Call it when the process has weights, but no moments or gradients yet. Warns if bfloat16 is emulated.
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
        """Fastest library for float32 products. Empty without a calibration."""
        return self.calibration.matrix_library if self.calibration else ""


class ForecastReport:
    """Forecast of a training run that is reported now and compared with the result later."""

    def __init__(
        self,
        spec: Spec,
        mean: BatchSize,
        start: TrainingProgress,
        processes: Processes,
        measurements: StartMeasurements,
        report: Report,
        sharded: bool,
    ) -> None:
        """Report the forecast.

        Args:
            spec: The spec to train.
            mean: The mean size of a batch, which the processes share.
            start: The progress at which training starts or resumes.
            processes: The processes.
            measurements: The measurements of this process.
            report: Receives the forecast.
            sharded: Whether weights and moments are sharded over the processes.
        """
        self._start, self._device, self._report = start, processes.device, report
        steps = max(0, spec.training.steps - start.step)
        share, shards = mean.share(processes.count), processes.count if sharded else 1
        speed, used = measurements.speed, measurements.used_bytes
        self._expected = forecast_training(spec, share, steps, speed, used, shards, measurements.calibration)
        if steps:
            measured = f"{speed.flops / 1e9:,.0f} GFLOP/s of products and {speed.bytes / 1e9:,.0f} GB/s of copies"
            report.info(f"forecast for {steps:,} steps: {self._expected} of memory, based on {measured}")

    def compare(self, progress: TrainingProgress) -> None:
        """Report the actual time and memory next to the forecast for the same number of steps."""
        steps, seconds = progress.step - self._start.step, progress.seconds - self._start.seconds
        if steps:
            actual = Forecast(seconds / steps, seconds, peak_memory(self._device))
            expected = replace(self._expected, seconds=steps * self._expected.step_seconds)
            self._report.info(f"{steps:,} steps took {actual} of memory; the forecast was {expected}")

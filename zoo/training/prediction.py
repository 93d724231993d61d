"""What the steps of a run are forecast to take, said before the first, and beside what they took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from compiler import EmittedProgram
from specs import Spec
from zoo.data.batches import BatchSize
from zoo.planning.forecast import Forecast, forecast
from zoo.planning.sample import sampled
from zoo.report import Report
from zoo.system import ram
from zoo.system.calibration import Calibration, emulated
from zoo.system.peak import Pace, pace
from zoo.training.checkpoint import Progress
from zoo.training.processes import Processes


@dataclass(frozen=True)
class Outset:
    """What a training sets out with, of all that its forecast depends on."""

    held: int
    """Bytes that the process had taken, its weights left out."""
    pace: Pace
    """Of the device, as it was measured when nothing else was chosen yet: by which a sample's level is told, too."""
    sample: Calibration | None

    @classmethod
    def of(cls, spec: Spec, program: EmittedProgram, report: Report) -> Self:
        """Of a process in which there are weights, and neither moments nor gradients yet.

        Measures the device, and some seconds more unless what was found on this processor is kept; says where it only
        emulates the spec's precision.
        """
        weights = sum(parameter.nbytes for parameter in program.parameters())
        held = max(0, ram.most_used(program.device) - weights)
        able = pace(program.device, spec.training.precision)
        sample = sampled(spec, report, program)
        if sample and sample.slowdown:
            report.warn(f"bfloat16 {emulated(sample.slowdown)}")
        return cls(held, able, sample)

    @property
    def matrix_library(self) -> str:
        """The one to compute float32 products by; "" where nobody measured."""
        return self.sample.matrix_library if self.sample else ""


class Prediction:
    """A forecast that waits for what happens."""

    def __init__(
        self,
        spec: Spec,
        mean: BatchSize,
        begun: Progress,
        processes: Processes,
        outset: Outset,
        report: Report,
        sharded: bool,
    ) -> None:
        """Says the forecast, for batches of a mean size that all processes share.

        `sharded`: each of them holds but a part of weights and moments.
        """
        self._begun, self._device, self._report = begun, processes.device, report
        steps = max(0, spec.training.steps - begun.step)
        share, shards = mean.share(processes.count), processes.count if sharded else 1
        able = outset.pace
        self._expected = forecast(spec, share, steps, able, outset.held, shards, outset.sample)
        if steps:
            measured = f"{able.flops / 1e9:,.0f} GFLOP/s of products and {able.bytes / 1e9:,.0f} GB/s of copies"
            report.info(f"forecast for {steps:,} steps: {self._expected} of memory, by {measured}")

    def compare(self, progress: Progress) -> None:
        """Says what happened in the steps that were done, if any were."""
        steps, seconds = progress.step - self._begun.step, progress.seconds - self._begun.seconds
        if steps:
            happened = Forecast(seconds / steps, seconds, ram.most_used(self._device))
            said = replace(self._expected, seconds=steps * self._expected.step_seconds)
            self._report.info(f"{steps:,} steps took {happened} of memory; the forecast was {said}")

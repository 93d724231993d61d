"""What the steps of a run are forecast to take, said before the first, and beside what they took."""

from __future__ import annotations

from dataclasses import replace

from specs import Spec
from zoo.corpus.batches import BatchSize
from zoo.machine import ram
from zoo.machine.peak import pace
from zoo.planning.forecast import Forecast, forecast
from zoo.report import Report
from zoo.training.checkpoint import Progress
from zoo.training.processes import Processes

_STATE_COPIES = 3  # weights and both moments: what is held of the state before the first gradient


class Prediction:
    """A forecast that waits for what happens."""

    def __init__(
        self,
        spec: Spec,
        mean: BatchSize,
        begun: Progress,
        processes: Processes,
        weight_bytes: int,
        report: Report,
        *,
        sharded: bool = False,
    ) -> None:
        """Measures the device and says the forecast, for batches of a mean size that all processes share.

        `weight_bytes` are those of the weights that this process holds already, with their moments: all of them, or,
        `sharded`, its part.
        """
        self._begun, self._device, self._report = begun, processes.device, report
        steps = max(0, spec.training.steps - begun.step)
        share, shards = mean.share(processes.count), processes.count if sharded else 1
        able = pace(self._device, spec.training.precision)
        held = ram.most_used(self._device) - _STATE_COPIES * weight_bytes
        self._expected = forecast(spec, share, steps, able, max(0, held), shards)
        if steps:
            measured = f"{able.flops / 1e9:,.0f} GFLOP/s of products and {able.bytes / 1e9:,.0f} GB/s of copies"
            report.say(f"forecast for {steps:,} steps: {self._expected} of memory, by {measured}")

    def compare(self, progress: Progress) -> None:
        """Says what happened in the steps that were done, if any were."""
        steps, seconds = progress.step - self._begun.step, progress.seconds - self._begun.seconds
        if steps:
            happened = Forecast(seconds / steps, seconds, ram.most_used(self._device))
            said = replace(self._expected, seconds=steps * self._expected.step_seconds)
            self._report.say(f"{steps:,} steps took {happened} of memory; forecast were {said}")

"""Predict the time and memory of a training run before its first step.

The prediction has three sources: FLOPs and bytes of the graph, the measured speed of the device, and, on a CPU, the
measured times of a few training passes of the spec. They also show which library for matrix products is the fastest.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

import torch

from compiler import Cost, EmittedProgram, Purpose, build_module, cost, find_device, graphs
from compiler.backends import BuildRequest, choose_backend
from compiler.host import cores, fast_float32, keeps_memory, matrix_libraries, matrix_library
from compiler.padded_batch import PaddedBatch
from specs import EOS, Features, Spec
from zoo.data.batches import BatchSize
from zoo.planning.memory_estimate import STATE_COPIES, batch_rows, weight_bytes
from zoo.report import Report, duration
from zoo.report import size as format_size
from zoo.system import memory
from zoo.system.memory import MEMORY_ERRORS, is_out_of_memory
from zoo.system.processors import DeviceSpeed, device_speed
from zoo.system.timing import PassTiming, emulation_warning, load_timing, repeat, save_timing, timed

_PRODUCTS, _ACTIVATIONS, _WEIGHTS = 0.88, 17, 20
"""Factors for FLOPs, for bytes of activations and for bytes of weights, each divided by the measured speed. They were
fitted to eight specs from tiny to big on two cores of AMD's Zen 5, in float32 and bfloat16, with errors up to 16 %. On
another processor the timed passes show the error."""
_PROCESS_BYTES = 260_000_000
"""Memory that a process needs for training in addition to weights, moments and activations: libraries, buffers,
products prepared by oneDNN, and gaps between tensors of varying sizes. Measured on specs from tiny to base."""

PASS_LENGTH = 27
"""Tokens of a sentence in the timed passes."""
_MAX_FLOPS, _MIN_FLOPS = 2e11, 1e9
"""Maximum FLOPs of a timed pass, and the FLOPs below which libraries for matrix products are not compared."""
_MIN_ROUNDS, _MAX_ROUNDS, _MAX_SECONDS = 2, 6, 2.0
"""Numbers of rounds of timed passes. After `_MAX_SECONDS`, no further round begins, except the first `_MIN_ROUNDS`."""


class Done(NamedTuple):
    """Steps and target tokens that a training run has already completed."""

    steps: int = 0
    tokens: int = 0


_NOTHING = Done()


@dataclass(frozen=True)
class Forecast:
    """Predicted time and memory of a training run. The time excludes checkpoints and the dev set."""

    steps: int
    """Number of steps until the run reaches a limit of its spec."""
    limit: str
    """Field of `training` whose limit is reached first: `steps` or `max_tokens`."""
    step_seconds: float
    seconds: float
    memory_bytes: int
    """Peak memory of the process, or of the GPU."""

    def __str__(self) -> str:
        return f"{duration(self.seconds)} and {format_size(self.memory_bytes)}"


@dataclass(frozen=True)
class TrainingEstimator:
    """Measurements on a device, which predict the time and memory of training a spec."""

    spec: Spec
    used_bytes: int
    """Memory that the process uses before training, without its weights."""
    speed: DeviceSpeed
    """Speed of the device with its default matrix library. The timing is relative to this speed."""
    timing: PassTiming | None = None
    """Measured times, which correct the predicted time of a pass. None: no correction."""

    @classmethod
    def measure(cls, spec: Spec, program: EmittedProgram, report: Report) -> Self:
        """Measure the speed of a program's device. Also time some passes, unless their times are stored.

        Warns if bfloat16 is emulated. Call this method after the weights are allocated and before Adam's moments
        are, because it also measures the memory that the process uses without them.
        """
        weights = sum(parameter.nbytes for parameter in program.parameters())
        used = max(0, memory.peak_memory(program.device) - weights)
        speed = device_speed(program.device, spec.training.precision)
        timing = time_passes(spec, report, program)
        if timing and timing.slowdown:
            report.warn(f"bfloat16 {emulation_warning(timing.slowdown)}")
        return cls(spec, used, speed, timing)

    @property
    def matrix_library(self) -> str:
        """Fastest library for float32 matrix products. Empty if no pass was timed."""
        return self.timing.matrix_library if self.timing else ""

    def forecast(
        self, batch: BatchSize, processes: int = 1, *, sharded: bool = False, done: Done = _NOTHING
    ) -> Forecast:
        """Predict the remaining time of a training run, and the memory of each of its processes.

        Args:
            batch: The size of a batch, which the processes share.
            processes: The number of processes.
            sharded: Whether weights, gradients and moments are sharded over the processes.
            done: Steps and tokens that the run has already completed.
        """
        training, size = self.spec.training, batch.divided_by(processes)
        parts = training.accumulation_steps
        seconds = pass_seconds(self.spec, -(-size.rows // parts), _padded_lengths(self.spec, size), self.speed)
        if self.timing:
            seconds = self.timing.level * seconds + self.timing.new_shape
        seconds = parts * seconds + _WEIGHTS * _train_cost(self.spec).weight_bytes / self.speed.bytes
        left = {"steps": float(training.steps - done.steps)}
        if training.max_tokens is not None:
            left["max_tokens"] = (training.max_tokens - done.tokens) / batch.target_tokens
        limit = min(left, key=left.__getitem__)
        steps = max(0, math.ceil(left[limit]))
        memory = self.used_bytes + training_bytes(self.spec, size, processes if sharded else 1)
        return Forecast(steps, limit, seconds, steps * seconds, memory)

    def report_forecast(self, batch: BatchSize, processes: int, report: Report, *, sharded: bool, done: Done) -> None:
        """Report a forecast, and a warning if the training will be short. The arguments are those of `forecast`."""
        expected = self.forecast(batch, processes, sharded=sharded, done=done)
        if warning := self.spec.training.describe_short_training(done.steps + expected.steps):
            report.warn(warning)
        until = "" if expected.limit == "steps" else f", until `training.{expected.limit}` is reached"
        products, copies = f"{self.speed.flops / 1e9:,.0f} GFLOP/s", f"{self.speed.bytes / 1e9:,.0f} GB/s"
        measured = f"{products} of matrix products and {copies} of copies"
        report.info(f"forecast for {expected.steps:,} steps{until}: {expected} of memory, based on {measured}")


@dataclass(frozen=True)
class TrainingEstimate(Forecast, DeviceSpeed):
    """Estimated time and memory of training in one process, assuming that all sentences have the same length."""

    device: str
    backend: str
    precision: str
    matrix_library: str | None
    """Library for float32 matrix products. None on a GPU."""
    keeps_memory: bool | None
    """Whether the process keeps freed memory. None on a GPU."""
    float32_seconds: Mapping[str, float]
    """Seconds of a timed pass in float32, by matrix library. Empty if no pass was timed."""
    slowdown: float | None
    """Time of bfloat16 divided by that of float32 if the processor only emulates bfloat16. None otherwise."""
    device_bytes: int
    """Memory of the GPU, or of the machine."""
    fits: bool
    """Whether training with full batches fits in the memory of the device. If not, several processes may help."""


def estimate_training(spec: Spec, length: int, device: str, report: Report | None = None) -> TrainingEstimate:
    """Estimate time and memory of a training run on a device of this machine.

    Measures the device for a third of a second. On a CPU, also times training passes for some seconds, unless the
    times of this spec are stored.

    Args:
        spec: The spec to train.
        length: The number of tokens of every sentence, on either side.
        device: "auto", "cpu", "cuda" or "cuda:N".
        report: Receives messages about the measurement.

    Raises:
        ZooError: The device does not exist.
    """
    name, precision = find_device(device), spec.training.precision
    found, cpu = torch.device(name), name == "cpu"
    used = memory.peak_memory(found)  # before the measurement, which uses memory itself
    speed = device_speed(found, precision)
    request = BuildRequest(spec, graphs(spec, [Purpose.TRAIN], name), {}, name)
    backend = choose_backend(spec.compilation.backend, request).name
    timing = None
    # If the model does not fit, timed passes would end this process.
    if cpu and backend == "eager" and memory.fits_memory(STATE_COPIES * weight_bytes(spec), found):
        timing = time_passes(spec, report or Report())
    expected = TrainingEstimator(spec, used, speed, timing).forecast(full_batch(spec, length))
    return TrainingEstimate(
        **asdict(speed),
        **asdict(expected),
        device=name,
        backend=backend,
        precision=precision,
        matrix_library=timing.matrix_library if timing else matrix_library() if cpu else None,
        float32_seconds=timing.float32 if timing else {},
        slowdown=timing.slowdown if timing else None,
        keeps_memory=keeps_memory() if cpu else None,
        device_bytes=memory.available_memory(found),
        fits=memory.fits_memory(expected.memory_bytes, found),
    )


def pass_seconds(spec: Spec, rows: int, sizes: Mapping[str, int], speed: DeviceSpeed) -> float:
    """Return the predicted time of a forward and backward pass, in seconds, from its FLOPs and bytes.

    Args:
        spec: The spec that is trained.
        rows: The number of sentence pairs.
        sizes: The padded lengths of "source" and "target".
        speed: The measured speed of the device.
    """
    train = _train_cost(spec)
    traffic = _ACTIVATIONS * train.activation_bytes(batch=rows, **sizes)
    return _PRODUCTS * 3 * train.flops(batch=rows, **sizes) / speed.flops + traffic / speed.bytes


def training_bytes(spec: Spec, size: BatchSize, shards: int = 1) -> int:
    """Return the memory of a training process in bytes, including weights, gradients, moments and activations.

    `shards` is the number of processes that share weights, gradients and moments.
    """
    train = _train_cost(spec)
    rows = -(-size.rows // spec.training.accumulation_steps)
    activations = train.activation_bytes(batch=rows, **_padded_lengths(spec, size))
    gathered = train.weight_bytes if shards > 1 else 0
    return int(_PROCESS_BYTES + STATE_COPIES * train.weight_bytes // shards + gathered + activations)


def full_batch(spec: Spec, length: int) -> BatchSize:
    """Return the size of a batch that fills the token budget with sentences of `length` tokens."""
    rows, _ = batch_rows(spec, length)
    source = rows * length if spec.task.reads else 0
    return BatchSize(rows, source, rows * length, source + rows * length)


def _train_cost(spec: Spec) -> Cost:
    return cost(graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN])


def _padded_lengths(spec: Spec, size: BatchSize) -> dict[str, int]:
    """Return the mean length of the source and of the target side in positions of the model, including padding."""
    padding = size.padded_tokens / (size.source_tokens + size.target_tokens)
    tokens = {"source": size.source_tokens // spec.architecture.source_stride, "target": size.target_tokens}
    return {side: max(1, round(padding * count / size.rows)) for side, count in tokens.items()}


def time_passes(spec: Spec, report: Report, program: EmittedProgram | None = None) -> PassTiming | None:
    """Return the stored times of a spec's training passes on this processor. If there are none, measure and store them.

    Args:
        spec: The spec to train.
        report: Receives messages about the measurement.
        program: A program of the spec, if one is already built. Its weights do not change.

    Returns:
        The times. None if `program` does not run on a CPU with the backend `eager`, or if memory is exhausted.
    """
    if program is not None and (program.backend != "eager" or program.device.type != "cpu"):
        return None
    if stored := load_timing(spec):
        return stored
    report.info("measuring once how fast this processor computes the spec's matrix products ...")
    try:
        if program is None:
            eager = spec.compilation.model_copy(update={"backend": "eager"})
            program = build_module(spec.model_copy(update={"compilation": eager}))
        timing = _measure(_Passes(spec, program))
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
        return None
    if _is_busy():
        report.warn(
            "other programs were running, so forecasts are inaccurate; to get accurate ones, stop them and start again"
        )
    else:
        save_timing(spec, timing)
    return timing


class _Passes:
    """Timed forward and backward passes of a program over random tokens, with at most `_MAX_FLOPS` per pass."""

    def __init__(self, spec: Spec, program: EmittedProgram) -> None:
        self.spec, self._program = spec, program
        positions = spec.architecture.max_positions
        self.length = PASS_LENGTH if positions is None else min(PASS_LENGTH, positions - 1)
        flops = 3 * cost(program.graphs[Purpose.TRAIN]).flops(batch=1, source=self.length, target=self.length)
        self.rows = max(1, min(batch_rows(spec, self.length)[1], int(_MAX_FLOPS / flops)))
        self.compare_libraries = self.rows * flops > _MIN_FLOPS

    def seconds(self, precision: str, library: str, extra_rows: int = 0) -> float:
        """Return the seconds of one pass over `rows + extra_rows` sentence pairs."""
        rows = self.rows + extra_rows
        numbers = 7919 * torch.arange(rows * (self.length + 1)).view(rows, -1)
        source, target = (EOS + numbers % (size - EOS) for size in self.spec.vocabulary.sizes)
        values = source[:, 1:]
        if isinstance(kind := self.spec.architecture.source, Features):
            values = torch.ones(rows, self.length * kind.total_stride, kind.width)
        stream = PaddedBatch.full(values) if self.spec.task.reads else None

        def run() -> None:
            loss = self._program.train()(stream, target)
            (loss.smoothed / loss.tokens).backward()

        with fast_float32(library), torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            seconds, _ = timed(run)
        self._program.zero_grad(set_to_none=True)
        return seconds

    def new_shape_seconds(self, extra_rows: int) -> float:
        """Return how many seconds longer the first pass with `extra_rows` more rows takes than the second.

        The first pass allocates buffers and prepares matrix products.
        """
        precision = self.spec.training.precision
        first, second = (self.seconds(precision, matrix_library(), extra_rows) for _ in range(2))
        return first - second


def _measure(passes: _Passes) -> PassTiming:
    precision, default = passes.spec.training.precision, matrix_library()
    passes.seconds("float32", default)  # the first pass takes longer
    settings = [("float32", library) for library in (matrix_libraries() if passes.compare_libraries else (default,))]
    if precision == "bfloat16":
        settings.append((precision, default))
    rounds: list[list[float]] = []

    def run_all() -> None:
        """Time each setting once, so that a slow phase of the machine affects all of them."""
        rounds.append([passes.seconds(*setting) for setting in settings])

    repeat(run_all, _MAX_SECONDS, rounds=_MIN_ROUNDS, max_rounds=_MAX_ROUNDS)
    best = dict(zip(settings, map(min, zip(*rounds, strict=True)), strict=True))
    sizes = {"source": passes.length, "target": passes.length}
    expected = pass_seconds(passes.spec, passes.rows, sizes, device_speed(torch.device("cpu"), precision))
    return PassTiming(
        name=passes.spec.name,
        rows=passes.rows,
        length=passes.length,
        float32={library: seconds for (kind, library), seconds in best.items() if kind == "float32"},
        bfloat16=best.get(("bfloat16", default)),
        level=min(seconds for (kind, _), seconds in best.items() if kind == precision) / expected,
        new_shape=max(0.0, statistics.median(passes.new_shape_seconds(extra) for extra in (1, 2, 3))),
    )


def _is_busy() -> bool:
    """Return whether more processes are running than this machine has cores."""
    return os.getloadavg()[0] > cores() + 0.5

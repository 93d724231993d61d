"""Write the metrics of a run to `log.jsonl` and to TensorBoard event files, and compute totals from the log.

A line is written every `training.log_steps` steps and at each checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from compiler import Purpose, cost, lower
from specs import Spec, ZooError
from zoo.data.batches import BatchSize
from zoo.evaluation.metrics import DEV_TITLES
from zoo.files.atomic import atomic_file, convert_disk_errors
from zoo.files.reading import read_json
from zoo.models.folder import RUN_IDENTITY, ModelFolder
from zoo.planning.memory_estimate import LENGTH
from zoo.report import figure
from zoo.system.memory import peak_memory
from zoo.training.checkpoints import TrainingProgress
from zoo.training.run import Run
from zoo.training.step import StepResult

try:
    from tensorboardX import SummaryWriter
except ImportError:
    SummaryWriter = None

SHOWN = ("loss", "perplexity", *DEV_TITLES, "target_tokens_per_second", "utilisation")
"""Metrics that are shown during training."""
_SUMMARY_NAMES = {"loss": "loss", "perplexity": "perplexity", **DEV_TITLES}
_NOT_PLOTTED = {"step", "seconds"}
_REQUIRED = ("step", "seconds", "source_tokens_per_second", "target_tokens_per_second", "utilisation")


def summary(line: Mapping[str, Any], *, best: bool) -> str:
    """Format a line of the log for display. If `best` is true, add that the dev score is the best so far."""
    figures = [
        f"{name} {figure(value)}" for key, name in _SUMMARY_NAMES.items() if (value := line.get(key)) is not None
    ]
    return f"step {line['step']:,}: {', '.join(figures)}{', the best so far' if best else ''}"


class RunLog:
    """Writer for `log.jsonl` and, if tensorboardX is installed, for TensorBoard event files.

    Each line of the log summarises the metrics of several steps.
    """

    def __init__(self, run: Run, spec: Spec, start: TrainingProgress, peak: float, device: torch.device) -> None:
        """Open the log, and remove its entries for steps after `start`.

        Args:
            run: The run, with the path of `log.jsonl` and the folder for TensorBoard event files. TensorBoard ignores
                any metrics that are already logged for steps after `start`.
            spec: The model's spec. Its metrics determine whether the log contains perplexity.
            start: The progress at which training starts or resumes.
            peak: The FLOPs per second of a large matrix product, from which the utilisation is computed.
            device: The device whose memory is logged.
        """
        self._path, self._peak, self._device = run.log, peak, device
        self._has_perplexity = "perplexity" in spec.scores
        self._seconds = start.seconds
        if self._path.exists():
            kept = [line for line in _complete_lines(self._path) if line["step"] <= start.step]
            with atomic_file(self._path) as file:
                file.write_text("".join(f"{json.dumps(line)}\n" for line in kept))
        self._events = None
        if SummaryWriter:
            # Event files are named after the current second. The suffix distinguishes files opened in the same second.
            suffix = f".{start.step:07d}"
            self._events = SummaryWriter(str(run.events), purge_step=start.step + 1, filename_suffix=suffix)
        self._steps: list[tuple[BatchSize, StepResult, float]] = []
        """The size, the losses and the FLOPs of each step since the last line."""

    def add(self, size: BatchSize, result: StepResult, flops: float) -> None:
        """Add the metrics of a step. The next line of the log will summarise all steps that were added.

        Args:
            size: The size of the whole batch.
            result: The losses of the step.
            flops: The FLOPs of the matrix products in the forward and backward pass, without padding.
        """
        self._steps.append((size, result, flops))

    def write(self, progress: TrainingProgress, rate: float, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Append a line to the log that summarises the steps since the previous line, and return the line.

        The line contains loss and perplexity per target token, speed, padding fraction, utilisation and memory. Skipped
        steps do not affect loss and perplexity. If the task has no perplexity, the value is None.

        Args:
            progress: The progress after the last step.
            rate: The learning rate of the last step.
            figures: Further metrics for the line, such as the dev score.
        """
        seconds = max(progress.seconds - self._seconds, 1e-9)
        size = BatchSize.total(size for size, _, _ in self._steps)
        taken = [result for _, result, _ in self._steps if bool(result.taken)]
        tokens = sum(result.tokens for result in taken)
        smoothed = math.fsum(float(result.smoothed) for result in taken)
        plain = math.fsum(float(result.plain) for result in taken)
        line = {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": round(smoothed / tokens, 5) if tokens else None,
            "perplexity": round(math.exp(min(plain / tokens, 700)), 4) if tokens and self._has_perplexity else None,
            "learning_rate": float(f"{rate:.6g}"),
            "source_tokens_per_second": round(size.source_tokens / seconds, 1),
            "target_tokens_per_second": round(size.target_tokens / seconds, 1),
            "padding": round(size.padding, 4),
            "utilisation": round(math.fsum(flops for _, _, flops in self._steps) / seconds / self._peak, 4),
            "memory_bytes": peak_memory(self._device),
            "seconds": round(progress.seconds, 2),
            **figures,
        }
        if progress.skipped:
            line["skipped"] = progress.skipped
        with convert_disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._events:
            for name, value in line.items():
                if name not in _NOT_PLOTTED and value is not None:
                    self._events.add_scalar(name, value, progress.step)
            self._events.flush()
        self._steps.clear()
        self._seconds = progress.seconds
        return line

    def close(self) -> None:
        """Close the files for TensorBoard."""
        if self._events:
            self._events.close()


@dataclass(frozen=True)
class TrainingRecord:
    """Totals for a run, computed from its log."""

    steps: int
    seconds: float
    """Time spent in training steps, in seconds."""
    devices: int
    """Number of devices that trained at the same time."""
    flops: float
    """FLOPs of the matrix products in the forward and backward passes, without padding. They are computed from the
    number of tokens, as if each sentence had LENGTH tokens. An error of 10% in the length changes them by 0.1%."""
    peak: float
    """FLOPs per second of a large matrix product on one device, measured at each start. 0 if it is not in the log."""

    @property
    def estimated_flops(self) -> float:
        """FLOPs, estimated as in section 6.1 of the paper: time * number of devices * sustained FLOPs per second."""
        return self.seconds * self.devices * self.peak


def read_log(run: ModelFolder) -> list[Mapping[str, Any]]:
    """Return the complete lines of a run's log, in order, or an empty list if the run has no log yet."""
    path = run.folder / "log.jsonl"
    return list(_complete_lines(path)) if path.is_file() else []


def with_seconds(lines: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], float]]:
    """Return each line of a log with the training time since the previous line, in seconds."""
    ends = [0.0, *(line["seconds"] for line in lines)]
    return [(line, max(0.0, end - start)) for line, (start, end) in zip(lines, pairwise(ends), strict=True)]


def training_record(run: ModelFolder, spec: Spec) -> TrainingRecord | None:
    """Compute the totals for a run from its log.

    Returns:
        The totals. None if the run has no log, or the log has no complete line.

    Raises:
        ZooError: A file of the run cannot be read.
    """
    lines = read_log(run)
    if not lines:
        return None
    spans = with_seconds(lines)
    source, target = (
        sum(line[f"{side}_tokens_per_second"] * span for line, span in spans) for side in ("source", "target")
    )
    flops, busy = _training_flops(spec, source, target), sum(line["utilisation"] * span for line, span in spans)
    identity = read_json(run.folder / RUN_IDENTITY) if (run.folder / RUN_IDENTITY).is_file() else {}
    devices = identity.get("processes", 1)
    if not isinstance(devices, int) or devices < 1:
        problem = f"`{run.folder / RUN_IDENTITY}` is damaged: `processes` is not a positive whole number"
        raise ZooError(problem, hint="set `processes` to the number of processes that trained the run", exit_code=1)
    peak = flops / busy / devices if busy else 0.0
    return TrainingRecord(int(lines[-1]["step"]), lines[-1]["seconds"], devices, flops, peak)


def _training_flops(spec: Spec, source: float, target: float) -> float:
    """Return the FLOPs of forward and backward passes over `source` source tokens and `target` target tokens.

    The FLOPs of projecting the encoder output to keys and values are attributed to the source tokens. The FLOPs of
    cross-attention itself are attributed to the target tokens.
    """
    products = cost(lower(spec, Purpose.TRAIN)).flops
    encoder, both = (products(batch=1, source=LENGTH, target=length) for length in (0, LENGTH))
    return 3 * (encoder * source + (both - encoder) * target) / LENGTH


def _complete_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the complete lines of a log. A run that was killed may have left an incomplete line, which is skipped."""
    for text in path.read_text("utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
            line = json.loads(text)
            if all(math.isfinite(line[name]) for name in _REQUIRED):
                yield line

"""How long a training will take and how much memory, from the graph and from what a device does in a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler import Cost, Purpose, cost, graphs
from specs import Spec
from zoo.data.batches import BatchSize
from zoo.planning.footprint import STATE_COPIES, pairs
from zoo.report import duration
from zoo.report import size as bytes_in_words
from zoo.system.calibration import Calibration
from zoo.system.peak import Pace

_PRODUCTS, _ACTIVATIONS, _WEIGHTS = 0.88, 17, 20
"""Seconds are FLOPs over the matrix peak, and bytes of activations and of weights over the bandwidth, each so often.
Fitted to eight specs from tiny to big on two cores of AMD's Zen 5, float32 and bfloat16, which they met within 16 %; on
another processor the sample says how far off they are."""
AROUND = 260_000_000
"""Bytes that a process takes on beside weights, moments and activations once it trains: libraries, buffers, products
that oneDNN has prepared, and holes between tensors of ever other sizes. Measured on specs from tiny to base."""


@dataclass(frozen=True)
class Forecast:
    """Of a training. Seconds are those of its steps, without the dev set and checkpoints."""

    step_seconds: float
    seconds: float
    memory_bytes: int
    """The most that the process, or the GPU, will hold."""

    def __str__(self) -> str:
        return f"{duration(self.seconds)} and {bytes_in_words(self.memory_bytes)}"


def forecast(
    spec: Spec,
    size: BatchSize,
    steps: int,
    pace: Pace,
    held: int = 0,
    shards: int = 1,
    sample: Calibration | None = None,
) -> Forecast:
    """Of so many steps with batches of this size in a process that already holds so many bytes.

    With several `shards` it holds one of the weights, gradients and moments. By a `sample` the passes take as much
    longer, or shorter, than their FLOPs and bytes say as those took that were measured.
    """
    parts = spec.training.accumulation_steps
    seconds = passes(spec, -(-size.rows // parts), _sizes(size), pace)
    if sample:
        seconds = sample.level * seconds + sample.new_shape
    seconds = parts * seconds + _WEIGHTS * _training(spec).weight_bytes / pace.bytes
    return Forecast(seconds, steps * seconds, held + AROUND + needed(spec, size, shards))


def passes(spec: Spec, rows: int, sizes: Mapping[str, int], pace: Pace) -> float:
    """Seconds of a forward and backward pass over so many pairs, by their FLOPs and bytes."""
    train = _training(spec)
    moved = _ACTIVATIONS * train.activation_bytes(batch=rows, **sizes)
    return _PRODUCTS * 3 * train.flops(batch=rows, **sizes) / pace.flops + moved / pace.bytes


def needed(spec: Spec, size: BatchSize, shards: int = 1) -> int:
    """Bytes of weights, gradients, moments and activations for batches of this size."""
    train = _training(spec)
    kept = train.activation_bytes(batch=-(-size.rows // spec.training.accumulation_steps), **_sizes(size))
    gathered = train.weight_bytes if shards > 1 else 0
    return int(STATE_COPIES * train.weight_bytes // shards + gathered + kept)


def _training(spec: Spec) -> Cost:
    return cost(graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN])


def _sizes(size: BatchSize) -> dict[str, int]:
    """Lengths of both sides, padding included."""
    padded = size.padded_tokens / (size.source_tokens + size.target_tokens)
    tokens = {"source": size.source_tokens, "target": size.target_tokens}
    return {side: max(1, round(padded * count / size.rows)) for side, count in tokens.items()}


def full_batch(spec: Spec, length: int) -> BatchSize:
    """Of a batch that uses the budget up with sentences of this many tokens."""
    rows, _ = pairs(spec, length)
    return BatchSize(rows, rows * length, rows * length, 2 * rows * length)

"""What a training will need, known before it starts (and without torch, so that `zoo plan` is quick)."""

from __future__ import annotations

from dataclasses import dataclass

from compiler import Purpose, cost, graphs
from specs import Spec

KEPT_OPTIMISERS = 2
"""Checkpoints that keep the optimiser's state; older ones are weights alone."""
STATE_COPIES = 4
"""Weights, gradients and Adam's two moments."""


@dataclass(frozen=True)
class Footprint:
    """Bytes, and FLOPs of the matrix products."""

    state_bytes: int
    """Weights, gradients and both moments in memory."""
    activation_bytes: int
    """Of one part of a full batch whose sentences have `length` tokens: what is kept for the backward pass."""
    disk_bytes: int
    """Checkpoints at their most, the one being written included, and the averaged weights."""
    step_flops: int
    """Forward and backward, of a full batch."""


def footprint(spec: Spec, length: int = 27) -> Footprint:
    """Of training by this spec, taking every sentence of both sides to have `length` tokens."""
    training = spec.training
    train = cost(graphs(spec, [Purpose.TRAIN])[Purpose.TRAIN])
    batch, part = pairs(spec, length)
    weights, best = train.weight_bytes, training.dev_score is not None
    return Footprint(
        state_bytes=STATE_COPIES * weights,
        activation_bytes=train.activation_bytes(batch=part, source=length, target=length),
        disk_bytes=(max(training.average, KEPT_OPTIMISERS) + 2 + best) * weights + (KEPT_OPTIMISERS + 1) * 2 * weights,
        step_flops=3 * train.flops(batch=batch, source=length, target=length),
    )


def pairs(spec: Spec, length: int) -> tuple[int, int]:
    """How many pairs of this length a full batch has, and each of the parts that are computed one after another."""
    training = spec.training
    batch = max(1, min(training.source_tokens, training.target_tokens) // length)
    return batch, -(-batch // training.accumulation_steps)

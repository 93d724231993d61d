"""Estimate memory, disk space and FLOPs of training. This module does not import torch, so that `zoo plan` is fast."""

from __future__ import annotations

from dataclasses import dataclass

import compiler
from specs import Spec

KEPT_OPTIMISERS = 2
"""Number of the newest checkpoints that keep the optimiser's state. Older ones contain only weights."""
STATE_COPIES = 4
"""Number of tensors per weight during training: the weight, its gradient and Adam's two moments."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory and disk space that a training run needs, and the FLOPs of its matrix products."""

    state_bytes: int
    """Memory for weights, gradients and Adam's two moments."""
    activation_bytes: int
    """Memory for the activations that the backward pass needs, for one accumulation step of a full batch."""
    disk_bytes: int
    """Maximum total size of all checkpoints and the averaged weights, while a further checkpoint is being written."""
    step_flops: int
    """FLOPs of the forward and backward pass over a full batch."""


def estimate_memory(spec: Spec, length: int = 27) -> MemoryEstimate:
    """Estimate memory, disk space and FLOPs of training, if all source and target sentences have `length` tokens."""
    training = spec.training
    train = compiler.cost(compiler.graphs(spec, [compiler.Purpose.TRAIN])[compiler.Purpose.TRAIN])
    batch, part = batch_rows(spec, length)
    weights, best = train.weight_bytes, training.dev_score is not None
    return MemoryEstimate(
        state_bytes=STATE_COPIES * weights,
        activation_bytes=train.activation_bytes(batch=part, source=length, target=length),
        disk_bytes=(max(training.average, KEPT_OPTIMISERS) + 2 + best) * weights + (KEPT_OPTIMISERS + 1) * 2 * weights,
        step_flops=3 * train.flops(batch=batch, source=length, target=length),
    )


def batch_rows(spec: Spec, length: int) -> tuple[int, int]:
    """Return the number of sentence pairs of `length` tokens in a full batch, and in one of its accumulation steps."""
    training = spec.training
    batch = max(1, min(training.source_tokens, training.target_tokens) // length)
    return batch, -(-batch // training.accumulation_steps)

"""The learning rate (5.3)."""

from __future__ import annotations

from math import sqrt

from specs import Spec


def learning_rate(step: int, spec: Spec) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), where the first step is 1."""
    training = spec.training
    rise, fall = step / (training.warmup_steps * sqrt(training.warmup_steps)), 1 / sqrt(step)
    return training.learning_rate / sqrt(spec.architecture.d_model) * min(rise, fall)

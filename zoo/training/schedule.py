"""The learning rate (5.3)."""

from __future__ import annotations

from specs import Spec


def learning_rate(step: int, spec: Spec) -> float:
    """factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5), where the first step is 1."""
    training = spec.training
    rise, fall = step * float(training.warmup_steps) ** -1.5, float(step) ** -0.5
    return training.learning_rate * spec.architecture.d_model**-0.5 * min(rise, fall)

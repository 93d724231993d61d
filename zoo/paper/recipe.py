"""Derivations for the claims of sections 5 and 6.1 about training times and the learning rate."""

from __future__ import annotations

from math import isclose

import specs
from zoo.paper.claims import power_of_ten, printed_number
from zoo.training.step import learning_rate

_UNIT_SECONDS = {"hours": 3600.0, "days": 86400.0}


def training_time(spec: str, unit: str) -> tuple[float, str]:
    """Derive the time of a complete training run in hours or days from the number of steps and the time of a step."""
    steps, seconds = specs.load(spec).training.steps, _step_seconds(spec)
    time = steps * seconds / _UNIT_SECONDS[unit]
    return time, f"{steps:,} steps x {seconds} s = {time:.3g} {unit}"


def checkpoint_minutes(spec: str) -> tuple[float, str]:
    """Derive the time between two checkpoints in minutes."""
    steps, seconds = specs.load(spec).training.checkpoint_steps, _step_seconds(spec)
    return steps * seconds / 60, f"{spec} writes one every {steps:,} steps of {seconds} s"


def cost_by_steps(spec: str) -> tuple[float, str]:
    """Derive a model's training cost in FLOPs from the number of steps and the time of a step."""
    seconds = specs.load(spec).training.steps * _step_seconds(spec)
    return _cost(seconds, f"{seconds:,.0f} s of steps")


def cost_by_time(time: str) -> tuple[float, str]:
    """Derive a model's training cost in FLOPs from its total training time, such as "12 hours"."""
    number, unit = time.split()
    return _cost(float(number) * _UNIT_SECONDS[unit], time)


def _cost(seconds: float, time: str) -> tuple[float, str]:
    gpus, teraflops = int(printed_number("recipe.devices")), printed_number("table2.p100")
    cost = seconds * gpus * teraflops * 1e12
    return cost, f"{time} x {gpus} P100 x {teraflops} TFLOPS = {power_of_ten(cost)}"


def _step_seconds(spec: str) -> float:
    """Return the time of a training step in seconds, from section 5.2."""
    return printed_number(f"recipe.step-{spec}")


def learning_rate_rises() -> tuple[bool, str]:
    """Decide whether the learning rate rises linearly during the warm-up."""
    spec, first = specs.load("base"), learning_rate(1, specs.load("base"))
    linear = all(isclose(learning_rate(step, spec), step * first) for step in range(1, spec.training.warmup_steps + 1))
    return linear, f"each of {spec.training.warmup_steps:,} steps adds {first:.4g} to the learning rate"


def learning_rate_falls() -> tuple[bool, str]:
    """Decide whether the learning rate falls with the inverse square root of the step after the warm-up."""
    spec = specs.load("base")
    warmup, steps = spec.training.warmup_steps, spec.training.steps
    peak = learning_rate(warmup, spec)
    roots = all(
        isclose(learning_rate(step, spec), peak * (warmup / step) ** 0.5) for step in range(warmup, steps + 1, 1000)
    )
    return roots, f"from {peak:.4g} at step {warmup:,} to {learning_rate(steps, spec):.4g} at step {steps:,}"


def learning_rate_peak() -> tuple[bool, str]:
    """Decide whether the learning rate has the peak that the paper's formula gives."""
    spec = specs.load("base")
    a, warmup = spec.architecture, spec.training.warmup_steps
    best = max(range(1, 3 * warmup), key=lambda step: learning_rate(step, spec))
    rate = learning_rate(best, spec)
    return best == warmup and isclose(rate, (a.d_model * warmup) ** -0.5), f"{rate:.4g} at step {best:,}"

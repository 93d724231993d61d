"""How fast it trains: whole updates in bfloat16 on 25,000 source and 25,000 target tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import torch

from specs import Spec
from tests.benchmarks.gpu_parts.setting import Figures, Setting
from zoo.report import Progress, Report
from zoo.training.benchmarks import benchmark_training

STEPS = {"base": 100_000, "big": 300_000}
MARKS = {"base": 860_000, "big": 250_000}
"""Target tokens a second that are to be passed."""


def training(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Base first; eager beside the compiled layers for base alone."""
    for name, backend in (("base", "eager"), ("base", "inductor"), ("big", "inductor")):
        if setting.toy and (name, backend) != ("base", "eager"):
            yield f"{name}, {backend}", {"absent": "at full size only"}
            continue
        sections = {"compilation": {"backend": backend}}
        spec = setting.spec(name, **sections)
        training = spec.training.model_copy(update={"precision": "bfloat16"})
        yield f"{name}, {backend}", _measured(setting, spec.model_copy(update={"training": training}), name)
    yield "compiled whole", {"absent": "layers are compiled, each kind once: there is no other way to build it"}
    yield (
        "the whole step as one CUDA graph",
        {
            "absent": "the loss takes what is not padding by a mask, for whose count the host waits, and no batch has "
            "the shape of the one before"
        },
    )


def _measured(setting: Setting, spec: Spec, name: str) -> Figures:
    if setting.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(setting.device)
    compiled = _Compiled()
    steps, rounds = (1, 1) if setting.toy else (10, 3)
    speed = benchmark_training(spec, steps=steps, rounds=rounds, device=str(setting.device), report=compiled)
    step, target = speed.step_seconds.median, speed.target_tokens_per_second.median
    return {
        "target tokens/s": target,
        "source tokens/s": speed.source_tokens_per_second.median,
        "of the mark": target / MARKS[name],
        "of the peak": speed.utilisation.median,
        "step, s": step,
        "first steps, s": speed.first_seconds - steps * step,
        "compiled after them": compiled.later,
        "padding": speed.padding,
        "memory, GB": speed.memory_bytes / 1e9,
        f"{STEPS[name]:,} steps, h": STEPS[name] * step / 3600,
        "loss": speed.loss,
    }


class _Compiled(Report):
    """Counts the graphs that torch.compile makes while the rounds run, which begin when everything was met once."""

    def __init__(self) -> None:
        self.later = 0

    def progress(self, label: str, total: int | None, unit: str) -> Progress:
        return _Counter(self) if label == "train" else Progress()


class _Counter(Progress):
    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    def __enter__(self) -> Self:
        self._before = _count()
        return self

    def __exit__(self, *error: object) -> None:
        self._compiled.later = _count() - self._before


def _count() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"] if hasattr(torch, "_dynamo") else 0

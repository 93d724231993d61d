"""Measure the speed of training steps in bfloat16 with up to 25,000 source and 25,000 target tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from compiler import Purpose, build_module
from specs import Spec
from tests.benchmarks.gpu_parts.profile import profiled
from tests.benchmarks.gpu_parts.setting import Figures, Setting
from tests.examples import changed
from zoo.data.batches import Examples
from zoo.data.training_set import TrainingSet
from zoo.report import Report
from zoo.training.benchmarks import benchmark_training, random_pairs
from zoo.training.distributed import Processes
from zoo.training.step import TrainStep

STEPS = {"base": 100_000, "big": 300_000}
MARKS = {"base": 900_000, "big": 300_000}
"""Target speed, in target tokens per second."""
KERNEL_BY_KERNEL = {"backend": "eager", "disabled_passes": ["pack_rows"]}
"""Compiler options that disable packed rows, so that the host launches each kernel."""


def training(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Measure `base` and `big` with one CUDA graph per step, then `base` with each kernel launched by the host."""
    for name in MARKS:
        if setting.toy and name != "base":
            yield name, {"absent": "at full size only"}
            continue
        spec = changed(setting.spec(name), "training", precision="bfloat16")
        yield name, _measured(setting, spec, name)
        yield f"{name}, kernels of a step", _kernels(setting, spec)
    spec = changed(setting.spec("base", compilation=KERNEL_BY_KERNEL), "training", precision="bfloat16")
    yield "base, kernel by kernel", _measured(setting, spec, "base", steps=3)


def _measured(setting: Setting, spec: Spec, name: str, steps: int = 10) -> Figures:
    if setting.cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(setting.device)
    steps, rounds = (1, 1) if setting.toy else (steps, 3)
    speed = benchmark_training(spec, steps=steps, rounds=rounds, device=str(setting.device))
    step, target = speed.step_seconds.median, speed.target_tokens_per_second.median
    return {
        "target tokens/s": target,
        "source tokens/s": speed.source_tokens_per_second.median,
        "of the mark": target / MARKS[name],
        "of the peak": speed.utilisation.median,
        "step, s": step,
        "first steps, s": speed.first_seconds - steps * step,
        "padding": speed.padding,
        "memory, GB": speed.memory_bytes / 1e9,
        f"{STEPS[name]:,} steps, h": STEPS[name] * step / 3600,
        "loss": speed.loss,
    }


def _kernels(setting: Setting, spec: Spec) -> Figures:
    """Measure the time of each GPU kernel in three training steps, after the CUDA graph was recorded."""
    if not setting.cuda:
        return {"absent": "kernels are those of a GPU"}
    program = build_module(spec, device=str(setting.device))
    train_step = TrainStep(spec, program, Processes(str(setting.device)), Report())
    with TemporaryDirectory() as folder:
        store = random_pairs(spec, 1, Path(folder))
        data = TrainingSet(changed(spec, "corpus", train=()), store, packed=Purpose.UPDATE in program.graphs)
        batch = Examples.from_store(store, data.epoch_batches(0)[0]).to_batch()

    def steps() -> None:
        for number in range(1, 4):
            train_step(number, batch)

    steps()
    return profiled(setting, f"training {spec.name}", steps, 3)

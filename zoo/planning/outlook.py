"""What a training by a spec will take on a device of this machine, before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from compiler import Purpose, find_device, graphs
from compiler.backends import BuildRequest, choose_backend
from compiler.switches import keeps_memory, matrix_library
from specs import Spec
from zoo.planning.footprint import STATE_COPIES
from zoo.planning.forecast import forecast, full_batch
from zoo.planning.room import weight_bytes
from zoo.planning.sample import sampled
from zoo.report import Report
from zoo.system import ram
from zoo.system.peak import pace


@dataclass(frozen=True)
class Outlook:
    """Of a training in one process whose sentences all have the plan's length."""

    device: str
    backend: str
    precision: str
    matrix_library: str | None
    """Of float32 products on a CPU."""
    keeps_memory: bool | None
    """Whether freed memory stays with the process, on a CPU."""
    float32_seconds: Mapping[str, float]
    """Of a forward and backward pass over a sample, by library: empty where none was measured."""
    slowdown: float | None
    """How many times as long bfloat16 takes as float32, where this processor only emulates it."""
    flops: float
    """A second, of a large matrix product: measured."""
    bytes: float
    """A second, that a copy reads and writes: measured."""
    steps: int
    step_seconds: float
    seconds: float
    memory_bytes: int
    device_bytes: int
    """Memory that there is: the GPU's, or the machine's."""
    fits: bool
    """Whether it holds all of it for a full batch; else several processes may."""


def outlook(spec: Spec, length: int, device: str, report: Report | None = None) -> Outlook:
    """Measures the device for a third of a second, and a CPU for some seconds unless what was found there is kept.

    Raises ZooError where the device is not there.
    """
    found, precision = find_device(device), spec.training.precision
    able, cpu = pace(torch.device(found), precision), found == "cpu"
    held = ram.most_used(torch.device(found))
    order = BuildRequest(spec, graphs(spec, [Purpose.TRAIN], found), {}, found)
    backend = choose_backend(spec.compilation.backend, order).name
    # Asked of a model that the machine has no room for, a sample would be the end of this process.
    sample = None
    if cpu and backend == "eager" and ram.fits(STATE_COPIES * weight_bytes(spec), torch.device(found)):
        sample = sampled(spec, report or Report())
    expected = forecast(spec, full_batch(spec, length), spec.training.steps, able, held, sample=sample)
    return Outlook(
        device=found,
        backend=backend,
        precision=precision,
        matrix_library=sample.matrix_library if sample else matrix_library() if cpu else None,
        float32_seconds=sample.float32 if sample else {},
        slowdown=sample.slowdown if sample else None,
        keeps_memory=keeps_memory() if cpu else None,
        flops=able.flops,
        bytes=able.bytes,
        steps=spec.training.steps,
        step_seconds=expected.step_seconds,
        seconds=expected.seconds,
        memory_bytes=expected.memory_bytes,
        device_bytes=ram.there(torch.device(found)),
        fits=ram.fits(expected.memory_bytes, torch.device(found)),
    )

"""What a training by a spec will take on a device of this machine, before it starts."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from compiler import Purpose, find_device, graphs
from compiler.backends import Order, choose
from compiler.switches import keeps_memory, matrix_library
from specs import Spec
from zoo.machine import ram
from zoo.machine.peak import pace
from zoo.planning.forecast import forecast, full_batch


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


def outlook(spec: Spec, length: int, device: str) -> Outlook:
    """Measures the device for a third of a second. Raises ZooError where it is not there."""
    found, precision = find_device(device), spec.training.precision
    able, cpu = pace(torch.device(found), precision), found == "cpu"
    held = ram.most_used(torch.device(found))
    batch = full_batch(spec, length)
    expected = forecast(spec, batch, spec.training.steps, able, held)
    order = Order(spec, graphs(spec, [Purpose.TRAIN], found), {}, found)
    return Outlook(
        device=found,
        backend=choose(spec.compilation.backend, order).name,
        precision=precision,
        matrix_library=matrix_library() if cpu else None,
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

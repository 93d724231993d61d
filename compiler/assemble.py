"""From a spec to a program that runs: lower, pass, emit, compile, take weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from compiler.backends import choose
from compiler.emit import emit
from compiler.graph import Purpose
from compiler.host import use_fast_float32
from compiler.passes import TRANSLATE, graphs
from compiler.program import Program
from specs import Spec, ZooError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def build(
    spec: Spec,
    purposes: Iterable[Purpose] = TRANSLATE,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
    precision: str = "float32",
    backend: str | None = None,
) -> Program:
    """A program for these purposes, with these weights or, without any, with those of before training.

    `device` is auto, cpu, cuda or cuda:N; `backend` overrides the spec's. Raises ZooError where the weights are not
    those of the spec, or where the device is not there.
    """
    device = find_device(device)
    lowered = graphs(spec, purposes)
    code = emit(lowered.values())
    functions = choose(backend or spec.compilation.backend, device)(code)
    program = Program(spec, lowered, functions, str(code))
    use_fast_float32()
    program.to_empty(device=device).to(PRECISIONS[precision])
    if weights is None:
        program.initialise(spec.training.seed)
    else:
        program.load(weights)
    return program


def find_device(name: str) -> str:
    """`auto` is the GPU where there is one. Raises ZooError for a device that is not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ZooError(f"`{name}` is not a device", hint="devices are `auto`, `cpu`, `cuda`, `cuda:1` ...") from None
    kind = device.type
    if kind == "cuda" and not torch.cuda.is_available():
        raise ZooError("this machine has no GPU that torch can use", hint="leave `--device` out, or say `cpu`")
    if kind == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ZooError(f"there is no `{name}`", hint=f"this machine has cuda:0 to cuda:{torch.cuda.device_count() - 1}")
    if kind not in ("cpu", "cuda"):
        raise ZooError(
            f"`{name}` is not a device that zoo knows", hint="devices are `auto`, `cpu`, `cuda`, `cuda:1` ..."
        )
    return name

"""From a spec to a program that runs: lower, pass, and hand the graphs with their weights to a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.backends import choose
from compiler.backends.backend import Order
from compiler.graph import Purpose, stored
from compiler.initial import initial_weights
from compiler.passes import TRANSLATE, graphs
from compiler.weights import check
from specs import Spec, ZooError

PRECISIONS = ("float32", "bfloat16", "int8")


def build(
    spec: Spec,
    purposes: Iterable[Purpose] = TRANSLATE,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
    precision: str | None = None,
    backend: str | None = None,
    folder: Path | None = None,
) -> Any:
    """A program for these purposes, with these weights or, without any, with those of before training.

    `device` is auto, cpu, cuda or cuda:N; `precision` and `backend` override the spec's; `folder` is where compiled
    artefacts are kept. The program is a `compiler.Program`, or answers to the same verbs. On a CPU it may share the
    memory of the weights, which then must not change. Raises ZooError where the weights are not those of the spec, or
    where device or backend are not there or cannot express the spec.
    """
    device = find_device(device)
    if precision not in (None, *PRECISIONS):
        raise ZooError(f"`{precision}` is not a precision", hint=f"it is one of {', '.join(PRECISIONS)}")
    chosen = {key: value for key, value in (("precision", precision), ("backend", backend)) if value is not None}
    spec = spec.model_copy(update={"compilation": spec.compilation.model_copy(update=chosen)})
    lowered = graphs(spec, purposes, device)
    if weights is None:
        weights = initial_weights(spec, lowered)
    check(weights, stored(lowered.values()), spec.name)
    weights = {name: tensor.float() for name, tensor in weights.items()}  # copies what a file has otherwise
    order = Order(spec, lowered, weights, device, folder)
    taken = choose(spec.compilation.backend, order)
    named = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"backend": taken.name})})
    return taken.build(replace(order, spec=named))


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

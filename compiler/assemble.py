"""From a spec to a program that runs: lower, pass, and hand the graphs with their weights to a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from compiler.backends import Backend, built, choose
from compiler.backends.backend import Order
from compiler.emitted import EmittedProgram
from compiler.graph import Purpose, stored_tensors
from compiler.initialization import initial_weights
from compiler.options import compile_options
from compiler.passes import TRANSLATE, graphs
from compiler.program import Program
from compiler.weights import check_weights
from specs import Spec, ZooError


def build(
    spec: Spec,
    purposes: Iterable[Purpose] = TRANSLATE,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
    precision: str | None = None,
    backend: str | None = None,
    folder: Path | None = None,
) -> Program:
    """A program for these purposes, with these weights or, without any, with those of before training.

    `device` is auto, cpu, cuda or cuda:N; `precision` and `backend` override the spec's; `folder` is where compiled
    artefacts are kept. On a CPU it may share the memory of the weights, which then must not change. Raises ZooError
    where the weights are not those of the spec, or where device or backend are not there or cannot express the spec.
    """
    taken, order = ordered(
        spec, purposes, weights=weights, device=device, precision=precision, backend=backend, folder=folder
    )
    return built(backend or spec.compilation.backend, taken, order)


def trainable(
    spec: Spec,
    purposes: Iterable[Purpose] = (Purpose.TRAIN,),
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
) -> EmittedProgram:
    """As `build`, a module with weights of its own, in float32. One of the purposes must be to train."""
    taken, order = ordered(spec, purposes, weights=weights, device=device)
    if Purpose.TRAIN not in order.graphs or taken.trainable is None:
        raise ValueError(f"nothing is to be trained among {', '.join(order.graphs)}")
    return taken.trainable(order)


def ordered(
    spec: Spec,
    purposes: Iterable[Purpose] = TRANSLATE,
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
    precision: str | None = None,
    backend: str | None = None,
    folder: Path | None = None,
) -> tuple[Backend, Order]:
    """The backend that `build` takes, and what it is to build. Raises ZooError as `build` does."""
    device, purposes = find_device(device), tuple(purposes)
    lowered = graphs(spec, purposes, device, precision)
    if weights is None:
        weights = initial_weights(spec, lowered)
    check_weights(weights, stored_tensors(lowered.values()), spec.name)
    weights = {name: tensor.float() for name, tensor in weights.items()}  # copies what a file has otherwise
    order = Order(spec, lowered, weights, device, compile_options(spec, purposes, device, precision).precision, folder)
    return choose(backend or spec.compilation.backend, order), order


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
    return "cpu" if kind == "cpu" else name  # there is one

"""Functions that build a program: lower the spec to graphs, run the passes, and call a backend."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from compiler.backends import Backend, choose_backend, eager
from compiler.backends.backend import BuildRequest
from compiler.backends.eager import kernel_refusal
from compiler.emitted import EmittedProgram
from compiler.graph import Graphs, Purpose, stored_tensors
from compiler.kernels.program import PackedModel
from compiler.options import BackendOptions, choose_precision
from compiler.passes import TRANSLATE, graphs
from compiler.program import Program
from compiler.weights import check_weights
from specs import Spec, ZooError


class BuildOptions(BackendOptions, total=False):
    """Keyword arguments of `build`. `device` defaults to "cpu", and all other arguments default to None."""

    weights: Mapping[str, Tensor] | None
    """The tensors of a weights file, keyed by name. If None, use random initial weights, as before training."""
    folder: Path | None
    """The folder in which compiled files are cached. If None, use a temporary folder, which is deleted at exit."""
    packed: PackedModel | None
    """Weights that the `native` backend has already packed. If None, the backend packs `weights`."""


def build(spec: Spec, purposes: Iterable[Purpose] = TRANSLATE, **options: Unpack[BuildOptions]) -> Program:
    """Compile the model that a spec describes, and return the compiled model.

    If the backend is `auto`, set by an option or by the spec, and the chosen backend fails, warn and use the `eager`
    backend instead. Possible causes are a full disk or a broken compiler.

    On a CPU, the compiled model may share memory with the tensors in the option `weights`. Do not change these tensors
    afterwards.

    Args:
        spec: The model's spec.
        purposes: The purposes of the compiled model, such as encoding, decoder steps and scoring.
        **options: See `BuildOptions`.

    Raises:
        ZooError: The weights do not fit the spec, or the device or backend is not available or cannot run the model.
    """
    chosen, request = prepare_build(spec, purposes, **options)
    try:
        return chosen.build(request)
    except (ZooError, OSError) as error:
        if (options.get("backend") or spec.compilation.backend) != "auto" or chosen is eager:
            raise
        problem = error.summary if isinstance(error, ZooError) else error
        warnings.warn(f"{problem}: using the slower `eager` backend instead", RuntimeWarning, stacklevel=2)
        return eager.build(request)


def build_module(
    spec: Spec,
    purposes: Iterable[Purpose] = (Purpose.TRAIN,),
    *,
    weights: Mapping[str, Tensor] | None = None,
    device: str = "cpu",
) -> EmittedProgram:
    """Build a compiled model that can be trained: a torch module with a float32 copy of the weights.

    The arguments have the same meaning as in `build`. On a GPU, the compiled model also supports the purpose UPDATE if
    a training step can run as one CUDA graph (see `update_refusal`).

    Raises:
        ValueError: The purposes do not include TRAIN.
        ZooError: See `build`.
    """
    purposes = tuple(purposes)
    if find_device(device).startswith("cuda") and Purpose.TRAIN in purposes and update_refusal(spec) is None:
        purposes = tuple(dict.fromkeys((*purposes, Purpose.UPDATE)))
    backend = "eager" if Purpose.UPDATE in purposes else None
    chosen, request = prepare_build(spec, purposes, weights=weights, device=device, backend=backend)
    if Purpose.TRAIN not in request.graphs:
        raise ValueError(f"the purposes {', '.join(request.graphs)} do not include `{Purpose.TRAIN}`: add it")
    program = chosen.build(request)
    assert isinstance(program, EmittedProgram)
    return program


def update_refusal(spec: Spec) -> str | None:
    """Return the reason why a training step cannot run as one CUDA graph on a GPU, or None if it can."""
    if spec.compilation.backend not in ("auto", "eager"):
        return f"`compilation.backend` is `{spec.compilation.backend}`"
    if "pack_rows" in spec.compilation.disabled_passes:
        return "the `pack_rows` pass is disabled"
    return kernel_refusal(lambda: graphs(spec, (Purpose.TRAIN, Purpose.UPDATE)))


def prepare_build(
    spec: Spec, purposes: Iterable[Purpose] = TRANSLATE, **options: Unpack[BuildOptions]
) -> tuple[Backend, BuildRequest]:
    """Return the backend that `build` would choose, and the request that `build` would pass to this backend.

    Args:
        spec: The model's spec.
        purposes: The purposes of the compiled model.
        **options: See `BuildOptions`.

    Raises:
        TypeError: A keyword argument is not an option in `BuildOptions`.
        ZooError: See `build`.
    """
    if unknown := options.keys() - BuildOptions.__annotations__.keys():
        raise TypeError(f"`{min(unknown)}` is not an option: choose from {', '.join(BuildOptions.__annotations__)}")
    device, purposes = find_device(options.get("device", "cpu")), tuple(purposes)
    precision = choose_precision(spec, purposes, options.get("precision"))
    optimised, weights = graphs(spec, purposes, device, precision), options.get("weights")
    if weights is None:
        weights = initial_weights(spec, optimised)
    check_weights(weights, stored_tensors(optimised.values()), spec.name)
    weights = {name: tensor.float() for name, tensor in weights.items()}
    request = BuildRequest(spec, optimised, weights, device, precision, options.get("folder"), options.get("packed"))
    return choose_backend(options.get("backend") or spec.compilation.backend, request), request


def initial_weights(spec: Spec, graphs: Graphs) -> dict[str, Tensor]:
    """Return randomly initialised weights for the given graphs, in the layout of a weights file."""
    return {name: tensor.initial_value(spec) for name, tensor in stored_tensors(graphs.values()).items()}


def find_device(name: str) -> str:
    """Check that a device exists, and return its name in torch, such as `cuda:1`.

    For `auto`, return `cuda` if torch can use a GPU, otherwise `cpu`.

    Raises:
        ZooError: The device is unknown, not supported, or not present on this machine.
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    hint = "choose `auto`, `cpu`, `cuda`, or a specific GPU, such as `cuda:1`"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ZooError(f"`{name}` is not a device", hint=hint) from None
    if device.type == "cpu":
        return "cpu"  # `cpu:1` is the same device
    if device.type != "cuda":
        raise ZooError(f"the device `{name}` is not supported", hint=hint)
    if not torch.cuda.is_available():
        raise ZooError("this machine has no GPU that torch can use", hint="omit `--device`, or use `--device cpu`")
    if (device.index or 0) >= torch.cuda.device_count():
        hint = f"use a number below {torch.cuda.device_count()}, because GPUs are numbered from 0"
        raise ZooError(f"this machine has no GPU `{name}`", hint=hint)
    return str(device)

"""What a checkpoint holds: weights and moments, whole, in the layout of a weights file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from compiler import EmittedProgram
from zoo.training.sharding import gathered, like, own

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Tensors:
    """On the CPU."""

    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]
    """Adam's two of each weight, by `MOMENT/NAME`."""


def gather(program: EmittedProgram, optimiser: torch.optim.Optimizer, *, keep: bool) -> Tensors | None:
    """Those of now, or None, if this process is not to `keep` them. Where each holds a part, all have to ask."""
    parameters = dict(program.named_parameters())
    found: dict[str, dict[str, Tensor]] = {}
    for kind in ("", *MOMENTS):
        found[kind] = {}
        for name, parameter in parameters.items():
            tensor = gathered(optimiser.state[parameter][kind] if kind else parameter.detach())
            if keep:
                found[kind][name] = tensor.cpu()
    if not keep:
        return None
    moments = {f"{kind}/{n}": t for kind in MOMENTS for n, t in program.in_file_layout(found[kind]).items()}
    return Tensors(program.in_file_layout(found[""]), moments)


def put(tensors: Tensors, updates: int, program: EmittedProgram, optimiser: torch.optim.Optimizer) -> None:
    """Where they belong, after so many updates. Raises ZooError where names or shapes are not the program's."""
    parameters = dict(program.named_parameters())
    for name, tensor in program.in_program_layout(tensors.weights).items():
        with torch.no_grad():
            parameters[name].copy_(like(parameters[name], tensor))
    for parameter in parameters.values():
        optimiser.state[parameter] = {"step": torch.tensor(float(updates), device=parameter.device)}
    for kind in MOMENTS:
        named = {name.partition("/")[2]: t for name, t in tensors.moments.items() if name.startswith(f"{kind}/")}
        for name, tensor in program.in_program_layout(named).items():
            optimiser.state[parameters[name]][kind] = like(parameters[name], tensor)


def are_finite(parameters: list[nn.Parameter]) -> bool:
    """Whether what this process holds of them is."""
    return all(bool(torch.isfinite(own(parameter.detach())).all()) for parameter in parameters)

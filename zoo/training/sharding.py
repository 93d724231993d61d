"""Weights, gradients and moments of a training spread over its processes, where one device cannot hold them all."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, TypeGuard

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from compiler import EmittedProgram
from specs import Spec
from zoo.data.batches import BatchSize
from zoo.planning.forecast import AROUND, needed
from zoo.system import ram
from zoo.training.processes import Processes

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_needed(spec: Spec, mean: BatchSize, processes: Processes) -> bool:
    """Whether these processes train what does not fit the device of one of them. All of them have to ask.

    `mean` is the size of a batch, which they share.
    """
    taken = AROUND + needed(spec, mean.share(processes.count))
    (wanted,) = processes.any(not ram.fits(taken, processes.device))
    return wanted


def shard(program: EmittedProgram, processes: Processes) -> None:
    """Leaves each process its part of every parameter; a layer's are brought together while it is computed.

    What belongs to no layer (the embedding, keys and values of the memory) is together from the forward to the end of
    the backward pass. Gradients come out as the means over the processes, which all have to compute as many passes.
    """
    # Loaded where it is needed: it takes half as long as all that a training loads besides.
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    mesh = init_device_mesh(processes.device.type, (processes.count,))
    for layer in program.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(program, mesh=mesh)


def gathered(tensor: Tensor) -> Tensor:
    """All of a tensor, of which each process may hold a part; then all of them have to ask."""
    return tensor.full_tensor() if _is_spread(tensor) else tensor


def own(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor."""
    return tensor.to_local() if _is_spread(tensor) else tensor


def like(parameter: nn.Parameter, tensor: Tensor) -> Tensor:
    """What this process is to hold of a whole tensor that every process has, where `parameter` is."""
    tensor = tensor.to(parameter.device)
    if not _is_spread(parameter):
        return tensor
    tensors = import_module("torch.distributed.tensor")
    found: Tensor = tensors.distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)
    return found


def _is_spread(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether each process holds a part of it; none does where nobody has loaded what such a tensor is made of."""
    spread = sys.modules.get("torch.distributed.tensor")
    return spread is not None and isinstance(tensor, spread.DTensor)

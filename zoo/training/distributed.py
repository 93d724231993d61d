"""Connect the processes that train together, and shard weights, gradients and moments across them.

The processes are started by torchrun, on one machine or on several. Without torchrun there is one process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, TypeGuard, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.device_mesh import init_device_mesh

from compiler import EmittedProgram, find_device
from specs import Spec, ZooError
from zoo.data.batches import BatchSize
from zoo.planning.memory_estimate import training_bytes, update_bytes
from zoo.system import memory

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

_TIMEOUT = timedelta(days=7)
"""Maximum time to wait for the first process, which alone prepares the corpus and computes dev scores. It can be long,
because the launcher (torchrun) already detects that a process has died."""
_PORT_KEY, _CONNECT_SECONDS, _ATTEMPT = "zoo/port", 300, timedelta(seconds=3)
"""Key under which the first process publishes its port, the total time for which other processes try to connect to it
(in seconds), and the timeout of one attempt."""
_USABLE_SHARE = 0.9
"""Maximum fraction of a device's memory that training may use without sharding."""
_DISCONNECTED = re.compile("connection (closed by peer|reset|refused)|broken pipe|socket|timed out", re.IGNORECASE)
"""Messages in torch's errors about a lost connection to another process."""


class Processes:
    """The processes that train together, with the rank and device of this process.

    Decisions about the run (stop, checkpoint, end) are exchanged on the CPU, so that no GPU has to be synchronised.
    """

    def __init__(self, device: str, *, rank: int = 0, count: int = 1, local_rank: int = 0) -> None:
        """Store the device and rank of this process. To connect several processes, call `join_processes` instead."""
        self.device, self.rank, self.count, self._local_rank = torch.device(device), rank, count, local_rank
        self._control = dist.new_group(backend="gloo", timeout=_TIMEOUT) if count > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the first process, which writes checkpoints and the log."""
        return self.rank == 0

    @property
    def first_on_machine(self) -> bool:
        """Whether this is the first process on its machine."""
        return self._local_rank == 0

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Return, for each flag, whether it is True in any process. All processes have to call this method."""
        return tuple(map(bool, self.maximum(*flags)))

    def all_equal(self, number: int) -> bool:
        """Return whether all processes pass the same number. All processes have to call this method."""
        largest, negative_smallest = self.maximum(number, -number)
        return largest == -negative_smallest

    def maximum(self, *numbers: int) -> Sequence[int]:
        """Return the maximum of each number over all processes. All processes have to call this method."""
        if self._control is None:
            return numbers
        values = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(values, dist.ReduceOp.MAX, group=self._control)
        return cast(list[int], values.tolist())

    def all_reduce(self, sums: Tensor) -> Tensor:
        """Replace a tensor with its sum over all processes, in place, and return it."""
        if self.count > 1:
            dist.all_reduce(sums)
        return sums

    @contextmanager
    def first_then_others(self, *, on_each_machine: bool = False) -> Iterator[None]:
        """Run the `with` block in the first process (or the first on each machine), and then in all other processes."""
        early = self.first_on_machine if on_each_machine else self.first
        if not early:
            self._barrier()
        yield
        if early:
            self._barrier()

    def _barrier(self) -> None:
        if self._control is not None:
            dist.barrier(group=self._control)


@contextmanager
def join_processes(device: str) -> Iterator[Processes]:
    """Connect the processes that torchrun started, and yield them. Each process uses its own GPU, or all use the CPU.

    Raises:
        ZooError: There are more processes than GPUs, or another process has ended.
    """
    count = int(os.environ["WORLD_SIZE"]) if dist.is_torchelastic_launched() else 1
    name = find_device(device)
    if count == 1:
        yield Processes(name)
        return
    local = int(os.environ["LOCAL_RANK"])
    if name.startswith("cuda"):
        name = _gpu_of_process(device, local)
        torch.cuda.set_device(name)
    try:
        rank = int(os.environ["RANK"])
        backend = "nccl" if name.startswith("cuda") else "gloo"
        dist.init_process_group(backend, store=_store(rank, count), rank=rank, world_size=count)
        yield Processes(name, rank=rank, count=count, local_rank=local)
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not _DISCONNECTED.search(str(error)):
            raise
        problem = "another process of this training run has ended"
        hint = "read the output of that process; to resume automatically, use `torchrun --max-restarts N`"
        raise ZooError(problem, hint=hint, exit_code=1) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _store(rank: int, count: int) -> TCPStore:
    """Return a key-value store for the `count` processes that train together, hosted by the first process.

    torchrun also has a store, which outlives the worker processes. Restarted workers would find the addresses of dead
    processes in it (https://github.com/pytorch/pytorch/issues/135712), so torchrun's store is used only to publish the
    port of the new store. A port from an earlier start is harmless, because no process listens on it any more: with the
    c10d rendezvous, as in `--standalone`, torchrun restarts the workers only after all of them have ended.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # then the launcher uses a new port for each start
        return TCPStore(host, port, count, is_master=rank == 0)
    launcher = TCPStore(host, port, is_master=False, wait_for_workers=False)
    if rank == 0:
        store = TCPStore(host, 0, count, is_master=True, wait_for_workers=False)
        launcher.set(_PORT_KEY, str(store.port))
        return store
    deadline = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            port = int(launcher.get(_PORT_KEY))
            store = TCPStore(host, port, count, is_master=False, timeout=_ATTEMPT, wait_for_workers=False)
            store.set_timeout(dist.default_pg_timeout)
            return store
        except dist.DistError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _gpu_of_process(device: str, local: int) -> str:
    if ":" in device:
        hint = "omit `--device`, so that each process uses its own GPU"
        raise ZooError(f"`{device}` is a single GPU, but torchrun started several processes", hint=hint)
    if local >= torch.cuda.device_count():
        hint = "start one process per GPU with `--nproc-per-node`, or pass `--device cpu`"
        problem = (
            f"torchrun started at least {local + 1} processes, but the number of GPUs is {torch.cuda.device_count()}"
        )
        raise ZooError(problem, hint=hint)
    return f"cuda:{local}"


def needs_sharding(spec: Spec, mean: BatchSize | None, processes: Processes) -> bool:
    """Return whether training must shard the weights to leave a tenth of each device's memory free.

    All processes have to call this function.

    Args:
        spec: The spec to train.
        mean: Mean size of a batch over all processes. None if zoo packs several sequences into each row when it does
            not shard the weights. All packed batches have the same size.
        processes: The processes that train together.
    """
    count = processes.count
    needed = training_bytes(spec, mean.divided_by(count)) if mean else update_bytes(spec, count)
    (exceeded,) = processes.any(needed > _USABLE_SHARE * memory.available_memory(processes.device))
    return exceeded


def shard(program: EmittedProgram, processes: Processes) -> None:
    """Shard every parameter of a compiled model across the processes.

    A layer's parameters are gathered while the layer is computed. Parameters outside the layers (embeddings, and
    projections of the encoder output to keys and values) stay gathered until the backward pass ends. Gradients are
    averaged over the processes. All processes have to run the same number of forward and backward passes.
    """
    # This import takes half as long as all other imports of `zoo train` together, so it is done only when needed.
    fully_shard = import_module("torch.distributed.fsdp").fully_shard
    mesh = init_device_mesh(processes.device.type, (processes.count,))
    for layer in program.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(program, mesh=mesh)


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the whole tensor. If it is sharded, it is gathered, and all processes have to call this function."""
    return tensor.full_tensor() if _is_sharded(tensor) else tensor


def local_tensor(tensor: Tensor) -> Tensor:
    """Return this process's shard of a tensor, or the tensor itself if it is not sharded."""
    return tensor.to_local() if _is_sharded(tensor) else tensor


def shard_like(parameter: nn.Parameter, tensor: Tensor) -> Tensor:
    """Return a tensor on the parameter's device, sharded like the parameter. Every process passes the whole tensor."""
    tensor = tensor.to(parameter.device)
    if not _is_sharded(parameter):
        return tensor
    tensors = import_module("torch.distributed.tensor")
    sharded: Tensor = tensors.distribute_tensor(tensor, parameter.device_mesh, parameter.placements, src_data_rank=None)
    return sharded


def _is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Return whether a tensor is sharded, without importing torch's module for sharded tensors."""
    return hasattr(tensor, "full_tensor")

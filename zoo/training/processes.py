"""The processes that train together: one alone, or those that torchrun started, on one machine or on many."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from compiler import find_device
from specs import ZooError

_PATIENCE = timedelta(days=7)
"""How long the others wait for what the first one does alone: preparing a corpus, scoring the dev set. That a process
has died is seen by its launcher, and not by waiting."""
_PORT, _MEETING, _KNOCKING = "zoo/port", 300, timedelta(seconds=3)
"""Under which the first process tells its port, seconds that others look for it, and how long at each."""
_GONE = ("connection closed by peer", "connection reset", "connection refused", "broken pipe", "socket", "timed out")


class Processes:
    """All processes of a training, as one of them sees them.

    What decides about the run (stop, checkpoint, end) is exchanged on the CPU, so that no GPU is waited for.
    """

    def __init__(self, device: str, *, rank: int = 0, count: int = 1, local_rank: int = 0) -> None:
        """Of a training in one process; `joined` makes those of more."""
        self.device, self.rank, self.count, self._local_rank = torch.device(device), rank, count, local_rank
        self._control = dist.new_group(backend="gloo", timeout=_PATIENCE) if count > 1 else None

    @property
    def first(self) -> bool:
        """Whether this is the one that writes the run."""
        return self.rank == 0

    @property
    def first_here(self) -> bool:
        """Whether this is the first one of its machine."""
        return self._local_rank == 0

    def any(self, *asked: bool) -> tuple[bool, ...]:
        """Of each question, whether a process says yes. All of them have to ask."""
        if self._control is None:
            return asked
        answers = torch.tensor(asked, dtype=torch.uint8)
        dist.all_reduce(answers, dist.ReduceOp.MAX, group=self._control)
        return tuple(bool(answer) for answer in answers)

    def agree(self, number: int) -> bool:
        """Whether all have this number. All of them have to ask."""
        if self._control is None:
            return True
        extremes = torch.tensor([number, -number])
        dist.all_reduce(extremes, dist.ReduceOp.MAX, group=self._control)
        return int(extremes[0]) == -int(extremes[1])

    def total(self, sums: Tensor) -> Tensor:
        """The sums of all processes, on their device."""
        if self.count > 1:
            dist.all_reduce(sums)
        return sums

    @contextmanager
    def first_then_others(self, *, on_each_machine: bool = False) -> Iterator[None]:
        """What the first process does (or the first of each machine), and what the others then find done."""
        early = self.first_here if on_each_machine else self.first
        if not early:
            self._wait()
        yield
        if early:
            self._wait()

    def _wait(self) -> None:
        if self._control is not None:
            dist.barrier(group=self._control)


@contextmanager
def joined(device: str) -> Iterator[Processes]:
    """The processes that torchrun started, each on a GPU of its own or all on the CPU; else this one alone.

    Raises ZooError where there are more of them than GPUs, and where another one goes away.
    """
    count = int(os.environ["WORLD_SIZE"]) if dist.is_torchelastic_launched() else 1
    found = find_device(device)
    if count == 1:
        yield Processes(found)
        return
    local = int(os.environ["LOCAL_RANK"])
    if found.startswith("cuda"):
        found = _own_gpu(device, local)
        torch.cuda.set_device(found)
    try:
        rank = int(os.environ["RANK"])
        backend = "nccl" if found.startswith("cuda") else "gloo"
        dist.init_process_group(backend, store=_store(rank, count), rank=rank, world_size=count)
        yield Processes(found, rank=rank, count=count, local_rank=local)
    except RuntimeError as error:
        if not isinstance(error, dist.DistError) and not any(said in str(error).lower() for said in _GONE):
            raise
        problem = "another process of this training has gone away"
        hint = "its own words say why; torchrun starts all of them again from the last checkpoint (`--max-restarts`)"
        raise ZooError(problem, hint=hint, exit_code=1) from error
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _store(rank: int, count: int) -> TCPStore:
    """Where these processes find one another: one of their own, which the first of them hosts.

    The launcher's outlives its workers, so that those which it starts again would find the addresses of dead ones there
    (https://github.com/pytorch/pytorch/issues/135712). It tells the port; one of before answers no more, as a launcher
    of the c10d kind (`--standalone` is one) starts none before all have ended.
    """
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":  # then the launcher takes a new port for each start
        return TCPStore(host, port, count, is_master=rank == 0)
    known = TCPStore(host, port, is_master=False, wait_for_workers=False)
    if rank == 0:
        own = TCPStore(host, 0, count, is_master=True, wait_for_workers=False)
        known.set(_PORT, str(own.port))
        return own
    given_up = time.monotonic() + _MEETING
    while True:
        try:
            port = int(known.get(_PORT))
            own = TCPStore(host, port, count, is_master=False, timeout=_KNOCKING, wait_for_workers=False)
            own.set_timeout(dist.default_pg_timeout)
            return own
        except dist.DistError:
            if time.monotonic() > given_up:
                raise
            time.sleep(0.1)


def _own_gpu(device: str, local: int) -> str:
    if ":" in device:
        hint = "leave `--device` out: each process takes the GPU of its number"
        raise ZooError(f"`{device}` is one GPU, and torchrun started several processes", hint=hint)
    if local >= torch.cuda.device_count():
        hint = "start as many as there are GPUs with `--nproc-per-node`, or say `--device cpu`"
        raise ZooError(f"there are {torch.cuda.device_count()} GPUs for at least {local + 1} processes", hint=hint)
    return f"cuda:{local}"

"""One update: forward, backward, Adam. A function of the weights, the moments, the seed, its number and its parts."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch.nn.parallel import DistributedDataParallel

from compiler import EmittedProgram
from compiler.seeds import stream
from specs import Spec, ZooError
from zoo.data.batches import Batch
from zoo.report import Report
from zoo.system.ram import FAILURES, is_short
from zoo.training.processes import Processes
from zoo.training.schedule import learning_rate
from zoo.training.sharding import gathered, shard


@dataclass(frozen=True)
class StepResult:
    """Sums over the target tokens of one step, still on the device."""

    smoothed: torch.Tensor
    plain: torch.Tensor
    taken: torch.Tensor
    """Whether loss and gradients were finite; else the step changed nothing."""
    tokens: int


class Update:
    """Adam over a program, by the recipe of a spec (5.3).

    Several processes compute a share of each batch: their gradients are summed as they appear, and all of them take
    the same step; each of the whole, or, `sharded`, of its part of every parameter.
    """

    def __init__(
        self, spec: Spec, program: EmittedProgram, processes: Processes, report: Report, *, sharded: bool = False
    ) -> None:
        self.spec, self.program, self.processes, self.report = spec, program, processes, report
        self._sharded = sharded
        training = spec.training
        if sharded:
            shard(program, processes)
        self.parameters = list(program.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters, betas=(training.beta1, training.beta2), eps=training.epsilon, fused=True
        )
        for parameter in self.parameters:  # now, and not when a batch, too, wants memory
            zeros = {moment: torch.zeros_like(parameter) for moment in ("exp_avg", "exp_avg_sq")}
            self.optimiser.state[parameter] = {"step": torch.zeros((), device=parameter.device), **zeros}
        self._module: torch.nn.Module = program if processes.count == 1 or sharded else self._distributed()

    def step(self, number: int, batch: Batch, tokens: int) -> StepResult:
        """The update of this number, from this process's share of a batch of so many target tokens.

        It is computed in `training.accumulation_steps` parts: the same but for rounding and for where dropout falls. Where
        the memory is too small for that, a process that trains alone takes twice as many, and so on. Raises ZooError
        where it is too small for a single pair, or for what one of several processes has to do.
        """
        parts = self.spec.training.accumulation_steps
        while True:
            try:
                return self._step(number, batch, tokens, parts)
            except FAILURES as error:
                if not is_short(error):
                    raise
            # Out of the handler, so that what failed holds no memory any more.
            if self.processes.count > 1:
                hint = "go on with a larger `training.accumulation_steps`: rounding and dropout alone differ then"
                raise ZooError(f"step {number:,} does not fit the memory", hint=hint, exit_code=1)
            self.optimiser.zero_grad(set_to_none=True)
            if parts >= len(batch):
                longest = max(batch.source.shape[1], batch.target.shape[1])
                hint = "lower `corpus.max_length`, or end other programs"
                raise ZooError(f"a pair of {longest:,} tokens does not fit the memory", hint=hint, exit_code=1)
            parts = min(2 * parts, len(batch))
            self.report.warn(f"step {number:,} does not fit the memory: it is computed in {parts} parts")

    def _step(self, number: int, batch: Batch, tokens: int, parts: int) -> StepResult:
        training, device, rank = self.spec.training, self.processes.device, self.processes.rank
        torch.manual_seed(stream(training.seed, "step", number, *([rank] if rank else [])))
        self.program.train()
        sums = torch.zeros(2, device=device)
        *early, last = self._split(batch, parts)
        for part in early:
            with self._alone():
                sums += self._part(part, tokens)
        sums += self._part(last, tokens)
        sums = self.processes.total(sums)
        taken = self._update(learning_rate(number, self.spec), sums[0])
        return StepResult(sums[0], sums[1], taken, tokens)

    def _split(self, batch: Batch, parts: int) -> list[Batch]:
        """In so many parts, or fewer; exactly so many where every pass brings parts of the processes together."""
        split = batch.split(parts)
        return split + [Batch.empty()] * (parts - len(split)) if self._sharded else split

    def _part(self, part: Batch, tokens: int) -> torch.Tensor:
        """Adds the gradients of a part; its smoothed and its plain loss."""
        part = part.to(self.processes.device)
        bfloat16 = self.spec.training.precision == "bfloat16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=bfloat16):
            loss = self._module(part.source, part.target)
        # Processes exchange means of gradients, and a sum is wanted.
        (loss.smoothed * (self.processes.count / tokens)).backward()
        return torch.stack([loss.smoothed.detach(), loss.plain])

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """Adam's step, unless loss or gradients are not finite: decided on the device, which nobody waits for."""
        clip = self.spec.training.clip_norm
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = gathered(torch.nn.utils.get_total_norm(gradients))
        taken = torch.isfinite(norm) & torch.isfinite(loss)
        if clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, clip, norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        # Fused Adam leaves weights, moments and its own count alone where this is 1: made for loss scaling.
        self.optimiser.found_inf = (~taken).float()  # type: ignore[attr-defined]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return taken

    def _distributed(self) -> DistributedDataParallel:
        """After a pass over nothing, as the order in which gradients are exchanged, and so that of their sums, is only
        settled then: a resumed run has the same one."""
        made = DistributedDataParallel(self.program, gradient_as_bucket_view=True)
        empty = Batch.empty().to(self.processes.device)
        for _ in range(2):
            made(empty.source, empty.target).smoothed.backward()
        self.optimiser.zero_grad(set_to_none=True)
        return made

    def _alone(self) -> AbstractContextManager[None]:
        """While it lasts, gradients are added up and not exchanged; those of which each process keeps a part are."""
        return self._module.no_sync() if isinstance(self._module, DistributedDataParallel) else nullcontext()

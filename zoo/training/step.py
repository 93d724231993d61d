"""One training step: forward pass, backward pass, Adam. On packed rows, a GPU runs it as CUDA graphs (section 5.3).

A step depends only on the weights, the moments, the seed, its number and the number of accumulation steps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from compiler import EmittedProgram, Purpose, update_refusal
from compiler.capture import CudaGraphRecorder, Recorder, run_directly
from compiler.seeds import stream
from compiler.update import GradientProgram, PackedRows
from specs import Spec, ZooError
from zoo.data.batches import Batch, BatchSize
from zoo.planning.memory_estimate import row_lengths
from zoo.report import Report
from zoo.system.memory import MEMORY_ERRORS, is_out_of_memory
from zoo.training.alignment import BatchAligner
from zoo.training.distributed import Processes, full_tensor, shard


class RecordedUpdate:
    """Training step on packed rows of constant length. On a GPU, it is recorded as CUDA graphs, which are replayed.

    A packed row contains several sequences. A batch is divided into one or more parts (micro-batches). All functions of
    a step read and write tensors at fixed addresses. On a CPU, the functions run directly. On a GPU, the whole step is
    one graph if there is a single part and a single process. Otherwise each part is a graph, and so is the Adam update,
    because the processes sum the gradients before Adam runs.
    """

    def __init__(
        self, spec: Spec, program: EmittedProgram, optimiser: torch.optim.Adam, processes: Processes, parts: int
    ) -> None:
        """Allocate the buffers. The first step compiles the kernels and, on a GPU, records the CUDA graphs.

        Args:
            spec: The spec.
            program: The compiled model to train. It must have a graph for `Purpose.UPDATE`.
            optimiser: Adam, whose state must have been allocated.
            processes: The processes that share each batch.
            parts: Number of parts (micro-batches) that a batch is divided into. The parts are computed one after the
                other. A batch that does not fit into this number of parts is divided into more parts.
        """
        training, self.parts = spec.training, parts
        self._processes, self._optimiser, self._clip = processes, optimiser, training.clip_norm
        source, target = row_lengths(spec, parts * processes.count)
        self.rows = PackedRows(source, target, processes.device)
        self.program = GradientProgram(program, self.rows, bfloat16=training.precision == "bfloat16")
        self._taken = torch.zeros((), dtype=torch.bool, device=processes.device)
        on_gpu = processes.device.type == "cuda"
        self._record: Recorder = CudaGraphRecorder(processes.device, releases_memory=True) if on_gpu else run_directly
        self._recorded: dict[Callable[[], None], Callable[[], object]] = {}

    def step(self, batch: Batch, rate: float, seed: int) -> tuple[Tensor, Tensor]:
        """Compute one step.

        Return a tensor with the label-smoothed loss and the plain loss, summed over all processes, and a tensor that
        indicates whether the weights were updated.

        Args:
            batch: This process's share of the batch.
            rate: The learning rate.
            seed: Seed of the dropout masks.
        """
        whole = self.parts == self._processes.count == 1
        for number, part in enumerate(batch.split_packed({"source": self.rows.source, "target": self.rows.target})):
            scalars = {"seed": seed + number, "rate": rate, "tokens": batch.size.target_tokens}
            host = self.rows.host(part.source, part.target, **scalars)
            self.rows.buffer.copy_(host, non_blocking=True)
            if whole:
                self._run(self._whole)
            else:
                self._run(self.program.accumulate if number else self.program.compute)
        if not whole:
            for sums in (self.program.gradient, self.program.losses):
                self._processes.all_reduce(sums)
            self._run(self._apply)
        return self.program.losses.clone(), self._taken.clone()

    def _run(self, function: Callable[[], None]) -> None:
        """Run a function. On a GPU, the first call records it as a CUDA graph, which later calls replay."""
        if function not in self._recorded:
            tokens = self.rows.tokens.clone()
            losses, gradient = self.program.losses.clone(), self.program.gradient.clone()
            self.rows.tokens.fill_(torch.nan)  # so that the run before the recording does not update the weights
            self._recorded[function] = self._record(function)
            self.rows.tokens.copy_(tokens)
            self.program.losses.copy_(losses)
            self.program.gradient.copy_(gradient)
        self._recorded[function]()

    def _whole(self) -> None:
        self.program.compute()
        self._apply()

    def _apply(self) -> None:
        """Apply Adam if the loss and all gradients are finite. All decisions are made on the device."""
        norm = torch.linalg.vector_norm(self.program.gradient) / self.rows.tokens
        taken = torch.isfinite(norm) & torch.isfinite(self.program.losses[0])
        scale = self.rows.tokens
        if self._clip is not None:
            scale = scale / (self._clip / (norm + 1e-6)).clamp(max=1.0)
        for group in self._optimiser.param_groups:
            group["lr"] = self.rows.rate
        # Attributes for loss scaling: gradients are divided by `grad_scale`, and nothing changes if `found_inf` is 1.
        self._optimiser.grad_scale, self._optimiser.found_inf = scale, (~taken).float()  # type: ignore[attr-defined]
        self._optimiser.step()
        self._taken.copy_(taken)


def learning_rate(step: int, spec: Spec) -> float:
    """Return the learning rate of a step (section 5.3). Steps are counted from 1.

    The rate is learning_rate_factor * d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5). In the last
    cooldown_steps steps (not in the paper), the rate is multiplied by a factor that decreases linearly and would
    reach 0 one step after the last step.
    """
    training = spec.training
    rise, fall = step / (training.warmup_steps * sqrt(training.warmup_steps)), 1 / sqrt(step)
    rate = training.learning_rate_factor / sqrt(spec.architecture.d_model) * min(rise, fall)
    if training.cooldown_steps is not None:
        rate *= min(1.0, (training.steps + 1 - step) / training.cooldown_steps)
    return rate


@dataclass(frozen=True)
class StepResult:
    """Losses of one step, summed over the target tokens. The tensors are still on the device."""

    smoothed: torch.Tensor
    """Loss with label smoothing."""
    plain: torch.Tensor
    """Loss without label smoothing."""
    taken: torch.Tensor
    """Whether loss and gradients were finite. Otherwise the step changed nothing."""
    tokens: int


class TrainStep:
    """Training step with Adam: computes the gradients of a batch and updates the weights (section 5.3).

    Each process computes a share of the batch. Gradients are all-reduced during the backward pass, so that all
    processes take the same step. With `sharded`, each process updates only its shard of every parameter.
    """

    def __init__(
        self,
        spec: Spec,
        program: EmittedProgram,
        processes: Processes,
        report: Report,
        *,
        sharded: bool = False,
        aligner: BatchAligner | None = None,
    ) -> None:
        self.spec, self.program, self.processes, self.report = spec, program, processes, report
        self._aligner = aligner
        self._sharded = sharded
        self._width = getattr(spec.architecture.source, "width", None)
        training = spec.training
        if sharded:
            shard(program, processes)
        self.parameters = list(program.parameters())
        self.optimiser = torch.optim.Adam(
            self.parameters,
            betas=(training.beta1, training.beta2),
            eps=training.epsilon,
            fused=True,
            capturable=processes.device.type == "cuda",
        )
        for parameter in self.parameters:  # allocate the moments before the first batch needs memory as well
            zeros = {moment: torch.zeros_like(parameter) for moment in ("exp_avg", "exp_avg_sq")}
            self.optimiser.state[parameter] = {"step": torch.zeros((), device=parameter.device), **zeros}
        self._parts = training.accumulation_steps
        self._recorded: RecordedUpdate | None = None
        self._packs = Purpose.UPDATE in program.graphs and not sharded
        if not processes.all_equal(int(self._packs)):
            problem = "some processes can train in CUDA graphs, and others cannot"
            raise ZooError(problem, hint="install the same packages on all machines, especially Triton", exit_code=1)
        if processes.device.type == "cuda":
            report.info(f"each step is {self._describe_graphs()}")
        one = processes.count == 1 or sharded or self._packs
        self._module: torch.nn.Module = program if one else self._distributed()

    def __call__(self, number: int, batch: Batch) -> StepResult:
        """Compute one step, update the weights, and return the losses.

        The batch is split into `training.accumulation_steps` parts (micro-batches), which are computed one after the
        other. The number of parts changes only rounding and dropout masks. If memory is exhausted and there is a single
        process, the step is repeated with twice as many parts.

        Args:
            number: The step's number, from 1.
            batch: This process's share of the batch.

        Raises:
            ZooError: A sentence pair or, with several processes, a part of the batch does not fit in memory.
        """
        parts = self._parts
        while True:
            try:
                return self._step(number, batch, parts)
            except MEMORY_ERRORS as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the handler, the failed attempt no longer holds memory.
            if self.processes.count > 1:
                hint = "resume with a larger `training.accumulation_steps`, which changes only rounding and dropout"
                raise ZooError(f"step {number:,} does not fit in memory", hint=hint, exit_code=1)
            self._recorded = None
            self.optimiser.zero_grad(set_to_none=True)
            if parts >= len(batch):
                longest = max(stream.values.shape[1] for stream in batch.streams.values())
                problem = f"a sentence pair of {longest:,} tokens does not fit in memory"
                raise ZooError(problem, hint="lower `corpus.max_length`, or stop other programs", exit_code=1)
            parts = min(2 * parts, len(batch))
            if self._packs:  # all batches need the same memory
                self._parts = parts
            self.report.warn(f"step {number:,} does not fit in memory, so its batch is split into {parts} parts")

    def _step(self, number: int, batch: Batch, parts: int) -> StepResult:
        training, device, rank = self.spec.training, self.processes.device, self.processes.rank
        tokens = batch.size.target_tokens
        seed = stream(training.seed, "step", number, *([rank] if rank else []))
        rate = learning_rate(number, self.spec)
        self.program.train()
        if self._packs:
            if self._recorded is None or self._recorded.parts != parts:
                self._recorded = None  # free its memory first
                self._recorded = RecordedUpdate(self.spec, self.program, self.optimiser, self.processes, parts)
            losses, taken = self._recorded.step(batch, rate, seed)
        else:
            torch.manual_seed(seed)
            losses = torch.zeros(2, device=device)
            *early, last = self._split(batch, parts)
            for part in early:
                with self._no_sync():
                    losses += self._part(part, tokens)
            losses += self._part(last, tokens)
            losses = self.processes.all_reduce(losses)
            taken = self._update(rate, losses[0])
        return StepResult(losses[0], losses[1], taken, tokens)

    def _describe_graphs(self) -> str:
        """Describe how a GPU runs a step: as one CUDA graph, as several graphs, or (with a reason) kernel by kernel."""
        if self._packs:
            parts = self.spec.training.accumulation_steps
            one = self.processes.count == parts == 1
            return "one CUDA graph" if one else "several CUDA graphs, and gradients are summed between them"
        reason = "weights are sharded" if self._sharded else update_refusal(self.program.spec)
        return f"launched kernel by kernel, which is slower than a CUDA graph: {reason}"

    def _split(self, batch: Batch, parts: int) -> list[Batch]:
        """Split a batch into at most `parts` parts.

        With sharding, return exactly `parts` parts, because all processes must compute the same number of passes.
        """
        split = batch.split(parts)
        if self._sharded:
            split += [Batch.empty(batch.streams, self._width, batch.size)] * (parts - len(split))
        return split

    def _part(self, part: Batch, tokens: int) -> torch.Tensor:
        """Accumulate the gradients of one part of the batch. Return a tensor [smoothed loss, plain loss]."""
        alignment = None if self._aligner is None else self._aligner(part).to(self.processes.device)
        part = part.to(self.processes.device)
        bfloat16 = self.spec.training.precision == "bfloat16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=bfloat16):
            loss = self._module(part.streams.get("source"), part.target.values, alignment)
        # The all-reduce computes the mean of the gradients, but their sum is needed.
        (loss.smoothed * (self.processes.count / tokens)).backward()
        return torch.stack([loss.smoothed.detach(), loss.plain])

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """Update the weights with Adam if the loss and all gradients are finite. Return whether they were updated.

        The decision is made on the device, so the CPU does not have to wait for it.
        """
        clip = self.spec.training.clip_norm
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = full_tensor(torch.nn.utils.get_total_norm(gradients))
        taken = torch.isfinite(norm) & torch.isfinite(loss)
        if clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, clip, norm)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        # Attribute for loss scaling: if it is 1, fused Adam leaves weights, moments and its step count unchanged.
        self.optimiser.found_inf = (~taken).float()  # type: ignore[attr-defined]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return taken

    def _distributed(self) -> DistributedDataParallel:
        """Wrap the model in DistributedDataParallel, and run two passes over an empty batch.

        DistributedDataParallel fixes the order in which it reduces gradients only after the first pass. With these
        passes, a resumed run sums gradients in the same order as an uninterrupted run.
        """
        module = DistributedDataParallel(self.program, gradient_as_bucket_view=True)
        empty = Batch.empty(self.spec.task.streams, self._width, BatchSize(0, 0, 0, 0)).to(self.processes.device)
        for _ in range(2):
            module(empty.streams.get("source"), empty.target.values).smoothed.backward()
        self.optimiser.zero_grad(set_to_none=True)
        return module

    def _no_sync(self) -> AbstractContextManager[None]:
        """Return a context in which gradients accumulate without an all-reduce. With sharding, this has no effect."""
        return self._module.no_sync() if isinstance(self._module, DistributedDataParallel) else nullcontext()

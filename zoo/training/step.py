"""One training step: forward pass, backward pass, Adam (section 5.3).

If several sequences are packed into each row, a GPU runs the step as CUDA graphs.

A step depends only on the weights, the moments, the seed, the step number and the number of accumulation steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
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


@dataclass(eq=False)
class Update(ABC):
    """Algorithm that computes the gradients of a batch and updates the weights with Adam."""

    spec: Spec
    program: EmittedProgram
    """The compiled model to train."""
    optimiser: torch.optim.Adam
    """Adam, whose state must have been allocated."""
    processes: Processes
    """The processes that share each batch."""
    parts: int
    """Number of parts (micro-batches) that a batch is divided into. The parts are computed one after the other."""

    @abstractmethod
    def step(self, batch: Batch, rate: float, seed: int) -> tuple[Tensor, Tensor]:
        """Compute one training step.

        Return a tensor with the label-smoothed loss and the plain loss, summed over all processes, and a tensor that
        indicates whether the weights were updated. They are updated if the loss and all gradients are finite.

        Args:
            batch: This process's share of the batch.
            rate: The learning rate.
            seed: Seed for the dropout masks.
        """

    def _apply_adam(self, rate: float | Tensor, taken: Tensor) -> None:
        """Apply Adam if `taken` is true. The CPU does not wait for this flag, because Adam reads it on the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        # Attribute for loss scaling: if it is 1, fused Adam leaves weights, moments and its step count unchanged.
        self.optimiser.found_inf = (~taken).float()  # type: ignore[attr-defined]
        self.optimiser.step()


@dataclass(eq=False)
class RecordedUpdate(Update):
    """Training step on packed rows of constant length. On a GPU, it is recorded as CUDA graphs, which are replayed.

    A packed row contains several sequences. A batch is divided into one or more parts (micro-batches). All functions of
    a step read and write tensors at fixed addresses. On a CPU, the functions run directly. On a GPU, the whole step is
    one graph if there is a single part and a single process. Otherwise each part is a graph, and so is the Adam update,
    because the processes sum the gradients before Adam runs.
    """

    def __post_init__(self) -> None:
        """Allocate the buffers. The first step compiles the kernels and, on a GPU, records the CUDA graphs.

        `program` must have a graph for `Purpose.UPDATE`. A batch that does not fit into `parts` parts is divided into
        more parts.
        """
        device, bfloat16 = self.processes.device, self.spec.training.precision == "bfloat16"
        self.rows = PackedRows(*row_lengths(self.spec, self.parts * self.processes.count), device)
        self.gradients = GradientProgram(self.program, self.rows, bfloat16=bfloat16)
        self._taken = torch.zeros((), dtype=torch.bool, device=device)
        on_gpu = device.type == "cuda"
        self._record: Recorder = CudaGraphRecorder(device, releases_memory=True) if on_gpu else run_directly
        self._recorded: dict[Callable[[], None], Callable[[], object]] = {}

    def step(self, batch: Batch, rate: float, seed: int) -> tuple[Tensor, Tensor]:
        """Compute one training step on packed rows. See `Update.step`."""
        whole = self.parts == self.processes.count == 1
        for number, part in enumerate(batch.split_packed({"source": self.rows.source, "target": self.rows.target})):
            scalars = {"seed": seed + number, "rate": rate, "tokens": batch.size.target_tokens}
            host = self.rows.host(part.source, part.target, **scalars)
            self.rows.buffer.copy_(host, non_blocking=True)
            if whole:
                self._run(self._whole)
            else:
                self._run(self.gradients.accumulate if number else self.gradients.compute)
        if not whole:
            for sums in (self.gradients.gradient, self.gradients.losses):
                self.processes.all_reduce(sums)
            self._run(self._apply)
        return self.gradients.losses.clone(), self._taken.clone()

    def _run(self, function: Callable[[], None]) -> None:
        """Run a function. On a GPU, the first call records it as a CUDA graph, which later calls replay."""
        if function not in self._recorded:
            tokens = self.rows.tokens.clone()
            losses, gradient = self.gradients.losses.clone(), self.gradients.gradient.clone()
            self.rows.tokens.fill_(torch.nan)  # so that the run before the recording does not update the weights
            self._recorded[function] = self._record(function)
            self.rows.tokens.copy_(tokens)
            self.gradients.losses.copy_(losses)
            self.gradients.gradient.copy_(gradient)
        self._recorded[function]()

    def _whole(self) -> None:
        self.gradients.compute()
        self._apply()

    def _apply(self) -> None:
        """Apply Adam if the loss and all gradients are finite."""
        norm = torch.linalg.vector_norm(self.gradients.gradient) / self.rows.tokens
        taken = torch.isfinite(norm) & torch.isfinite(self.gradients.losses[0])
        clip, scale = self.spec.training.clip_norm, self.rows.tokens
        if clip is not None:
            scale = scale / (clip / (norm + 1e-6)).clamp(max=1.0)
        self.optimiser.grad_scale = scale  # type: ignore[attr-defined]  # Adam divides the gradients by this attribute
        self._apply_adam(self.rows.rate, taken)
        self._taken.copy_(taken)


@dataclass(eq=False)
class AutogradUpdate(Update):
    """Training step on padded batches, with gradients by autograd.

    Gradients are all-reduced during the backward pass, so that all processes take the same step. If the weights are
    sharded, each process updates only its shard of every parameter.
    """

    sharded: bool
    """Whether the weights are sharded across the processes."""
    aligner: BatchAligner | None
    """Aligner for the batches, for guided alignment."""

    def __post_init__(self) -> None:
        self._width = getattr(self.spec.architecture.source, "width", None)
        self._parameters = list(self.program.parameters())
        one = self.processes.count == 1 or self.sharded
        self._module: torch.nn.Module = self.program if one else self._distributed()

    def step(self, batch: Batch, rate: float, seed: int) -> tuple[Tensor, Tensor]:
        """Compute one training step on padded batches. See `Update.step`."""
        torch.manual_seed(seed)
        losses = torch.zeros(2, device=self.processes.device)
        *early, last = self._split(batch)
        # Gradients accumulate without an all-reduce. If the weights are sharded, they cannot.
        with self._module.no_sync() if isinstance(self._module, DistributedDataParallel) else nullcontext():
            for part in early:
                losses += self._part(part, batch.size.target_tokens)
        losses += self._part(last, batch.size.target_tokens)
        losses = self.processes.all_reduce(losses)
        return losses, self._update(rate, losses[0])

    def _split(self, batch: Batch) -> list[Batch]:
        """Split a batch into at most `parts` parts.

        With sharding, return exactly `parts` parts, because all processes must compute the same number of passes.
        """
        split = batch.split(self.parts)
        if self.sharded:
            split += [Batch.empty(batch.streams, self._width, batch.size)] * (self.parts - len(split))
        return split

    def _part(self, part: Batch, tokens: int) -> torch.Tensor:
        """Accumulate the gradients of one part of a batch. Return a tensor [label-smoothed loss, plain loss].

        `tokens` is the number of target tokens in the whole batch.
        """
        alignment = None if self.aligner is None else self.aligner(part).to(self.processes.device)
        part = part.to(self.processes.device)
        bfloat16 = self.spec.training.precision == "bfloat16"
        with torch.autocast(self.processes.device.type, torch.bfloat16, enabled=bfloat16):
            loss = self._module(part.streams.get("source"), part.target.values, alignment)
        # The all-reduce computes the mean of the gradients, but their sum is needed.
        (loss.smoothed * (self.processes.count / tokens)).backward()
        return torch.stack([loss.smoothed.detach(), loss.plain])

    def _update(self, rate: float, loss: torch.Tensor) -> torch.Tensor:
        """Update the weights with Adam if the loss and all gradients are finite.

        Return a Boolean tensor with one element: whether the weights were updated.
        """
        clip = self.spec.training.clip_norm
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        norm = full_tensor(torch.nn.utils.get_total_norm(gradients))
        taken = torch.isfinite(norm) & torch.isfinite(loss)
        if clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, clip, norm)
        self._apply_adam(rate, taken)
        self.optimiser.zero_grad(set_to_none=True)
        return taken

    def _distributed(self) -> DistributedDataParallel:
        """Wrap the model in DistributedDataParallel, and run two passes over an empty batch.

        DistributedDataParallel fixes the order in which it reduces gradients only after the first pass. Because
        of these passes, a resumed run sums gradients in the same order as an uninterrupted run.
        """
        module = DistributedDataParallel(self.program, gradient_as_bucket_view=True)
        empty = Batch.empty(self.spec.task.streams, self._width, BatchSize(0, 0, 0, 0)).to(self.processes.device)
        for _ in range(2):
            module(empty.streams.get("source"), empty.target.values).smoothed.backward()
        self.optimiser.zero_grad(set_to_none=True)
        return module


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

    Each process computes a share of the batch. With `sharded`, the weights are sharded across the processes.
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
        self._update: Update | None = None
        self._packs = Purpose.UPDATE in program.graphs and not sharded
        update = RecordedUpdate if self._packs else partial(AutogradUpdate, sharded=sharded, aligner=aligner)
        self._new_update: Callable[[int], Update] = partial(update, spec, program, self.optimiser, processes)
        if not processes.all_equal(int(self._packs)):
            problem = "some processes can train with CUDA graphs, but others cannot"
            raise ZooError(problem, hint="install the same packages, including Triton, on all machines", exit_code=1)
        if processes.device.type == "cuda":
            report.info(f"each step is {self._describe_graphs(sharded)}")

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
        parts, rank = self._parts, self.processes.rank
        seed = stream(self.spec.training.seed, "step", number, *([rank] if rank else []))
        self.program.train()
        while True:
            try:
                if self._update is None or self._update.parts != parts:
                    self._update = None  # free its memory first
                    self._update = self._new_update(parts)
                losses, taken = self._update.step(batch, learning_rate(number, self.spec), seed)
                return StepResult(losses[0], losses[1], taken, batch.size.target_tokens)
            except MEMORY_ERRORS as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the handler, the failed attempt no longer holds memory.
            if self.processes.count > 1:
                hint = "resume with a larger `training.accumulation_steps`, which changes only rounding and dropout"
                raise ZooError(f"step {number:,} does not fit in memory", hint=hint, exit_code=1)
            self._update = None
            self.optimiser.zero_grad(set_to_none=True)
            if parts >= len(batch):
                longest = max(stream.values.shape[1] for stream in batch.streams.values())
                problem = f"a sentence pair of {longest:,} tokens does not fit in memory"
                raise ZooError(problem, hint="lower `corpus.max_length`, or stop other programs", exit_code=1)
            parts = min(2 * parts, len(batch))
            if self._packs:  # all batches need the same memory
                self._parts = parts
            self.report.warn(f"step {number:,} does not fit in memory, so its batch is split into {parts} parts")

    def _describe_graphs(self, sharded: bool) -> str:
        """Describe how a GPU runs a step: as one CUDA graph, as several graphs, or (with a reason) kernel by kernel."""
        if self._packs:
            one = self.processes.count == self._parts == 1
            return "one CUDA graph" if one else "several CUDA graphs, and gradients are summed between them"
        reason = "weights are sharded" if sharded else update_refusal(self.program.spec)
        return f"launched kernel by kernel, which is slower than a CUDA graph: {reason}"

"""Training steps on packed rows. On a GPU, they run as CUDA graphs (section 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import torch
from torch import Tensor

from compiler import EmittedProgram
from compiler.capture import CudaGraphRecorder, Recorder, run_directly
from compiler.packing import PackedRows
from compiler.update import GradientProgram
from specs import Spec
from zoo.data.batches import Batch
from zoo.training.distributed import Processes


class RecordedUpdate:
    """Updates of the weights whose batch is in packed rows of constant length, in one or more parts.

    All functions that a step runs read and write tensors at fixed addresses. A recorder runs them: as CUDA graphs on a
    GPU, and directly elsewhere. If there is a single part and a single process, the whole step is one graph. Otherwise
    each part is a graph, and so is Adam, because the processes sum the gradients in between.
    """

    def __init__(
        self, spec: Spec, program: EmittedProgram, optimiser: torch.optim.Adam, processes: Processes, parts: int
    ) -> None:
        """Allocate the buffers. The first step compiles and records.

        Args:
            spec: The spec.
            program: The program to train, with a graph for the purpose UPDATE.
            optimiser: Adam, whose state must have been allocated.
            processes: The processes that share each batch.
            parts: Number of parts that a batch is divided into. The parts are computed one after the other. A batch
                with parts of different lengths may have more.
        """
        training, self.parts = spec.training, parts
        self._processes, self._optimiser, self._clip = processes, optimiser, training.clip_norm
        share = parts * processes.count
        # A part has a whole number of pairs, so it may have one sentence more than its share of the tokens.
        source, target = (
            budget if share == 1 else min(budget, ceil(budget / share) + spec.corpus.max_length + 1)
            for budget in (training.source_tokens, training.target_tokens)
        )
        self.rows = PackedRows(source, target, processes.device)
        self.program = GradientProgram(program, self.rows, bfloat16=training.precision == "bfloat16")
        self._taken = torch.zeros((), dtype=torch.bool, device=processes.device)
        on_gpu = processes.device.type == "cuda"
        self._record: Recorder = CudaGraphRecorder(processes.device, releases_memory=True) if on_gpu else run_directly
        self._recorded: dict[Callable[[], None], Callable[[], object]] = {}

    def step(self, batch: Batch, rate: float, seed: int) -> tuple[Tensor, Tensor]:
        """Compute one step. Return the two losses of all processes, and whether the weights were updated.

        Args:
            batch: This process's share of the batch.
            rate: The learning rate.
            seed: Seed of the dropout masks.
        """
        for number, part in enumerate(batch.split_packed({"source": self.rows.source, "target": self.rows.target})):
            source, target = part.source, part.target
            host = self.rows.host(
                source.values,
                source.lengths,
                target.values,
                target.lengths,
                seed=seed + number,
                rate=rate,
                tokens=batch.size.target_tokens,
            )
            self.rows.buffer.copy_(host, non_blocking=True)
            if self.parts == self._processes.count == 1:
                self._run(self._whole)
            else:
                self._run(self.program.accumulate if number else self.program.compute)
        if self.parts > 1 or self._processes.count > 1:
            for sums in (self.program.gradient, self.program.losses):
                self._processes.all_reduce(sums)
            self._run(self._apply)
        return self.program.losses.clone(), self._taken.clone()

    def _run(self, function: Callable[[], None]) -> None:
        """Run a function. The first call records it, and later calls replay the recording."""
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
        """Apply Adam, unless loss or gradients are not finite. All decisions are made on the device."""
        norm = torch.linalg.vector_norm(self.program.gradient) / self.rows.tokens
        taken = torch.isfinite(norm) & torch.isfinite(self.program.losses[0])
        scale = self.rows.tokens
        if self._clip is not None:
            scale = scale / (self._clip / (norm + 1e-6)).clamp(max=1.0)
        for group in self._optimiser.param_groups:
            group["lr"] = self.rows.rate
        # Made for loss scaling: gradients are divided by `grad_scale`, and nothing changes if `found_inf` is 1.
        self._optimiser.grad_scale, self._optimiser.found_inf = scale, (~taken).float()  # type: ignore[attr-defined]
        self._optimiser.step()
        self._taken.copy_(taken)

"""The training loop: the paper's recipe (5), one step after the other.

A step is a function of the weights, the moments, the seed and its number alone. Its batch follows from the seed, the
epoch and the place in it; its random numbers from the seed and the step. So a run that was stopped, however it was,
goes on from its checkpoint to the same weights, bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from compiler import Program, Purpose, build
from compiler.seeds import stream
from specs import Spec, ZooError
from zoo.data.batches import Batch, collate, epoch_batches
from zoo.data.store import Store
from zoo.report import Report
from zoo.training import checkpoint
from zoo.training.checkpoint import Progress
from zoo.training.log import Log
from zoo.training.run import Run
from zoo.training.schedule import learning_rate


@dataclass(frozen=True)
class StepResult:
    """Sums over the target tokens of one step, still on the device."""

    smoothed: torch.Tensor
    plain: torch.Tensor
    tokens: int


class Trainer:
    """Takes a run from where it is to `training.steps`."""

    def __init__(self, spec: Spec, store: Store, run: Run, device: str, report: Report) -> None:
        self.spec, self.store, self.run, self.report = spec, store, run, report
        self.device = torch.device(device)
        self.program: Program = build(spec, [Purpose.TRAIN], device=device)
        self.optimiser = torch.optim.Adam(
            self.program.parameters(),
            betas=(spec.training.beta1, spec.training.beta2),
            eps=spec.training.epsilon,
            fused=True,
        )
        self.progress = Progress()

    def train(self, stopped: Callable[[], bool]) -> bool:
        """Trains until the last step, or until `stopped`; then a checkpoint is written, too. True if all is done."""
        training = self.spec.training
        self.progress = checkpoint.resume(self.run, self.program, self.optimiser, self.report)
        if self.progress.step:
            self.report.say(f"resuming at step {self.progress.step:,}")
        log = Log(self.run.log, self.progress.step)
        saved = time.monotonic()
        with self.report.progress("training", training.steps, "steps") as shown:
            shown.advance(self.progress.step)
            for batch, following in self._batches():
                if self.progress.step >= training.steps or stopped():
                    break
                started = time.monotonic()
                result = self.step(batch)
                self.progress = replace(following, seconds=self.progress.seconds + time.monotonic() - started)
                log.add(batch, result)
                due = self._due(saved)
                if due or self.progress.step % training.log_steps == 0:
                    shown.advance(0, **log.write(self.progress, learning_rate(self.progress.step, self.spec)))
                shown.advance(1)
                if due:
                    self.save(due=True)
                    saved = time.monotonic()
        done = self.progress.step >= training.steps
        if self.progress.step and not self._is_saved():
            self.save(due=False)
        return done

    def step(self, batch: Batch) -> StepResult:
        """One update, from a whole batch computed in `training.accumulation` parts: the same but for rounding."""
        number = self.progress.step + 1
        torch.manual_seed(stream(self.spec.training.seed, "step", number))
        self.program.train()
        smoothed, plain = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        bfloat16 = self.spec.training.precision == "bfloat16"
        for part in batch.split(self.spec.training.accumulation):
            part = part.to(self.device)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16):
                loss = self.program(part.source, part.target)
            (loss.smoothed / batch.target_tokens).backward()
            smoothed += loss.smoothed.detach()
            plain += loss.plain
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(number, self.spec)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return StepResult(smoothed, plain, batch.target_tokens)

    def save(self, *, due: bool) -> None:
        """Writes a checkpoint, `due` by the spec's rule or because training stops here.

        Raises ZooError, before anything is written, where the weights are not finite.
        """
        if not all(bool(torch.isfinite(p).all()) for p in self.program.parameters()):
            hint = "the last checkpoint is good; lower `training.learning_rate` or raise `training.warmup_steps`"
            raise ZooError(f"the weights are no longer finite at step {self.progress.step}", hint=hint, exit_code=1)
        progress = replace(self.progress, due=due)
        checkpoint.save(self.run, self.spec, self.program, self.optimiser, progress)

    def _due(self, saved: float) -> bool:
        training = self.spec.training
        if training.checkpoint_steps is not None:
            return self.progress.step % training.checkpoint_steps == 0
        assert training.checkpoint_minutes is not None
        return time.monotonic() - saved >= 60 * training.checkpoint_minutes

    def _is_saved(self) -> bool:
        return any(c.step == self.progress.step for c in checkpoint.checkpoints(self.run))

    def _batches(self) -> Iterator[tuple[Batch, Progress]]:
        """The batches from here on, each with the progress that stands when it is done."""
        training, at = self.spec.training, self.progress
        while True:
            epoch = epoch_batches(
                self.store, training.source_tokens, training.target_tokens, seed=training.seed, epoch=at.epoch
            )
            for index in range(at.batch, len(epoch)):
                at = replace(at, step=at.step + 1, batch=index + 1)
                yield collate(self.store, epoch[index]), at
            at = replace(at, epoch=at.epoch + 1, batch=0)

"""The training loop (section 5 of the paper).

A step depends only on the weights, the moments, the seed, the step number and the number of accumulation steps. Its
batch follows from the seed, the epoch and the number of earlier batches in that epoch. Its random numbers follow from
the seed and the step number. A run that is stopped and resumed from its checkpoint therefore ends with bitwise
identical weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import torch

from compiler import Purpose, cost
from specs import ZooError
from zoo.data.batches import Batch, BatchSize
from zoo.data.prefetch import prefetch
from zoo.data.training_set import Position, TrainingSet
from zoo.generation.compilation import LAZY_BACKEND, LAZY_MESSAGE, message_if_slow
from zoo.report import Progress
from zoo.system.processors import matrix_peak
from zoo.training import checkpoints
from zoo.training.checkpoints import TrainingProgress, TrainingState, are_finite, gather_state
from zoo.training.dev_set import DevSet, continue_without_score
from zoo.training.run import Run
from zoo.training.run_log import SHOWN, RunLog, summary
from zoo.training.step import StepResult, TrainStep, learning_rate

Check = Future[None] | None
"""Future of a check that runs in the background, if any."""
MAX_SKIPPED = 10
"""Training ends with an error after this many consecutive steps in which loss or gradients are not finite."""


class Trainer:
    """Trainer that starts a run, or resumes it from its last checkpoint, and trains to the end.

    Training ends after `training.steps` steps, when another limit in the spec is reached, or when `training.patience`
    is exhausted.
    """

    def __init__(
        self, train_step: TrainStep, data: TrainingSet, run: Run, dev: DevSet | None = None, verified: Check = None
    ) -> None:
        """Prepare a trainer.

        Args:
            train_step: The training step. The trainer uses its spec, compiled model, processes and report.
            data: The training set.
            run: The run that receives checkpoints and the log.
            dev: The dev set, on which the model is scored at each checkpoint.
            verified: Background check of the prepared corpus.
        """
        self.train_step, self.data, self.run, self.dev, self._verified = train_step, data, run, dev, verified
        self.spec, self.program, self.report = train_step.spec, train_step.program, train_step.report
        self.processes, self.device = train_step.processes, train_step.processes.device
        self.progress = TrainingProgress()
        self._compiles = self.program.backend == LAZY_BACKEND
        self._flops = cost(self.program.graphs[Purpose.TRAIN]).flops
        # These counters stay on the device until they are needed, so that no step has to wait for them.
        self._skipped, self._in_a_row = (torch.zeros((), dtype=torch.long, device=self.device) for _ in range(2))

    def train(self, stopped: Callable[[], bool]) -> bool:
        """Train to the end, or until `stopped` returns True. Then write a checkpoint.

        Args:
            stopped: Function that is called after each step, and returns whether the user wants to stop training.

        Returns:
            Whether training is complete.
        """
        self._resume()
        processes = self.processes
        # Only the first process computes dev scores, so it alone knows whether `training.patience` is exhausted.
        ended, stop = processes.any(processes.first and self.ended, stopped())
        if self.progress.step and not ended:
            self.report.info(f"resuming at step {self.progress.step:,}")
        log = self._log() if processes.first else None
        line: dict[str, Any] = {}
        with self.report.progress("training", self.spec.training.steps, "steps") as shown:
            shown.advance(self.progress.step)
            if not (ended or stop):
                ended, stop, line = self._train_steps(stopped, log, shown)
        if log:
            log.close()
        if ended:
            reason = self.progress.end_reason(self.spec.training)
            self.report.info(f"training has ended at step {self.progress.step:,}: {reason}")
        saved = any(each.step == self.progress.step for each in checkpoints.list_checkpoints(self.run))
        (unsaved,) = processes.any(processes.first and self.progress.step > 0 and not saved)
        if unsaved:
            self._count_skipped()
            self._save(self._state(wait=ended and not stop), line, due=False)
        return ended

    def _resume(self) -> None:
        """Load the newest checkpoint. Raise ZooError if the processes do not find the same checkpoint."""
        with self.processes.first_then_others():
            target = (self.run, self.program, self.train_step.optimiser, self.report)
            self.progress = checkpoints.resume(*target, first=self.processes.first)
        if not self.processes.all_equal(self.progress.step):
            step = f"step {self.progress.step:,} in `{self.run.checkpoints}`"
            problem = f"this process resumes from {step}, but another process resumes from a different step"
            hint = "store the run on a disk that all machines share"
            raise ZooError(problem, hint=hint, exit_code=1)

    def _train_steps(
        self, stopped: Callable[[], bool], log: RunLog | None, shown: Progress
    ) -> tuple[bool, bool, dict[str, Any]]:
        """Train until training ends or is stopped.

        Returns:
            Whether training is complete, whether it was stopped, and the last line of the log.
        """
        processes, training = self.processes, self.spec.training
        line: dict[str, Any] = {}
        ended = stop = False
        before = time.monotonic()
        with closing(prefetch(self.inputs())) as inputs:
            while not (ended or stop):
                batch, position = next(inputs)
                number = self.progress.step + 1
                result = self.step(number, batch)
                before = self._add_time(before)
                tokens = self.progress.tokens + batch.size.target_tokens
                self.progress = replace(self.progress, step=number, **position._asdict(), tokens=tokens)
                fraction, _ = self.progress.finished_fraction(training)
                shown.advance(1, total=round(number / fraction))  # the step at which training is expected to end
                due = number % training.checkpoint_steps == 0
                ended, stop = processes.any(processes.first and self.ended, stopped())
                logged = due or ended or stop or number % training.log_steps == 0
                if logged or self.device.type == "cpu":
                    self._count_skipped()
                if logged:  # counting the skipped steps has waited for the device
                    before = self._add_time(before)
                state = self._state(wait=True) if due else None
                if log:
                    log.add(batch.size, result, self.flops_of(batch.size))
                    if logged:
                        figures = self._score_dev_set(self.dev, state.weights) if state and self.dev else {}
                        line = log.write(self.progress, learning_rate(number, self.spec), figures)
                        shown.advance(0, **{name: line[name] for name in SHOWN if line.get(name) is not None})
                if due:
                    self._save(state, line, due=True)
                    state = None
                    before = time.monotonic()
                    (ended,) = processes.any(processes.first and self.ended)
        return ended, stop, line

    def _add_time(self, before: float) -> float:
        """Add the time since `before` to `progress.seconds`. Return the current time, for the next call."""
        now = time.monotonic()
        self.progress = replace(self.progress, seconds=self.progress.seconds + now - before)
        return now

    @property
    def ended(self) -> bool:
        """Whether training is complete."""
        return self.progress.end_reason(self.spec.training) is not None

    def step(self, number: int, batch: Batch) -> StepResult:
        """Compute the training step `number`, update the weights, and return the losses."""
        with message_if_slow(self.report, LAZY_MESSAGE) if self._compiles else nullcontext():
            result = self.train_step(number, batch)
        self._compiles = False
        self._skipped += ~result.taken
        self._in_a_row = (self._in_a_row + 1) * ~result.taken
        return result

    def verify_data(self, *, wait: bool) -> None:
        """Raise the error that the background check of the prepared corpus has found, if any.

        Args:
            wait: Whether to wait for the check to finish. If false, an unfinished check is ignored.

        Raises:
            ZooError: A file of the prepared corpus is damaged or cannot be read.
        """
        if self._verified and (wait or self._verified.done()):
            self._verified.result()

    def _state(self, *, wait: bool) -> TrainingState | None:
        """Return weights and optimiser state in the process that writes checkpoints, and None in all other processes.

        Args:
            wait: Whether to wait until the whole corpus has been verified. Waiting is not needed when the user stops
                training, because the next start verifies the corpus again.

        Raises:
            ZooError: The weights are not finite, or the corpus is damaged.
        """
        self.verify_data(wait=wait)
        (broken,) = self.processes.any(not are_finite(self.train_step.parameters))
        if broken:
            problem = f"the weights are no longer finite at step {self.progress.step}"
            raise ZooError(problem, hint=_DIVERGED_HINT, exit_code=1)
        return gather_state(self.program, self.train_step.optimiser, keep=self.processes.first)

    def _save(self, state: TrainingState | None, line: Mapping[str, Any], *, due: bool) -> None:
        """Write a checkpoint and report its metrics.

        Args:
            state: The weights and moments. None in processes that do not write checkpoints.
            line: The last line of the log.
            due: Whether this checkpoint is on the spec's schedule. False if it is written because training stops.
        """
        self.progress = replace(self.progress, due=due)
        if state:
            checkpoints.save_checkpoint(self.run, self.spec, state, self.progress)
            self.report.info(summary(line, best=self.progress.best_step == self.progress.step))
            if due and self.dev and self.dev.samples:
                self.report.info(self.dev.samples)

    def _count_skipped(self) -> None:
        """Read the number of skipped steps from the device. Raise ZooError after MAX_SKIPPED consecutive skips."""
        new, in_a_row = int(self._skipped), int(self._in_a_row)
        if new:
            self.progress = replace(self.progress, skipped=self.progress.skipped + new)
            cause = "loss or gradients were not finite"
            self.report.warn(f"skipped {new:,} of the steps before step {self.progress.step:,}, because {cause}")
            self._skipped.zero_()
        if in_a_row >= MAX_SKIPPED:
            steps = f"{in_a_row} consecutive steps up to step {self.progress.step:,}"
            raise ZooError(f"loss or gradients were not finite in {steps}", hint=_DIVERGED_HINT, exit_code=1)

    def _log(self) -> RunLog:
        peak = matrix_peak(self.device, self.spec.training.precision)
        return RunLog(self.run, self.spec, self.progress, peak * self.processes.count, self.device)

    def _score_dev_set(self, dev: DevSet, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Score the model on the dev set, and update the best score in `progress`.

        Returns:
            The score, keyed by its name in the log, such as "dev_bleu". Empty, after a warning, if scoring failed.
        """
        with continue_without_score(self.report, f" at step {self.progress.step:,}"):
            score = dev.score(weights)
            if dev.metric.is_better(score, self.progress.best):
                self.progress = replace(self.progress, best=score, best_step=self.progress.step, worse=0)
            else:
                self.progress = replace(self.progress, worse=self.progress.worse + 1)
            return {f"dev_{dev.metric.name}": round(score, 4) if math.isfinite(score) else None}
        return {}

    def flops_of(self, size: BatchSize) -> float:
        """Return the FLOPs of the forward and backward pass over a batch.

        All examples are assumed to have the mean length, and padding is ignored.
        """
        stride = self.spec.architecture.source_stride
        source, target = (round(tokens / size.rows) for tokens in (size.source_tokens / stride, size.target_tokens))
        return 3 * self._flops(batch=size.rows, source=source, target=target)

    def inputs(self) -> Iterator[tuple[Batch, Position]]:
        """Yield this process's share of each batch and the data position after the batch. The iteration never ends."""
        start, rank, count = self.progress, self.processes.rank, self.processes.count
        with closing(self.data.batches_from(start.epoch, start.batch, start.pool_batch)) as batches:
            for examples, position in batches:
                yield examples.to_batch(rank, count), position


_DIVERGED_HINT = (
    "set a lower `training.learning_rate_factor`, more `training.warmup_steps` or a `training.clip_norm`, then start "
    "over with `--fresh`, or continue from the last checkpoint, whose weights are finite: run `zoo average RUN`, and "
    "train with `training.start_from=RUN` and `--run DIR`"
)

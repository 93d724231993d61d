"""The training loop: the paper's recipe (5), one step after the other.

A step is a function of the weights, the moments, the seed, its number and the parts it is computed in alone. Its batch
follows from the seed, the epoch and the place in it; its random numbers from the seed and the step. So a run that was
stopped, however it was, goes on from its checkpoint to the same weights, bit for bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from compiler import EmittedProgram, Purpose, cost, trainable
from specs import Spec, ZooError
from zoo.data.batches import Batch, BatchSize
from zoo.data.prefetch import prefetch
from zoo.data.training_set import TrainingSet
from zoo.generation.building import FIRST_RUN, LAZY, waiting
from zoo.report import Report
from zoo.system.peak import matrix_peak
from zoo.training import checkpoint
from zoo.training.checkpoint import Progress
from zoo.training.dev import DevSet, unscored
from zoo.training.events import Events
from zoo.training.log import SHOWN, Log, summary
from zoo.training.prediction import Outset, Prediction
from zoo.training.processes import Processes
from zoo.training.run import Run
from zoo.training.schedule import learning_rate
from zoo.training.step import StepResult, Update
from zoo.training.tensors import Tensors, are_finite, gather

MAX_SKIPPED = 10
"""Steps in a row without a finite loss and gradient, after which training stops with an error."""


class Place(NamedTuple):
    """Where a training stands in its data; the fields are those of Progress."""

    step: int
    epoch: int
    batch: int
    drawn: int


class Work(NamedTuple):
    """A step that is to be done."""

    batch: Batch
    """This process's share of the step's batch."""
    size: BatchSize
    """Of the whole batch."""
    place: Place
    """Where the training stands when it is done."""


class Trainer:
    """Takes a run from where it is to its end: `training.steps`, another limit, or the end of its patience.

    `dev` is scored at each checkpoint; `program` is what is trained, by default that of the spec with the weights of
    before training; by `outset` it is forecast what that takes; `sharded` over the processes where one device cannot
    hold it.
    """

    def __init__(
        self,
        spec: Spec,
        data: TrainingSet,
        run: Run,
        processes: Processes,
        report: Report,
        dev: DevSet | None = None,
        program: EmittedProgram | None = None,
        outset: Outset | None = None,
        *,
        sharded: bool = False,
    ) -> None:
        self.spec, self.data, self.run, self.report, self.dev = spec, data, run, report, dev
        self.processes, self.device = processes, processes.device
        device = str(self.device)
        self.program = trainable(spec, device=device) if program is None else program
        self.sharded, self._outset = sharded, outset
        self.update = Update(spec, self.program, processes, report, sharded=sharded)
        self.progress = Progress()
        self._compiles = self.program.backend == LAZY
        self._flops = cost(self.program.graphs[Purpose.TRAIN]).flops
        # On the device, for as long as nobody asks.
        self._skipped, self._in_a_row = (torch.zeros((), dtype=torch.long, device=self.device) for _ in range(2))

    def train(self, stopped: Callable[[], bool]) -> bool:
        """Trains to the end, or until `stopped`; a checkpoint of the last step is there then. True if it is the end."""
        training, every = self.spec.training, self.processes
        with every.first_then_others():
            of = (self.run, self.program, self.update.optimiser, self.report)
            self.progress = checkpoint.resume(*of, first=every.first)
        if not every.agree(self.progress.step):
            problem = (
                f"this process finds step {self.progress.step:,} in `{self.run.checkpoints}`, and another does not"
            )
            hint = "the run must lie on a disk that all machines share"
            raise ZooError(problem, hint=hint, exit_code=1)
        # Clocks differ, and the first process's is the one that is kept.
        ended, stop = every.any(every.first and self.ended, stopped())
        if ended:
            self.report.say(f"there is nothing left to train: the run stands at step {self.progress.step:,}")
        elif self.progress.step:
            self.report.say(f"resuming at step {self.progress.step:,}")
            if self.data.samples_subwords and not self.progress.drawn:  # this version's say how many of the pool are done
                self.report.warn(_CUT_BEFORE)
        log, prediction = (self._log(), self._predicted()) if every.first else (None, None)
        line: dict[str, Any] = {}
        saved = before = time.monotonic()
        with self.report.progress("training", training.steps, "steps") as shown, closing(prefetch(self.works())) as works:
            shown.advance(self.progress.step)
            while not (ended or stop):
                work = next(works)
                result = self.step(work)
                now = time.monotonic()
                tokens, seconds = self.progress.tokens + work.size.target_tokens, self.progress.seconds + now - before
                before = now
                self.progress = replace(self.progress, **work.place._asdict(), tokens=tokens, seconds=seconds)
                shown.advance(1)
                due, ended, stop = every.any(every.first and self._due(saved), every.first and self.ended, stopped())
                logged = due or ended or stop or self.progress.step % training.log_steps == 0
                if logged or self.device.type == "cpu":
                    self._count_skipped()
                if logged:  # by now the device has done what it was told to
                    now = time.monotonic()
                    self.progress = replace(self.progress, seconds=self.progress.seconds + now - before)
                    before = now
                tensors = self._tensors(wait=True) if due else None
                if log:
                    log.add(work.size, result, self.flops_of(work.size))
                    if logged:
                        line = self._write(log, tensors)
                        shown.advance(0, **{name: line[name] for name in SHOWN if line.get(name) is not None})
                if due:
                    self._save(tensors, line, due=True)
                    tensors = None
                    saved = before = time.monotonic()
                    (ended,) = every.any(every.first and self.ended)
        if log:
            log.close()
        if prediction:
            prediction.compare(self.progress)
        (unsaved,) = every.any(every.first and self.progress.step > 0 and not self._is_saved())
        if unsaved:
            self._count_skipped()
            self._save(self._tensors(wait=ended and not stop), line, due=False)
        return ended

    @property
    def ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.ended(self.spec.training)

    def step(self, work: Work) -> StepResult:
        """The next update."""
        with waiting(self.report, FIRST_RUN) if self._compiles else nullcontext():
            result = self.update.step(work.place.step, work.batch, work.size.target_tokens)
        self._compiles = False
        self._skipped += ~result.taken
        self._in_a_row = (self._in_a_row + 1) * ~result.taken
        return result

    def _tensors(self, *, wait: bool) -> Tensors | None:
        """Weights and moments of now, for the process that writes them.

        Raises ZooError where the weights are not finite, or the corpus is damaged that they were made from: a stop does
        not `wait` until all of that has been looked at, and the next start looks again.
        """
        self.data.verify(wait=wait)
        (broken,) = self.processes.any(not are_finite(self.update.parameters))
        if broken:
            raise ZooError(
                f"the weights are no longer finite at step {self.progress.step}", hint=_DIVERGED, exit_code=1
            )
        return gather(self.program, self.update.optimiser, keep=self.processes.first)

    def _save(self, tensors: Tensors | None, line: Mapping[str, Any], *, due: bool) -> None:
        """Writes a checkpoint, `due` by the spec's rule or because training stops here, and says its log's line."""
        self.progress = replace(self.progress, due=due)
        if tensors:
            checkpoint.save(self.run, self.spec, tensors, self.progress)
            self.report.say(summary(line, best=self.progress.best_step == self.progress.step))
            if due and self.dev and self.dev.samples:
                self.report.say(self.dev.samples)

    def _count_skipped(self) -> None:
        """Asks the device. Raises ZooError where no step in MAX_SKIPPED changed anything."""
        new, in_a_row = int(self._skipped), int(self._in_a_row)
        if new:
            self.progress = replace(self.progress, skipped=self.progress.skipped + new)
            what = "loss or gradients were not finite"
            self.report.warn(f"{new:,} of the steps up to {self.progress.step:,} changed nothing: {what}")
            self._skipped.zero_()
        if in_a_row >= MAX_SKIPPED:
            problem = f"loss or gradients were not finite in {in_a_row} steps in a row, to step {self.progress.step:,}"
            raise ZooError(problem, hint=_DIVERGED, exit_code=1)

    def _log(self) -> Log:
        peak = matrix_peak(self.device, self.spec.training.precision)
        events = Events(self.run.events, self.progress.step)
        return Log(self.run.log, self.progress, peak * self.processes.count, self.device, events)

    def _predicted(self) -> Prediction | None:
        if self._outset is None:
            return None
        mean = self.data.mean_size(self.progress.epoch, self.progress.batch)
        return Prediction(self.spec, mean, self.progress, self.processes, self._outset, self.report, self.sharded)

    def _write(self, log: Log, due: Tensors | None) -> dict[str, Any]:
        """A line of the log, with the dev set's score where a checkpoint of these is due."""
        figures = self._scored(self.dev, due.weights) if due and self.dev else {}
        return log.write(self.progress, learning_rate(self.progress.step, self.spec), figures)

    def _scored(self, dev: DevSet, weights: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """The dev set's score by these weights, and what it means for patience."""
        score = None
        with unscored(self.report, f" at step {self.progress.step:,}"):
            score = dev.score(weights)
        if score is None:
            return {}
        better, step = dev.metric.better(score, self.progress.best), self.progress.step
        news = {"best": score, "best_step": step, "worse": 0} if better else {"worse": self.progress.worse + 1}
        self.progress = replace(self.progress, **news)
        return {f"dev_{dev.metric.name}": round(score, 4) if math.isfinite(score) else None}

    def flops_of(self, size: BatchSize) -> float:
        """Of forward and backward pass, as if all pairs were of the same length, and there were no padding."""
        source, target = (round(tokens / size.rows) for tokens in (size.source_tokens, size.target_tokens))
        return 3 * self._flops(batch=size.rows, source=source, target=target)

    def _due(self, saved: float) -> bool:
        training = self.spec.training
        if training.checkpoint_steps is not None:
            return self.progress.step % training.checkpoint_steps == 0
        assert training.checkpoint_minutes is not None
        return time.monotonic() - saved >= 60 * training.checkpoint_minutes

    def _is_saved(self) -> bool:
        return any(c.step == self.progress.step for c in checkpoint.checkpoints(self.run))

    def works(self) -> Iterator[Work]:
        """The steps from here on, without end."""
        begun, rank, count = self.progress, self.processes.rank, self.processes.count
        with closing(self.data.batches_from(begun.epoch, begun.batch, begun.drawn)) as coming:
            for step, given in enumerate(coming, start=begun.step + 1):
                place = Place(step, given.epoch, given.batch, given.pool_batch)
                yield Work(given.pairs.share(rank, count).to_batch(), given.pairs.size, place)


_CUT_BEFORE = (
    "this run was begun when batches were cut before their tokens were drawn, and went over the token budgets; from "
    "here on they are cut after, and are smaller: steps come out otherwise than they would have"
)
_DIVERGED = (
    "the last checkpoint is good: start over with a lower `training.learning_rate`, more `training.warmup_steps` or a "
    "`training.clip_norm`, or go on from it so, with `zoo average RUN`, `training.start_from=RUN` and `--run DIR`"
)

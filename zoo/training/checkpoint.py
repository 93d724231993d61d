"""Checkpoints: what a training needs to go on as if it had never stopped.

Each is a folder, written beside its place and renamed when whole: `weights.safetensors` in the published layout,
`optimiser.safetensors` (Adam's moments, by the same names), `state.json` and a manifest of their hashes. There is no
random state to keep: the random numbers of a step follow from the seed and the step (see `trainer.py`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from compiler import EmittedProgram
from specs import Spec, Training, ZooError
from zoo.files import manifest
from zoo.files.atomic import atomic_folder, remove_folder, write_json
from zoo.files.reading import UnreadableError, read_json
from zoo.files.storage import require_space
from zoo.planning.footprint import KEPT_OPTIMISERS
from zoo.report import Report
from zoo.training.run import Run
from zoo.training.tensors import Tensors, put

WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"
_BEST = "best-"


@dataclass(frozen=True)
class Progress:
    """How far a training is: steps done, and the place in the data of the next."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Batches of this epoch that are done; of those that are cut anew, those before the pool (`TrainingSet`)."""
    drawn: int = 0
    """Batches that are done of the pool after these."""
    seconds: float = 0.0
    """Time spent in steps."""
    tokens: int = 0
    """Target tokens that were trained on, EOS counted."""
    skipped: int = 0
    """Steps that changed nothing, as their loss or gradients were not finite."""
    due: bool = True
    """Whether the checkpoint of this progress came by the spec's rule, and not by a stop or at the end."""
    best: float | None = None
    """The best score of the dev set so far, and the step of its checkpoint."""
    best_step: int = 0
    worse: int = 0
    """Checkpoints that were scored since the best one."""

    def ended(self, training: Training) -> bool:
        """Whether there is nothing left to do."""
        return (
            self.step >= training.steps
            or (training.max_tokens is not None and self.tokens >= training.max_tokens)
            or (training.max_minutes is not None and self.seconds >= 60 * training.max_minutes)
            or (training.patience is not None and self.worse >= training.patience)
        )


@dataclass(frozen=True)
class Checkpoint:
    folder: Path

    @property
    def step(self) -> int:
        return int(self.folder.name)

    @property
    def weights(self) -> Path:
        return self.folder / WEIGHTS

    @property
    def resumable(self) -> bool:
        return (self.folder / OPTIMISER).is_file()

    @property
    def due(self) -> bool:
        return bool(self._state.get("due", True))

    @property
    def best_step(self) -> int:
        return int(self._state.get("best_step", 0))

    @property
    def _state(self) -> dict[str, Any]:
        return read_json(self.folder / STATE)

    @property
    def progress(self) -> Progress:
        """Raises ZooError where it is of another version."""
        try:
            return Progress(**self._state)
        except TypeError:
            raise ZooError(f"`{self.folder / STATE}` is of another version of zoo", exit_code=1) from None

    def verify(self) -> None:
        """Raises ZooError, naming the file, where a file is not as it was written."""
        names = [WEIGHTS, STATE] + ([OPTIMISER] if self.resumable else [])
        manifest.check(self.folder, names)


def checkpoints(run: Run) -> list[Checkpoint]:
    """Those of a run, oldest first."""
    if not run.checkpoints.is_dir():
        return []
    found = [Checkpoint(f) for f in run.checkpoints.iterdir() if f.is_dir() and f.name.isdigit()]
    return sorted(found, key=lambda each: each.step)


def averageable(run: Run) -> list[Checkpoint]:
    """Those that came by the spec's rule, and the newest: where a training was stopped leaves no trace in the mean."""
    found = checkpoints(run)
    return [c for c in found if c is found[-1] or c.due]


def save(run: Run, spec: Spec, tensors: Tensors, progress: Progress) -> Checkpoint:
    """Writes a checkpoint, then drops what is no longer needed. Raises ZooError where the disk is full."""
    checkpoint = Checkpoint(run.checkpoints / f"{progress.step:07d}")
    run.checkpoints.mkdir(exist_ok=True)
    require_space(
        run.checkpoints,
        sum(t.nbytes for part in (tensors.weights, tensors.moments) for t in part.values()),
        "a checkpoint",
    )
    with atomic_folder(checkpoint.folder) as folder:
        safetensors.torch.save_file(dict(tensors.weights), folder / WEIGHTS)
        safetensors.torch.save_file(dict(tensors.moments), folder / OPTIMISER)
        write_json(folder / STATE, asdict(progress))
        manifest.write(folder)
    _retire(run, max(spec.training.average, KEPT_OPTIMISERS))
    return checkpoint


def restore(checkpoint: Checkpoint, program: EmittedProgram, optimiser: torch.optim.Optimizer) -> Progress:
    """Puts a checkpoint's weights and moments where they belong. Raises ZooError where a file is damaged."""
    checkpoint.verify()
    try:
        weights = safetensors.torch.load_file(checkpoint.weights)
        moments = safetensors.torch.load_file(checkpoint.folder / OPTIMISER)
    except SafetensorError as error:
        raise ZooError(f"`{checkpoint.folder}` cannot be read: {error}", exit_code=1) from error
    progress = checkpoint.progress
    put(Tensors(weights, moments), progress.step - progress.skipped, program, optimiser)
    return progress


def resume(
    run: Run, program: EmittedProgram, optimiser: torch.optim.Optimizer, report: Report, *, first: bool = True
) -> Progress:
    """From the newest checkpoint that is whole; a damaged one is named and passed over.

    Of several processes the `first` removes it. Raises ZooError where none is whole, and for one that only cannot be
    read: it may be.
    """
    found = [c for c in checkpoints(run) if c.resumable]
    for checkpoint in reversed(found):
        try:
            progress = restore(checkpoint, program, optimiser)
        except UnreadableError as error:
            hint = f"{error.hint}; if" if error.hint else "if"
            hint += f" it stays so, remove `{checkpoint.folder}`: training then goes on from the one before it"
            raise UnreadableError(error.problem, hint=hint, exit_code=1) from None
        except ZooError as error:
            report.warn(f"{error.summary}; going back to the checkpoint before it")
            continue
        for later in checkpoints(run) if first else []:
            if later.step > progress.step:
                remove_folder(later.folder)
        return progress
    if checkpoints(run):
        hint = "start over with `--fresh`; the run's checkpoints are then lost"
        raise ZooError(f"no checkpoint in `{run.checkpoints}` can be resumed", hint=hint, exit_code=1)
    return Progress()


def _retire(run: Run, keep: int) -> None:
    """All but the newest two lose the optimiser's state, or go where no mean will want them.

    The best one by the dev set's score stays, under a name that no mean takes it by.
    """
    found = checkpoints(run)
    wanted = {c.step for c in averageable(run)[-keep:]}
    for checkpoint in found[:-KEPT_OPTIMISERS]:
        (checkpoint.folder / OPTIMISER).unlink(missing_ok=True)
        if checkpoint.step == found[-1].best_step and checkpoint.step not in wanted:
            checkpoint.folder.rename(run.checkpoints / f"{_BEST}{checkpoint.folder.name}")
        elif checkpoint.step not in wanted:
            remove_folder(checkpoint.folder)
    for folder in run.checkpoints.glob(f"{_BEST}*"):
        if folder.name != f"{_BEST}{found[-1].best_step:07d}":
            remove_folder(folder)

"""Checkpoints: everything that a stopped training run needs to resume with the same results.

A checkpoint is a folder, written under a temporary name and renamed when it is complete. It contains
`weights.safetensors` in the layout of published models, `optimiser.safetensors` (Adam's moments under the same names),
`state.json`, and a manifest with the hashes of these files. It contains no state of random number generators, because
the random numbers of a step follow from the seed and the step (see `trainer.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor, nn

from compiler import EmittedProgram
from specs import Spec, Training, ZooError
from zoo.files import manifest
from zoo.files.atomic import atomic_folder, remove_folder, write_json
from zoo.files.reading import UnreadableError
from zoo.files.storage import require_space
from zoo.planning.memory_estimate import KEPT_OPTIMISERS
from zoo.report import Report
from zoo.training.distributed import full_tensor, local_tensor, shard_like
from zoo.training.run import Run, read_record

WEIGHTS, OPTIMISER, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"
MOMENTS = ("exp_avg", "exp_avg_sq")
_BEST = "best-"


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training run: steps, position in the data, and totals. Stored as `state.json` in a checkpoint."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    """Number of finished batches in this epoch, without the batches that `pool_batch` counts."""
    pool_batch: int = 0
    """Number of finished batches in the current pool (see `TrainingSet`)."""
    seconds: float = 0.0
    """Time spent in training steps, in seconds."""
    tokens: int = 0
    """Number of target tokens that the run has trained on, including EOS."""
    skipped: int = 0
    """Number of steps that changed nothing because loss or gradients were not finite."""
    due: bool = True
    """Whether the spec's schedule requires this checkpoint. False if it was written because training stopped."""
    best: float | None = None
    """Best score on the dev set so far."""
    best_step: int = 0
    """Step of the checkpoint with the best score."""
    worse: int = 0
    """Number of checkpoints that were scored after the best checkpoint."""

    def finished_fraction(self, training: Training) -> tuple[float, str]:
        """Return the completed fraction of training, and the limit that determines it: "steps" or "max_tokens"."""
        fractions = [(self.step / training.steps, "steps")]
        if training.max_tokens is not None:
            fractions.append((self.tokens / training.max_tokens, "max_tokens"))
        return max(fractions)

    def end_reason(self, training: Training) -> str | None:
        """Return why training has ended, such as "`training.steps` (2,000) is reached", or None if it has not ended."""
        fraction, name = self.finished_fraction(training)
        if fraction >= 1:
            return f"`training.{name}` ({getattr(training, name):,}) is reached"
        if training.patience is not None and self.worse >= training.patience:
            return f"{self.worse} consecutive checkpoints were no better than step {self.best_step:,}"
        return None


@dataclass(frozen=True)
class TrainingState:
    """Weights and Adam moments on the CPU, not sharded, in the layout of a weights file."""

    weights: Mapping[str, Tensor]
    moments: Mapping[str, Tensor]
    """Adam's two moments of each weight, named `MOMENT/NAME`."""


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint of a training run, stored in a folder that is named after its step."""

    folder: Path

    @property
    def step(self) -> int:
        """Number of training steps after which the checkpoint was written."""
        return int(self.folder.name)

    @property
    def weights(self) -> Path:
        """Path of the file with the weights."""
        return self.folder / WEIGHTS

    @property
    def resumable(self) -> bool:
        """Whether the checkpoint still contains the optimiser's state, so that training can resume from it."""
        return (self.folder / OPTIMISER).is_file()

    @property
    def progress(self) -> TrainingProgress:
        """Progress of the run at this checkpoint. Raises ZooError if another version of zoo wrote the checkpoint."""
        return read_record(TrainingProgress, self.folder / STATE)

    @property
    def due(self) -> bool:
        """Whether the spec's schedule requires this checkpoint. False if it was written because training stopped.

        Also False if its `state.json` cannot be read.
        """
        with suppress(ZooError):
            return self.progress.due
        return False

    def verify(self) -> None:
        """Check the hashes of the checkpoint's files. Raise ZooError with the file's name if a file has changed."""
        manifest.check(self.folder, [WEIGHTS, STATE, *([OPTIMISER] if self.resumable else [])])


def list_checkpoints(run: Run) -> list[Checkpoint]:
    """Return the checkpoints of a run, oldest first."""
    folders = [Checkpoint(f) for f in run.checkpoints.glob("*") if f.is_dir() and f.name.isdigit()]
    return sorted(folders, key=lambda checkpoint: checkpoint.step)


def scheduled_checkpoints(run: Run) -> list[Checkpoint]:
    """Return the checkpoints that the spec's schedule requires, and the newest checkpoint.

    Only these checkpoints are averaged. Checkpoints that were written because training was stopped are excluded, so
    that stopping a run does not change the average. Checkpoints with a damaged `state.json` are also excluded.
    """
    checkpoints = list_checkpoints(run)
    return [checkpoint for checkpoint in checkpoints if checkpoint is checkpoints[-1] or checkpoint.due]


def save_checkpoint(run: Run, spec: Spec, state: TrainingState, progress: TrainingProgress) -> Checkpoint:
    """Write a checkpoint, remove outdated checkpoints, and return the new one. Raise ZooError if the disk is full."""
    checkpoint = Checkpoint(run.checkpoints / f"{progress.step:07d}")
    run.checkpoints.mkdir(exist_ok=True)
    size = sum(t.nbytes for tensors in (state.weights, state.moments) for t in tensors.values())
    require_space(run.checkpoints, size, "a checkpoint")
    with atomic_folder(checkpoint.folder) as folder:
        safetensors.torch.save_file(dict(state.weights), folder / WEIGHTS)
        safetensors.torch.save_file(dict(state.moments), folder / OPTIMISER)
        write_json(folder / STATE, asdict(progress))
        manifest.write(folder)
    _remove_outdated(run, max(spec.training.average, KEPT_OPTIMISERS))
    return checkpoint


def restore_checkpoint(
    checkpoint: Checkpoint, program: EmittedProgram, optimiser: torch.optim.Optimizer
) -> TrainingProgress:
    """Load a checkpoint into a compiled model and its optimiser. Return the training progress at this checkpoint.

    Raises:
        ZooError: A file is damaged, or the names or shapes of the tensors do not match the compiled model.
    """
    checkpoint.verify()
    progress, parameters = checkpoint.progress, dict(program.named_parameters())
    for name, tensor in program.in_program_layout(safetensors.torch.load_file(checkpoint.weights)).items():
        with torch.no_grad():
            parameters[name].copy_(shard_like(parameters[name], tensor))
    updates = float(progress.step - progress.skipped)
    for parameter in parameters.values():
        optimiser.state[parameter] = {"step": torch.tensor(updates, device=parameter.device)}
    moments = safetensors.torch.load_file(checkpoint.folder / OPTIMISER)
    for kind in MOMENTS:
        named = {name.partition("/")[2]: t for name, t in moments.items() if name.startswith(f"{kind}/")}
        for name, tensor in program.in_program_layout(named).items():
            optimiser.state[parameters[name]][kind] = shard_like(parameters[name], tensor)
    return progress


def resume(
    run: Run, program: EmittedProgram, optimiser: torch.optim.Optimizer, report: Report, *, first: bool = True
) -> TrainingProgress:
    """Load the newest checkpoint that is not damaged. Warn about damaged checkpoints.

    Args:
        run: Run to resume.
        program: The compiled model that receives the weights.
        optimiser: The optimiser that receives the moments.
        report: Receives warnings about damaged checkpoints.
        first: Whether this is the first process, which removes damaged checkpoints.

    Returns:
        The progress at the checkpoint that was loaded. If the run has no checkpoints, the progress of a new run.

    Raises:
        ZooError: All checkpoints are damaged, or a checkpoint cannot be read because of an error that may be temporary.
    """
    for checkpoint in reversed([c for c in list_checkpoints(run) if c.resumable]):
        try:
            progress = restore_checkpoint(checkpoint, program, optimiser)
        except UnreadableError as error:
            hint = f"{error.hint}; if" if error.hint else "if"
            hint += f" the problem persists, remove `{checkpoint.folder}` to resume from an earlier checkpoint"
            raise UnreadableError(error.problem, hint=hint, exit_code=1) from None
        except ZooError as error:
            report.warn(f"{error.summary}; training resumes from an earlier checkpoint")
            continue
        for later in list_checkpoints(run) if first else []:
            if later.step > progress.step:
                remove_folder(later.folder)
        return progress
    if list_checkpoints(run):
        hint = "use `--fresh` to remove the run's checkpoints and start over"
        raise ZooError(f"training cannot resume from any checkpoint in `{run.checkpoints}`", hint=hint, exit_code=1)
    return TrainingProgress()


def _remove_outdated(run: Run, keep: int) -> None:
    """Remove a run's outdated checkpoints, and the optimiser state in all but the newest two checkpoints.

    The newest two checkpoints, the last `keep` scheduled checkpoints and the checkpoint with the best dev score are
    kept. If the best checkpoint is kept only for its score, it is renamed, so that no average includes it.
    """
    checkpoints = list_checkpoints(run)
    best_step = checkpoints[-1].progress.best_step
    needed = {checkpoint.step for checkpoint in scheduled_checkpoints(run)[-keep:]}
    for checkpoint in checkpoints[:-KEPT_OPTIMISERS]:
        (checkpoint.folder / OPTIMISER).unlink(missing_ok=True)
        if checkpoint.step == best_step and checkpoint.step not in needed:
            checkpoint.folder.rename(run.checkpoints / f"{_BEST}{checkpoint.folder.name}")
        elif checkpoint.step not in needed:
            remove_folder(checkpoint.folder)
    for folder in run.checkpoints.glob(f"{_BEST}*"):
        if folder.name != f"{_BEST}{best_step:07d}":
            remove_folder(folder)


def gather_state(program: EmittedProgram, optimiser: torch.optim.Optimizer, *, keep: bool) -> TrainingState | None:
    """Collect weights and moments on the CPU.

    Args:
        program: The compiled model that holds the weights. If it is sharded, all processes have to call this function.
        optimiser: The optimiser that holds the moments.
        keep: Whether to return the state in this process.

    Returns:
        Weights and moments. None if `keep` is False.
    """
    tensors: dict[str, dict[str, Tensor]] = {kind: {} for kind in ("", *MOMENTS)}
    for name, parameter in program.named_parameters():
        for kind, named in tensors.items():
            tensor = full_tensor(optimiser.state[parameter][kind] if kind else parameter.detach())
            if keep:
                named[name] = tensor.cpu()
    if not keep:
        return None
    moments = {f"{kind}/{n}": t for kind in MOMENTS for n, t in program.in_file_layout(tensors[kind]).items()}
    return TrainingState(program.in_file_layout(tensors[""]), moments)


def are_finite(parameters: list[nn.Parameter]) -> bool:
    """Return whether this process's shards of the parameters contain only finite numbers."""
    finite = [torch.isfinite(local_tensor(parameter.detach())).all() for parameter in parameters]
    return bool(torch.stack(finite).all())  # waits for the device only once

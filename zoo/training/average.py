"""The mean of the last checkpoints (6.1), which is what is evaluated and published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from specs import ZooError
from zoo.files.reading import read_json
from zoo.models.weights import Weights, read
from zoo.training.checkpoint import Checkpoint, averageable
from zoo.training.run import Run


def average(run: Run, last: int | None = None) -> Path:
    """Writes the mean of the run's last checkpoints (`training.average` of them) to its `weights.safetensors`.

    Taken in float64, a tensor at a time. Fewer are averaged where there are fewer. Scores of other weights are
    removed; where the mean is there already, all stays as it is. Raises ZooError where there is no checkpoint, where
    more are asked for than were kept, or where one is damaged.
    """
    found = to_average(run)
    if last is not None and not 1 <= last <= len(found):
        raise ZooError(f"`--last {last}` is not between 1 and the {len(found)} checkpoints that `{run.folder}` has")
    chosen = found[-(last or run.spec.training.average) :]
    steps = steps_in(chosen)
    if _is_mean_of(run.weights, steps):
        return run.weights
    require_whole(run, chosen)
    mean = mean_of([checkpoint.weights for checkpoint in chosen])
    longest = read_json(run.data).get("longest_source", "unknown") if run.data.is_file() else "unknown"
    for file in (run.scores, run.answers("dev"), run.answers("test")):  # those of other weights, and so first
        file.unlink(missing_ok=True)
    Weights(mean, {"steps": steps, "longest_source": str(longest)}).write(run.weights)
    return run.weights


def to_average(run: Run) -> list[Checkpoint]:
    """Those of a run that a mean may be of. Raises ZooError where there is none."""
    found = averageable(run)
    if not found:
        raise ZooError(f"`{run.folder}` has no checkpoint yet", hint="`zoo train` writes them as it goes")
    return found


def require_whole(run: Run, chosen: Sequence[Checkpoint]) -> None:
    """Raises ZooError where one of them is damaged."""
    for checkpoint in chosen:
        try:
            checkpoint.verify()
        except ZooError as error:
            hint = f"average later ones with `zoo average {run.folder} --last N`, or start over with `--fresh`"
            raise ZooError(error.summary, hint=hint, exit_code=1) from None


def steps_in(chosen: Sequence[Checkpoint]) -> str:
    """How the weights file names the checkpoints that it is the mean of."""
    return ",".join(str(checkpoint.step) for checkpoint in chosen)


def _is_mean_of(file: Path, steps: str) -> bool:
    """Whether the mean of the checkpoints of these steps is there, whole."""
    try:
        return read(file).facts.get("steps") == steps
    except ZooError:
        return False


def mean_of(files: list[Path]) -> dict[str, torch.Tensor]:
    """The mean of each tensor over these weights files, in the type that it has there."""
    opened: list[Any] = [safe_open(file, framework="pt") for file in files]
    mean: dict[str, torch.Tensor] = {}
    for name in opened[0].keys():  # noqa: SIM118  (a safetensors file is no mapping)
        first, *others = (file.get_tensor(name) for file in opened)
        total = first.double()
        for other in others:
            total += other
        mean[name] = (total / len(opened)).to(first.dtype)
    return mean

"""The mean of the last checkpoints (6.1), which is what is evaluated and published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from specs import ZooError
from zoo.files import read_json
from zoo.training.checkpoint import checkpoints
from zoo.training.run import Run
from zoo.weights import Weights


def average(run: Run, last: int | None = None) -> Path:
    """Writes the mean of the run's last checkpoints (`training.average` of them) to its `weights.safetensors`.

    Taken in float64, a tensor at a time. Fewer are averaged where there are fewer. The run's scores, which are those
    of other weights, are removed. Raises ZooError where there is no checkpoint, where more are asked for than were
    kept, or where one is damaged.
    """
    found = checkpoints(run)
    if not found:
        raise ZooError(f"`{run.folder}` has no checkpoint yet", hint="`zoo train` writes them as it goes")
    if last is not None and not 1 <= last <= len(found):
        raise ZooError(f"`--last {last}` is not between 1 and the {len(found)} checkpoints that `{run.folder}` has")
    chosen = found[-(last or run.spec.training.average) :]
    for checkpoint in chosen:
        checkpoint.verify()
    mean = mean_of([checkpoint.weights for checkpoint in chosen])
    about = {
        "steps": ",".join(str(checkpoint.step) for checkpoint in chosen),
        "longest_source": str(read_json(run.data)["longest_source"]),
    }
    run.scores.unlink(missing_ok=True)  # they are those of other weights
    Weights(mean, about).write(run.weights)
    return run.weights


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

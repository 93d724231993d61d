"""Average checkpoints (section 6.1). The averaged weights are evaluated and published."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from safetensors import safe_open

import compiler
from specs import Spec, ZooError
from zoo.files.reading import read_json
from zoo.models.weights import Weights, read, read_metadata
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import find_alignment_head
from zoo.training.checkpoints import Checkpoint, list_checkpoints, scheduled_checkpoints
from zoo.training.run import Run


def average(run: Run, last: int | None = None, *, int8: bool = False) -> Path:
    """Write the average of a run's last checkpoints to its `weights.safetensors`.

    The average is computed in float64, one tensor at a time. The file's metadata contains the attention head that
    aligns the dev set best. The scores of the old weights are removed. If the file already contains this average,
    nothing changes.

    Args:
        run: Run whose checkpoints are averaged.
        last: The number of most recent checkpoints to average. By default `training.average`, or all checkpoints if
            there are fewer.
        int8: Whether to round embeddings and the matrices of linear maps to int8, with a scale per row or column. The
            file is then about a quarter of the size.

    Returns:
        The path of `weights.safetensors`.

    Raises:
        ZooError: The run has no checkpoints, or fewer than `last`, or a checkpoint is damaged.
    """
    checkpoints = scheduled_checkpoints(run)
    if not checkpoints:
        hint = f"run `zoo train {quote(str(run.spec_file))}`, which writes checkpoints"
        raise ZooError(f"`{run.folder}` has no checkpoints yet", hint=hint)
    if last is not None and not 1 <= last <= len(checkpoints):
        problem = f"cannot average {last:,} checkpoints: `{run.folder}` has {len(checkpoints)}"
        if others := len(list_checkpoints(run)) - len(checkpoints):
            problem += f" to average; the others ({others}) were written when training was stopped, or are damaged"
        hint = f"choose a number from 1 to {len(checkpoints)}, or train again with a larger `training.average`"
        raise ZooError(problem, hint=hint)
    chosen = checkpoints[-(last or run.spec.training.average) :]
    steps = format_steps(chosen)
    int8_dimensions = compiler.int8_dimensions(compiler.lower(run.spec, compiler.Purpose.SCORE)) if int8 else {}
    if _is_average_of(run.weights, steps, int8_dimensions):
        return run.weights
    for checkpoint in chosen:
        try:
            checkpoint.verify()
        except ZooError as error:
            hint = f"average later checkpoints with `zoo average {run.folder} --last N`, or start over with `--fresh`"
            raise ZooError(error.summary, hint=hint, exit_code=1) from None
    mean = mean_of([checkpoint.weights for checkpoint in chosen])
    longest = read_json(run.data).get("longest_source", "unknown") if run.data.is_file() else "unknown"
    # Remove the scores of the old weights first, so that they never accompany the new weights.
    for file in (run.scores, run.answers("dev"), run.answers("test")):
        file.unlink(missing_ok=True)
    metadata = {"steps": steps, "longest_source": str(longest)}
    if head := find_alignment_head(run.spec, Vocabulary.load(run.folder), mean):
        metadata["alignment_head"] = str(head)
    Weights(mean, metadata, int8_dimensions).write(run.weights)
    return run.weights


def end_of_training(run: Run, spec: Spec) -> str | None:
    """Return the reason why a run needs no further work, such as "`training.steps` (2,000) is reached".

    Return None if training is not complete, or if the weights have not been averaged and scored yet.

    Args:
        run: Run to examine.
        spec: The spec to train with. Its limits, such as `training.steps`, may differ from the run's own limits.
    """
    checkpoints = list_checkpoints(run)
    with suppress(ZooError):  # a damaged file: training skips it or writes it again
        if not (checkpoints and run.trained and (run.known_scores.get("dev") or not spec.corpus.dev)):
            return None
        averaged = read_metadata(run.weights).get("steps")
        expected = [format_steps(scheduled_checkpoints(run)[-count:]) for count in (spec.training.average, 1)]
        return checkpoints[-1].progress.end_reason(spec.training) if averaged in expected else None
    return None


def format_steps(checkpoints: Sequence[Checkpoint]) -> str:
    """Join the steps of averaged checkpoints with commas, such as "600,1200", for the metadata of a weights file."""
    return ",".join(str(checkpoint.step) for checkpoint in checkpoints)


def _is_average_of(file: Path, steps: str, int8_dimensions: dict[str, int]) -> bool:
    """Return whether a file contains the intact average of the checkpoints at `steps`.

    `int8_dimensions` specifies which matrices must be stored as int8, and the dimension of their scales.
    """
    with suppress(ZooError):
        weights = read(file)
        return (weights.metadata.get("steps"), weights.int8_dimensions) == (steps, int8_dimensions)
    return False


def mean_of(files: list[Path]) -> dict[str, torch.Tensor]:
    """Return the mean of each tensor over several weights files, in the data type of the first file."""
    opened: list[Any] = [safe_open(file, framework="pt") for file in files]
    mean: dict[str, torch.Tensor] = {}
    for name in opened[0].keys():  # noqa: SIM118  (a safetensors file is not a mapping)
        first, *others = (file.get_tensor(name) for file in opened)
        total = first.double()
        for other in others:
            total += other
        mean[name] = (total / len(opened)).to(first.dtype)
    return mean

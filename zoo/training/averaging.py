"""Average checkpoints (section 6.1). The averaged weights are the ones that are evaluated and published.

`average` writes the average of a run's last checkpoints. `search_averages` scores several averages on the dev set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from compiler import find_device
from specs import Spec, ZooError
from zoo.evaluation.comparison import bootstrap_scores, difference_half_width
from zoo.evaluation.metrics import Metric
from zoo.evaluation.text_metrics import FloatArray
from zoo.files.reading import read_json
from zoo.models.weights import Weights, read, read_metadata
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training.alignment import find_alignment_head
from zoo.training.checkpoints import Checkpoint, list_checkpoints, scheduled_checkpoints
from zoo.training.dev_set import DevSet
from zoo.training.run import Run

COUNTS = (1, 2, 5, 10, 20)
"""Numbers of checkpoints whose averages `search_averages` scores."""


def average(run: Run, last: int | None = None, *, int8: bool = False) -> Path:
    """Write the average of a run's last checkpoints to its `weights.safetensors`.

    The average is computed in float64, one tensor at a time. The file's metadata contain the attention head that
    aligns the dev set best. The scores of the old weights are removed. If the file already contains this average,
    nothing changes.

    Args:
        run: The run.
        last: The number of checkpoints to average, counted from the last. By default `training.average`, or all
            checkpoints if there are fewer.
        int8: Whether to round each matrix to int8, with a scale per row or column. The file then has a quarter of the
            size.

    Returns:
        The path of `weights.safetensors`.

    Raises:
        ZooError: The run has no checkpoint, or fewer than `last`, or a checkpoint is damaged.
    """
    checkpoints = averageable_checkpoints(run)
    if last is not None and not 1 <= last <= len(checkpoints):
        problem = f"cannot average {last:,} checkpoints: `{run.folder}` has {len(checkpoints)}"
        if others := len(list_checkpoints(run)) - len(checkpoints):
            problem += f", and {others} more that were written when training was stopped and are never averaged"
        hint = f"give a number from 1 to {len(checkpoints)}; to keep more, train with a larger `training.average`"
        raise ZooError(problem, hint=hint)
    chosen = checkpoints[-(last or run.spec.training.average) :]
    steps = format_steps(chosen)
    if _is_average_of(run.weights, steps, "int8" if int8 else "float32"):
        return run.weights
    require_undamaged(run, chosen)
    mean = mean_of([checkpoint.weights for checkpoint in chosen])
    longest = read_json(run.data).get("longest_source", "unknown") if run.data.is_file() else "unknown"
    # Remove the scores of the old weights first, so that they never accompany the new ones.
    for file in (run.scores, run.answers("dev"), run.answers("test")):
        file.unlink(missing_ok=True)
    metadata = {"steps": steps, "longest_source": str(longest), **({"stored_type": "int8"} if int8 else {})}
    if head := find_alignment_head(run.spec, Vocabulary.load(run.folder), mean):
        metadata["alignment_head"] = str(head)
    Weights(mean, metadata).write(run.weights)
    return run.weights


def end_of_training(run: Run, spec: Spec) -> str | None:
    """Return the reason why a run needs no further work, such as "`training.steps` (2,000) is reached".

    Return None if training has not reached its end, or if its weights have not been averaged and scored yet.

    Args:
        run: The run.
        spec: The spec to train with. Its limits, such as `training.steps`, can differ from those of the run so far.
    """
    checkpoints = list_checkpoints(run)
    if not (checkpoints and run.trained and (run.known_scores.get("dev") or not spec.corpus.dev)):
        return None
    try:
        averaged = read_metadata(run.weights).get("steps")
    except ZooError:  # damaged: they will be written again
        return None
    expected = [format_steps(scheduled_checkpoints(run)[-count:]) for count in (spec.training.average, 1)]
    return checkpoints[-1].progress.end_reason(spec.training) if averaged in expected else None


def averageable_checkpoints(run: Run) -> list[Checkpoint]:
    """Return the checkpoints that can be averaged, oldest first. Raise ZooError if the run has none."""
    checkpoints = scheduled_checkpoints(run)
    if not checkpoints:
        raise ZooError(f"`{run.folder}` has no checkpoint yet", hint="`zoo train` writes them during training")
    return checkpoints


def require_undamaged(run: Run, checkpoints: Sequence[Checkpoint]) -> None:
    """Raise ZooError if one of the checkpoints is damaged."""
    for checkpoint in checkpoints:
        try:
            checkpoint.verify()
        except ZooError as error:
            hint = (
                f"average only later checkpoints with `zoo average {run.folder} --last N`, or start over with `--fresh`"
            )
            raise ZooError(error.summary, hint=hint, exit_code=1) from None


def format_steps(checkpoints: Sequence[Checkpoint]) -> str:
    """Return the steps of averaged checkpoints as text, such as "600,1200". The weights file contains this text."""
    return ",".join(str(checkpoint.step) for checkpoint in checkpoints)


def _is_average_of(file: Path, steps: str, stored_type: str) -> bool:
    """Return whether a weights file is undamaged and contains the average of these steps in this data type."""
    try:
        weights = read(file)
        return (weights.metadata.get("steps"), weights.stored_type) == (steps, stored_type)
    except ZooError:
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


@dataclass(frozen=True)
class ScoredAverage:
    """Score of an average of checkpoints on the dev set, and its difference from the best average.

    `last` checkpoints are averaged: with `every` = 1 the newest, with `every` = 2 every second one, and so on.
    """

    last: int
    every: int
    steps: tuple[int, ...]
    score: float
    difference: float
    """Score minus the best score."""
    half_interval: float | None
    """Half of the difference's 95 % confidence interval (paired bootstrap over sentences). None if it is unknown."""

    @property
    def worse(self) -> bool:
        """Whether the average is significantly worse than the best one, or its score is not finite."""
        exceeds = self.half_interval is not None and abs(self.difference) > self.half_interval
        return exceeds or not math.isfinite(self.score)


@dataclass(frozen=True)
class AverageSearch:
    """Result of `search_averages`: the scores of several averages of a run's checkpoints."""

    metric: Metric
    averages: tuple[ScoredAverage, ...]
    best: ScoredAverage
    """Best average. Of several with the same score, the one with the fewest checkpoints."""


def search_averages(run: Run, *, device: str = "auto", report: Report | None = None) -> AverageSearch:
    """Score several averages of a run's checkpoints on the dev set by `training.dev_score`. Write no files.

    Raises:
        ZooError: The run has no checkpoint, one is damaged, the dev set is not available, or no score is finite.
    """
    report, spec = report or Report(), run.spec
    checkpoints = averageable_checkpoints(run)
    require_undamaged(run, checkpoints)
    dev = DevSet(spec, Vocabulary.load(run.folder), find_device(device), report)
    selections = list(select_checkpoints(checkpoints))
    scores: list[float] = []
    resampled_scores: list[FloatArray | None] = []
    with report.progress("scoring averages", len(selections), "averages") as progress:
        for _, chosen in selections:
            answers = dev.answers(mean_of([checkpoint.weights for checkpoint in chosen]))
            scores.append(dev.metric.score(answers))
            resampled_scores.append(bootstrap_scores(dev.metric.name, answers))
            progress.advance(1)
    finite = [index for index, score in enumerate(scores) if math.isfinite(score)]
    if not finite:
        problem = f"no average of `{run.folder}`'s checkpoints has a finite dev {dev.metric.title}"
        raise ZooError(
            problem, hint="check whether a reference of the dev set has a token to which the model gives no probability"
        )
    best = min(finite, key=lambda index: sum(dev.metric.is_better(score, scores[index]) for score in scores))
    averages = []
    for (every, chosen), score, resampled in zip(selections, scores, resampled_scores, strict=True):
        interval = None
        if math.isfinite(score):
            interval = difference_half_width(dev.metric.name, score, resampled_scores[best], resampled)
        steps = tuple(checkpoint.step for checkpoint in chosen)
        difference = score - scores[best]
        averages.append(
            ScoredAverage(len(chosen), every, steps, score=score, difference=difference, half_interval=interval)
        )
    return AverageSearch(dev.metric, tuple(averages), averages[best])


def select_checkpoints(checkpoints: Sequence[Checkpoint]) -> Iterator[tuple[int, Sequence[Checkpoint]]]:
    """Yield the selections of checkpoints whose averages are compared.

    The first selections are the last 1, 2, 5, 10 and 20 of all checkpoints. Further selections take them from every
    second checkpoint, from every fourth, and so on, counted from the newest.

    Yields:
        The distance between the selected checkpoints (1, 2, 4, ...), and these checkpoints, oldest first.
    """
    every = 1
    while every == 1 or every < len(checkpoints):
        spaced = checkpoints[::-1][::every][::-1]
        for count in COUNTS:
            if count <= len(spaced) and (count > 1 or every == 1):
                yield every, spaced[-count:]
        every *= 2

"""`log.jsonl`: one line of figures every `training.log_steps` steps and at each checkpoint."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specs import ZooError
from zoo.data.batches import Batch
from zoo.files import writing

if TYPE_CHECKING:
    from zoo.training.checkpoint import Progress
    from zoo.training.trainer import StepResult


class Log:
    """Sums up the steps since the last line. Lines of steps that a resumed run will do again are taken out first."""

    def __init__(self, path: Path, step: int) -> None:
        self._path = path
        if path.exists():
            kept = [line for line in path.read_text().splitlines() if _step(line) <= step]
            with writing(path) as file:
                file.write_text("".join(f"{line}\n" for line in kept))
        self._clear()

    def _clear(self) -> None:
        self._results: list[StepResult] = []
        self._source = self._target = self._cells = 0
        self._since = time.monotonic()

    def add(self, batch: Batch, result: StepResult) -> None:
        self._results.append(result)
        self._source += batch.source_tokens
        self._target += batch.target_tokens
        self._cells += batch.source.numel() + batch.target.numel() - batch.target.shape[0]

    def write(self, progress: Progress, rate: float) -> dict[str, Any]:
        """Appends a line and returns its figures: loss and perplexity a target token, tokens/s, share of padding.

        Raises ZooError where the loss is not a number: nothing after it could be.
        """
        seconds = time.monotonic() - self._since
        smoothed = math.fsum(float(r.smoothed) for r in self._results) / self._target
        plain = math.fsum(float(r.plain) for r in self._results) / self._target
        if not math.isfinite(smoothed):
            hint = "the last checkpoint is good; lower `training.learning_rate` or raise `training.warmup_steps`"
            raise ZooError(f"the loss is {smoothed} at step {progress.step}", hint=hint, exit_code=1)
        line = {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": round(smoothed, 5),
            "perplexity": round(math.exp(min(plain, 700)), 4),
            "learning_rate": float(f"{rate:.6g}"),
            "source_tokens_per_second": round(self._source / seconds, 1),
            "target_tokens_per_second": round(self._target / seconds, 1),
            "padding": round(1 - (self._source + self._target) / self._cells, 4),
            "seconds": round(progress.seconds, 2),
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._clear()
        return line


def _step(line: str) -> float:
    """The step of a line; a line that was cut short counts as one to be taken out."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf

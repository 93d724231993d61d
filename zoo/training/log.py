"""`log.jsonl`: one line of figures every `training.log_steps` steps and at each checkpoint."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from zoo.data.batches import BatchSize
from zoo.evaluation.metric import ON_DEV
from zoo.files.atomic import atomic_file, convert_disk_errors
from zoo.report import figure
from zoo.system import ram
from zoo.training.checkpoint import Progress
from zoo.training.events import Events
from zoo.training.step import StepResult

SHOWN = ("loss", "perplexity", *ON_DEV, "target_tokens_per_second", "utilisation")
"""What of a line is shown while training goes on."""
_CALLED = {"loss": "loss", "perplexity": "perplexity", **ON_DEV}


def summary(line: Mapping[str, Any], *, best: bool) -> str:
    """A checkpoint's line of the log in words; `best` of all by the dev set's score."""
    words = [f"{called} {figure(value)}" for name, called in _CALLED.items() if (value := line.get(name)) is not None]
    return f"step {line['step']:,}: {', '.join(words)}{', the best so far' if best else ''}"


class Log:
    """Sums up the steps since the last line, from `begun` on. Lines of later steps are taken out first.

    `peak` is the FLOPs a second that a matrix product reaches on this device, against which utilisation is told; every
    line goes to `events`, too.
    """

    def __init__(self, path: Path, begun: Progress, peak: float, device: torch.device, events: Events) -> None:
        self._path, self._peak, self._device, self._events = path, peak, device, events
        self._until = begun.seconds
        if path.exists():
            lines = path.read_text("utf-8", errors="replace").splitlines()
            kept = [line for line in lines if _step(line) <= begun.step]
            with atomic_file(path) as file:
                file.write_text("".join(f"{line}\n" for line in kept))
        self._clear()

    def _clear(self) -> None:
        self._results: list[StepResult] = []
        self._source = self._target = self._places = 0
        self._flops = 0.0

    def add(self, size: BatchSize, result: StepResult, flops: float) -> None:
        """A step, whose forward and backward pass have so many FLOPs of matrix products, padding left out."""
        self._results.append(result)
        self._source += size.source_tokens
        self._target += size.target_tokens
        self._places += size.places
        self._flops += flops

    def write(self, progress: Progress, rate: float, figures: Mapping[str, Any]) -> dict[str, Any]:
        """Appends a line with `figures` and returns it: loss and perplexity a target token, speed, share of padding,
        utilisation, memory. A step that was skipped counts for neither of the first two."""
        seconds = max(progress.seconds - self._until, 1e-9)
        taken = [r for r in self._results if bool(r.taken)]
        tokens = sum(r.tokens for r in taken)
        smoothed, plain = (math.fsum(float(getattr(r, n)) for r in taken) for n in ("smoothed", "plain"))
        line = {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": round(smoothed / tokens, 5) if tokens else None,
            "perplexity": round(math.exp(min(plain / tokens, 700)), 4) if tokens else None,
            "learning_rate": float(f"{rate:.6g}"),
            "source_tokens_per_second": round(self._source / seconds, 1),
            "target_tokens_per_second": round(self._target / seconds, 1),
            "padding": round(1 - (self._source + self._target) / max(1, self._places), 4),
            "utilisation": round(self._flops / seconds / self._peak, 4),
            "memory_bytes": ram.most_used(self._device),
            "seconds": round(progress.seconds, 2),
            **figures,
        }
        if progress.skipped:
            line["skipped"] = progress.skipped
        with convert_disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._events.add(line)
        self._clear()
        self._until = progress.seconds
        return line

    def close(self) -> None:
        self._events.close()


def _step(line: str) -> float:
    """The step of a line; a line that was cut short counts as one to be taken out."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return math.inf

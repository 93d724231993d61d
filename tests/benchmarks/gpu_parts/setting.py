"""Environment of the parts of `gpu.py`: the device, the size of the models, and the peak rates of the device."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import specs
from specs import Spec

ROOT = Path(__file__).parents[3]
Figures = dict[str, Any]
"""Results that can be written as JSON: numbers, text, lists."""

TOY: dict[str, Any] = {
    "name": "toy",
    "architecture": {"N": 1, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 8},
    "vocabulary": {"size": 600},
    "corpus": {"train": [{"grammar": 3000}], "dev": [{"grammar": 9}], "test": [{"grammar": 9}]},
    "training": {"source_tokens": 400, "target_tokens": 400, "checkpoint_steps": 2, "average": 2, "steps": 4},
    "decoding": {"extra_length": 2},
}


def subprocess_environment(**variables: str) -> dict[str, str]:
    """Return the environment for a subprocess: ours, with the repository first in PYTHONPATH, and `variables`."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


class Absent(Exception):
    """Error for a part that needs something that is not available; its text says what."""


@dataclass(frozen=True)
class Setting:
    """Device, size of the models, output folder, and measured peak rates: FLOP/s in bfloat16, and bytes/s of a copy."""

    device: torch.device
    toy: bool
    folder: Path
    flops: float
    bytes: float

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def spec(self, name: str, **sections: Any) -> Spec:
        """Return a shipped spec, or, at toy size, always the same small one."""
        if not self.toy:
            return specs.load(name, sections)
        return specs.load("tiny", {**TOY, **{key: {**TOY.get(key, {}), **each} for key, each in sections.items()}})

    def seconds(self, work: Callable[[], object], rounds: int = 3) -> float:
        """Return the time of the fastest round in seconds. The first round is not timed. Wait for the device."""
        best = float("inf")
        for number in range(rounds + 1):
            begun = time.perf_counter()
            work()
            if self.cuda:
                torch.cuda.synchronize(self.device)
            best = min(best, time.perf_counter() - begun) if number else best
        return best


Part = Callable[[Setting], Iterator[tuple[str, Figures]]]
"""Function that yields named rows, which are written at once. Raises Absent."""

"""Environment of the parts of `gpu.py`: the device, the size of the models, and the peak rates of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import specs
from specs import Spec
from zoo.system.processors import repeat

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

        def run() -> None:
            work()
            if self.cuda:
                torch.cuda.synchronize(self.device)

        return min(repeat(run, 0.0, rounds=rounds + 1)[1:])


Part = Callable[[Setting], Iterator[tuple[str, Figures]]]
"""Function that yields named rows, which are written at once. Raises Absent."""

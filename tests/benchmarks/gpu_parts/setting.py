"""Setting that all parts of `gpu.py` share: the device, its peak speeds, and whether models are small."""

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
    """A part of `gpu.py` cannot run. The message says what is missing, such as a prepared corpus."""


@dataclass(frozen=True)
class Setting:
    """Setting that all parts of `gpu.py` share.

    Attributes:
        device: The device to measure.
        toy: Whether models are small.
        folder: The output folder.
        flops: Peak speed of bfloat16 matrix products, in FLOPs per second.
        bytes: Peak speed of a memory copy, in bytes read and written per second.
    """

    device: torch.device
    toy: bool
    folder: Path
    flops: float
    bytes: float

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def spec(self, name: str, **sections: Any) -> Spec:
        """Load a shipped spec, with changes to its sections. If `toy` is true, load a small spec instead."""
        if not self.toy:
            return specs.load(name, sections)
        return specs.load("tiny", {**TOY, **{key: {**TOY.get(key, {}), **each} for key, each in sections.items()}})

    def seconds(self, work: Callable[[], object], rounds: int = 3) -> float:
        """Call a function `rounds` times after an untimed call. Return the shortest time in seconds."""

        def run() -> None:
            work()
            if self.cuda:
                torch.cuda.synchronize(self.device)

        return min(repeat(run, 0.0, rounds=rounds + 1)[1:])


Part = Callable[[Setting], Iterator[tuple[str, Figures]]]
"""Function that runs a part and yields its results as (row name, values). It raises Absent if it cannot run."""

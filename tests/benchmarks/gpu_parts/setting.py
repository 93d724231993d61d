"""Where the parts of `gpu.py` run: the device, the size, and what the device reaches at its best."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import specs
from specs import Spec

Figures = dict[str, Any]
"""What JSON can hold: numbers, words, lists."""

TOY: dict[str, Any] = {
    "name": "toy",
    "architecture": {"N": 1, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 8},
    "vocabulary": {"size": 600},
    "corpus": {"train": [{"grammar": 3000}], "dev": [{"grammar": 9}], "test": [{"grammar": 9}]},
    "training": {"source_tokens": 400, "target_tokens": 400, "checkpoint_steps": 2, "average": 2, "steps": 4},
    "decoding": {"extra_length": 2},
}


class Absent(Exception):
    """What a part needs is not here; its words say what."""


@dataclass(frozen=True)
class Setting:
    """`flops` of a large bfloat16 product and `bytes` of a copy, each a second, were measured just before."""

    device: torch.device
    toy: bool
    folder: Path
    flops: float
    bytes: float

    @property
    def cuda(self) -> bool:
        return self.device.type == "cuda"

    def spec(self, name: str, **sections: Any) -> Spec:
        """A shipped one, or, at toy size, always the same small one."""
        if not self.toy:
            return specs.load(name, sections)
        return specs.load("tiny", {**TOY, **{key: {**TOY.get(key, {}), **each} for key, each in sections.items()}})

    def seconds(self, work: Callable[[], object], rounds: int = 3) -> float:
        """Of the quickest of some rounds, after one that is not timed; the device is waited for."""
        best = float("inf")
        for number in range(rounds + 1):
            begun = time.perf_counter()
            work()
            if self.cuda:
                torch.cuda.synchronize(self.device)
            best = min(best, time.perf_counter() - begun) if number else best
        return best


Part = Callable[[Setting], Iterator[tuple[str, Figures]]]
"""Gives its rows one by one, each kept as soon as it is there. Raises Absent."""

"""Time functions, and store pass timings: measured times of training passes of specs on this processor."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from compiler.host import cores, cpuinfo, matrix_library
from specs import Spec, ZooError
from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.files.reading import read_json
from zoo.version import __version__

Result = TypeVar("Result")


@dataclass(frozen=True)
class Spread:
    """Median, minimum and maximum of the results of several rounds."""

    median: float
    min: float
    max: float


def spread(values: Iterable[float]) -> Spread:
    """Return median, minimum and maximum of the values. There must be at least one."""
    results = list(values)
    return Spread(statistics.median(results), min(results), max(results))


def timed(function: Callable[[], Result]) -> tuple[float, Result]:
    """Call a function. Return the seconds that it took, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def repeat(
    function: Callable[[], object], seconds: float, *, rounds: int = 1, max_rounds: int | None = None
) -> list[float]:
    """Call a function repeatedly. Return the seconds that each call took.

    Args:
        function: The function.
        seconds: Total time of the calls after which no further call begins.
        rounds: Minimum number of calls, however long they take.
        max_rounds: Maximum number of calls. None: as many as fit in the time.
    """
    times: list[float] = []
    while len(times) < rounds or (sum(times) < seconds and len(times) != max_rounds):
        times.append(timed(function)[0])
    return times


_CLEARLY_FASTER = 0.93
"""Another library is chosen if it takes less than this share of the default library's time. Smaller differences are
noise on a shared machine."""
_VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")


@dataclass(frozen=True)
class PassTiming:
    """Measured seconds of a forward and backward pass over `rows` pairs of `length` tokens on either side."""

    name: str
    """Name of the spec."""
    rows: int
    length: int
    float32: Mapping[str, float]
    """Seconds in float32, by library for matrix products. The default library is always included."""
    bfloat16: float | None
    """Seconds in bfloat16. None if the spec trains in float32."""
    level: float
    """Measured seconds in the spec's precision, divided by the seconds that are predicted from FLOPs and bytes."""
    new_shape: float
    """Additional seconds that the first batch of each new shape takes."""

    @property
    def matrix_library(self) -> str:
        """Library to use for float32 matrix products: the default one, unless another is clearly faster."""
        default, fastest = matrix_library(), min(self.float32, key=lambda name: self.float32[name])
        return fastest if self.float32[fastest] < _CLEARLY_FASTER * self.float32[default] else default

    def seconds(self, precision: str) -> float:
        """Return the measured seconds in a precision. In float32, these are the seconds of `matrix_library`."""
        return self.bfloat16 if precision == "bfloat16" and self.bfloat16 else self.float32[self.matrix_library]

    @property
    def slowdown(self) -> float | None:
        """Time of bfloat16 divided by that of float32 if the processor only emulates bfloat16. None otherwise."""
        ratio = self.bfloat16 / self.seconds("float32") if self.bfloat16 else 0.0
        return ratio if ratio > 1 else None


def emulation_warning(slowdown: float) -> str:
    """Return a warning that bfloat16 is slow because it is emulated. The caller precedes it by the word "bfloat16"."""
    remedy = "set `training.precision=float32` before you start a run"
    return f"takes {slowdown:.2g} times as long as float32 on this processor; {remedy}"


def load_timing(spec: Spec) -> PassTiming | None:
    """Return the stored timing of a spec on this machine. None if there is none."""
    return _read(_file(spec))


def save_timing(spec: Spec, timing: PassTiming) -> None:
    """Store a timing. If this fails, do nothing: the times will be measured again."""
    with suppress(ZooError, OSError):
        write_json(_file(spec), {"machine": _machine(), "timing": asdict(timing)})


def all_timings() -> list[PassTiming]:
    """Return all timings for this processor and the installed versions of zoo and torch, sorted by spec name."""
    timings = (_read(file) for file in storage.timings().glob("*.json"))
    return sorted(filter(None, timings), key=lambda timing: timing.name)


def _read(file: Path) -> PassTiming | None:
    """Read a stored timing. Return None if it is damaged or was measured on another machine."""
    with suppress(ZooError, TypeError, KeyError):
        entry = read_json(file)
        timing = PassTiming(**entry["timing"])
        if entry["machine"] == _machine() and matrix_library() in timing.float32:
            return timing
    return None


def _file(spec: Spec) -> Path:
    training, compilation = spec.training, spec.compilation
    key = {
        "architecture": spec.architecture.model_dump(mode="json"),
        "vocabulary": spec.vocabulary.size if len({*spec.vocabulary.sizes}) == 1 else spec.vocabulary.sizes,
        "batch": [training.source_tokens, training.target_tokens, training.accumulation_steps, training.precision],
        "without": sorted(compilation.disabled_passes),
        "machine": _machine(),
    }
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return storage.timings() / f"{digest[:16]}.json"


def _machine() -> dict[str, Any]:
    """Return the properties of machine and software on which the speed depends, in addition to the spec."""
    info = cpuinfo()
    return {
        "processor": info.get("model name", ""),
        "instructions": info.get("flags") or info.get("Features") or "",
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "zoo": __version__,
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }

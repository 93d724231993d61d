"""What was measured of a spec on this processor with these versions, kept so that it is measured once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from compiler.host import cores, cpuinfo
from compiler.switches import matrix_library
from specs import Spec, ZooError
from zoo.files import storage
from zoo.files.atomic import write_json
from zoo.files.reading import read_json
from zoo.version import __version__

_CLEARLY = 0.93
"""Of the usual library's time, below which another one is taken: nearer is the noise of a shared machine."""
_VARIABLES = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")


@dataclass(frozen=True)
class Calibration:
    """Seconds of a forward and backward pass over so many pairs of `length` tokens, on both sides."""

    name: str
    """Of the spec."""
    rows: int
    length: int
    float32: Mapping[str, float]
    """By library of its products: the usual one, and others where a choice is worth it."""
    bfloat16: float | None
    """None where the spec does not train in it."""
    level: float
    """How many times as long, in the spec's precision, as FLOPs and bytes say by what the machine reached then."""
    new_shape: float
    """What a batch takes longer whose shape is new."""

    @property
    def matrix_library(self) -> str:
        """The one that float32 products are to be computed by: the usual one unless another is clearly faster."""
        usual, fastest = matrix_library(), min(self.float32, key=lambda name: self.float32[name])
        return fastest if self.float32[fastest] < _CLEARLY * self.float32[usual] else usual

    def seconds(self, precision: str) -> float:
        """In this precision, by the library taken."""
        return self.bfloat16 if precision == "bfloat16" and self.bfloat16 else self.float32[self.matrix_library]

    @property
    def slowdown(self) -> float | None:
        """How many times as long bfloat16 takes as float32, where this processor only emulates it; else None."""
        ratio = self.bfloat16 / self.seconds("float32") if self.bfloat16 else 0.0
        return ratio if ratio > 1 else None


def emulated(slowdown: float) -> str:
    """What is to be said of it."""
    remedy = "say `training.precision=float32` before a run begins"
    return f"takes {slowdown:.2g} times as long as float32 on this processor; {remedy}"


def kept(spec: Spec) -> Calibration | None:
    """What was measured of this spec here, unless nobody has."""
    return _read(_file(spec))


def keep(spec: Spec, found: Calibration) -> None:
    """Where the disk lets it."""
    with suppress(ZooError, OSError):
        write_json(_file(spec), {"machine": _machine(), "calibration": asdict(found)})


def all_kept() -> list[Calibration]:
    """Everything that was measured on this processor with these versions, by name."""
    found = (_read(file) for file in storage.calibrations().glob("*.json"))
    return sorted(filter(None, found), key=lambda each: each.name)


def _read(file: Path) -> Calibration | None:
    """What a file keeps, unless it is of another machine, or damaged."""
    with suppress(ZooError, TypeError, KeyError):
        entry = read_json(file)
        found = Calibration(**entry["calibration"])
        return found if entry["machine"] == _machine() and matrix_library() in found.float32 else None
    return None


def _file(spec: Spec) -> Path:
    training, compilation = spec.training, spec.compilation
    shapes = {
        "architecture": spec.architecture.model_dump(mode="json"),
        "vocabulary": spec.vocabulary.size if len({*spec.vocabulary.sizes}) == 1 else spec.vocabulary.sizes,
        "batch": [training.source_tokens, training.target_tokens, training.accumulation_steps, training.precision],
        "without": sorted(compilation.without),
        "machine": _machine(),
    }
    return (
        storage.calibrations() / f"{hashlib.sha256(json.dumps(shapes, sort_keys=True).encode()).hexdigest()[:16]}.json"
    )


def _machine() -> dict[str, Any]:
    """Everything that speed depends on but the spec."""
    told = cpuinfo()
    return {
        "processor": told.get("model name", ""),
        "instructions": told.get("flags") or told.get("Features") or "",
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "zoo": __version__,
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }

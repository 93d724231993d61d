"""Options of compilation: device and precision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.graph import Purpose
from specs import Spec, ZooError

PRECISIONS = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class CompileOptions:
    """Device (cpu or cuda), and precision of weights and matrix products (float32, bfloat16 or int8)."""

    device: str = "cpu"
    precision: str = "float32"


def compile_options(
    spec: Spec, purposes: Iterable[Purpose], device: str = "cpu", precision: str | None = None
) -> CompileOptions:
    """Return the options for graphs that share weights.

    Args:
        spec: The spec. Its `compilation.precision` does not apply to training, whose weights are float32.
        purposes: Purposes of the graphs.
        device: Device, with or without an index.
        precision: Overrides the spec's precision.

    Raises:
        ZooError: The precision is unknown, or is not float32 in training.
    """
    if precision not in (None, *PRECISIONS):
        raise ZooError(f"unknown precision `{precision}`", hint=f"choose one of {', '.join(PRECISIONS)}")
    if Purpose.TRAIN not in purposes:
        return CompileOptions(device.partition(":")[0], precision or spec.compilation.precision)
    if precision not in (None, "float32"):
        hint = "set `training.precision` to choose the precision of products in training"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return CompileOptions(device.partition(":")[0])

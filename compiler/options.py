"""Options of the compiler: device and precision."""

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
    """Return the compiler options for graphs that share weights.

    Args:
        spec: The spec. Its `compilation.precision` is ignored for training, because weights are trained in float32.
        purposes: Purposes of the graphs.
        device: Device, with or without an index.
        precision: Overrides the spec's precision.

    Raises:
        ZooError: The precision is unknown, or is not float32 although the purposes include training.
    """
    if precision not in (None, *PRECISIONS):
        raise ZooError(f"unknown precision `{precision}`", hint=f"choose one of {', '.join(PRECISIONS)}")
    if Purpose.TRAIN not in purposes:
        return CompileOptions(device.partition(":")[0], precision or spec.compilation.precision)
    if precision not in (None, "float32"):
        hint = "omit the precision; `training.precision` in the spec sets the precision of matrix products in training"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return CompileOptions(device.partition(":")[0])

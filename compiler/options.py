"""Options of the compiler: backend, device and precision. This module imports neither torch nor graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specs import Spec, ZooError, nearest

if TYPE_CHECKING:
    from compiler.graph import Purpose

BACKEND_NAMES = ("eager", "inductor", "native", "aot", "onnx", "tensorrt")
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
    if not any(purpose.trains for purpose in purposes):
        return CompileOptions(device.partition(":")[0], precision or spec.compilation.precision)
    if precision not in (None, "float32"):
        hint = "omit the precision; `training.precision` in the spec sets the precision of matrix products in training"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return CompileOptions(device.partition(":")[0])


def check_backend_name(name: str) -> None:
    """Raise ZooError unless the name is `auto` or a backend. The backend may be unavailable on this machine."""
    if name != "auto" and name not in BACKEND_NAMES:
        near = nearest(name, list(BACKEND_NAMES))
        hint = f"did you mean `{near}`?" if near else f"choose `auto`, or one of {', '.join(BACKEND_NAMES)}"
        raise ZooError(f"`{name}` is not a backend", hint=hint)

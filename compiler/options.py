"""Options of the compiler: backend, device and precision. This module imports neither torch nor graphs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specs import Spec, ZooError, suggest

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
    check_names(precision=precision)
    if not any(purpose.trains for purpose in purposes):
        return CompileOptions(device.partition(":")[0], precision or spec.compilation.precision)
    if precision not in (None, "float32"):
        hint = "omit the precision; `training.precision` in the spec sets the precision of matrix products in training"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return CompileOptions(device.partition(":")[0])


def check_names(*, precision: str | None = None, backend: str | None = None) -> None:
    """Raise ZooError if the name of a precision or backend is unknown. A known backend may still be unavailable."""
    names = {"precision": (precision, PRECISIONS), "backend": (backend, ("auto", *BACKEND_NAMES))}
    for kind, (name, known) in names.items():
        if name not in (None, *known):
            hint = suggest(str(name), known).strip() or f"choose one of {', '.join(known)}"
            raise ZooError(f"`{name}` is not a {kind}", hint=hint)

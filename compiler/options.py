"""Compiler options: backend, device and precision. This module imports neither torch nor graphs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from specs import Spec, ZooError, suggest

if TYPE_CHECKING:
    from compiler.graph import Purpose

BACKEND_NAMES = ("eager", "inductor", "native", "aot", "onnx", "tensorrt")
PRECISIONS = ("float32", "bfloat16", "int8")


class BackendOptions(TypedDict, total=False):
    """Keyword arguments that select device, precision and backend."""

    device: str
    """auto (the default, except in `compiler.build`), cpu, cuda or cuda:N."""
    precision: str | None
    """float32, bfloat16 or int8. If missing or None, use the spec's `compilation.precision`."""
    backend: str | None
    """auto, or a backend that `zoo doctor` lists. If missing or None, use the spec's `compilation.backend`."""


def choose_precision(spec: Spec, purposes: Iterable[Purpose], precision: str | None = None) -> str:
    """Return the precision of weights and matrix products in the graphs for the given purposes.

    These graphs share one copy of the weights, so they have the same precision.

    Args:
        spec: The spec. Its `compilation.precision` is ignored for training, because weights are trained in float32.
        purposes: Purposes of the graphs.
        precision: The precision to use. If None, use the spec's precision or, for training, float32.

    Raises:
        ZooError: The precision is unknown, or is not float32 although the purposes include training.
    """
    check_names(precision=precision)
    if not any(purpose.trains for purpose in purposes):
        return precision or spec.compilation.precision
    if precision not in (None, "float32"):
        hint = "omit the precision; `training.precision` in the spec sets the precision of matrix products in training"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return "float32"


def check_names(*, precision: str | None = None, backend: str | None = None) -> None:
    """Raise ZooError if the name of a precision or backend is unknown. A known backend may still be unavailable."""
    names = {"precision": (precision, PRECISIONS), "backend": (backend, ("auto", *BACKEND_NAMES))}
    for kind, (name, known) in names.items():
        if name not in (None, *known):
            hint = suggest(str(name), known).strip() or f"choose one of {', '.join(known)}"
            raise ZooError(f"`{name}` is not a {kind}", hint=hint)

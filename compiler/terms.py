"""What graphs are compiled to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler.graph import Purpose
from specs import Spec, ZooError

PRECISIONS = ("float32", "bfloat16", "int8")


@dataclass(frozen=True)
class Terms:
    """`device` is cpu or cuda; `precision` that of weights and products."""

    device: str = "cpu"
    precision: str = "float32"


def terms_of(spec: Spec, purposes: Iterable[Purpose], device: str = "cpu", precision: str | None = None) -> Terms:
    """Those for graphs that share their weights. What trains has them in float32, whatever a spec says of translating.

    `precision` overrides the spec's. Raises ZooError where it is none, or is none to train in.
    """
    if precision not in (None, *PRECISIONS):
        raise ZooError(f"`{precision}` is not a precision", hint=f"it is one of {', '.join(PRECISIONS)}")
    if Purpose.TRAIN not in purposes:
        return Terms(device.partition(":")[0], precision or spec.compilation.precision)
    if precision not in (None, "float32"):
        hint = "`training.precision` says in which its products are computed"
        raise ZooError(f"weights are trained in float32, not in {precision}", hint=hint)
    return Terms(device.partition(":")[0])

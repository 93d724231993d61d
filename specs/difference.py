"""What one spec changes against another."""

from collections.abc import Mapping
from typing import Any

from specs.spec import Spec


def difference(spec: Spec, other: Spec) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> (value in `other`, value in `spec`) of every field that differs, in a spec's order."""
    here, there = _leaves(spec.model_dump()), _leaves(other.model_dump())
    return {key: (there[key], value) for key, value in here.items() if there[key] != value}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            leaves |= _leaves(value, f"{prefix}{key}.")
        else:
            leaves[f"{prefix}{key}"] = value
    return leaves

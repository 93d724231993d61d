"""What one spec changes against another."""

from collections.abc import Mapping
from typing import Any

from specs.spec import Spec


def difference(spec: Spec, other: Spec) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> (value in `other`, value in `spec`) of every field that differs, in a spec's order."""
    return _differences(spec.model_dump(), other.model_dump())


def _differences(here: Mapping[str, Any], there: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, Any]]:
    """Both have the same keys; mappings that have not, such as those of two kinds, differ as a whole."""
    found: dict[str, tuple[Any, Any]] = {}
    for key, value in here.items():
        if isinstance(value, Mapping) and isinstance(there[key], Mapping) and value.keys() == there[key].keys():
            found |= _differences(value, there[key], f"{prefix}{key}.")
        elif value != there[key]:
            found[f"{prefix}{key}"] = (there[key], value)
    return found

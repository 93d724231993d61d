"""Check that an exported model is the same model when it is imported again."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pydantic import BaseModel

from specs import Architecture, ZooError
from specs.notation import quote_in_full
from zoo.interop.formats import USE_ONNX
from zoo.interop.tensors import SIDES

LAYERS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}
"""Sub-layers in each layer of the original Transformer, which all formats have except ONNX."""
_ONLY_FOR_TRAINING = {"dropout", "attention_dropout", "activation_dropout", "initial_weights"}
_ZEROS_IF_ADDED = {"projection_bias", "output_bias"}


def cannot_export(format: str, reason: str) -> ZooError:
    """Return the error for a model that a format cannot express."""
    return ZooError(f"cannot export this model to {format}: {reason}", hint=USE_ONNX)


def require_standard_layers(a: Architecture, format: str) -> None:
    """Raise ZooError unless the layers are those of the original Transformer."""
    for side, supported in LAYERS.items():
        if (kinds := tuple(sublayer.kind for sublayer in getattr(a, side))) != supported:
            names, known = ", ".join(kinds), ", ".join(supported)
            raise cannot_export(format, f"its {side} has layers of {names}, but this format has layers of {known}")


def require_same_architecture(
    before: Architecture, after: Architecture, format: str, ignored: Collection[str] = ()
) -> None:
    """Compare the architecture of a model with that after an export and an import.

    Args:
        before: The architecture of the model. It has the layers of the original Transformer.
        after: The architecture that the import reads from the exported model.
        format: The name of the format.
        ignored: Fields that may differ.

    Raises:
        ZooError: The architectures differ in a field that changes what the model computes. Biases may be added.
    """
    found = {key: value for key, _, value in _fields(after)}
    for key, label, value in _fields(before):
        name, other = key.rpartition(".")[2], found.get(key)
        is_added = name in _ZEROS_IF_ADDED and other
        if value != other and not is_added and label not in ignored and name not in _ONLY_FOR_TRAINING:
            ours, theirs = (quote_in_full(each).strip("`") for each in (value, other))
            raise cannot_export(format, f"in this format, `architecture.{label}: {ours}` would become `{theirs}`")


def _fields(a: Architecture) -> Iterator[tuple[str, str, Any]]:
    """Yield a key, the name in the spec, and the value of each field.

    An option of a sub-layer that is null has the name and the value of the architecture's field.
    """
    options = {name for side in SIDES for sublayer in getattr(a, side) for name in type(sublayer).model_fields}
    for name in type(a).model_fields:
        if name not in (*SIDES, *options - {"norm"}):
            yield from _flat(name, name, getattr(a, name))
    for side in SIDES:
        for index, sublayer in enumerate(getattr(a, side)):
            for name in type(sublayer).model_fields:
                own, key = getattr(sublayer, name), f"{side}[{index}].{name}"
                common = a.option(sublayer, "h") if name == "kv_heads" else getattr(a, name, None)
                yield from _flat(key, *((name, common) if own is None else (key, own)))


def _flat(key: str, label: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    if isinstance(value, BaseModel):
        for name, part in value:
            yield from _flat(f"{key}.{name}", f"{label}.{name}", part)
    else:
        yield key, label, value

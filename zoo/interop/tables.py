"""Two-way descriptions of other toolkits' models. The same table reads a model and writes it.

A table of settings pairs the keys of a settings file with fields of `architecture`. A table of tensors pairs names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specs import Architecture, FeedForward, ZooError
from zoo.interop.formats import USE_ONNX
from zoo.interop.settings import Settings
from zoo.interop.tensors import SIDES, ForeignTensors, copied

_SIDE = "{side}"
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
FIRST_POSITION = 2
"""Number of the first position in fairseq. Tables of learned positions begin with this many unused rows."""


class Setting(NamedTuple):
    """A setting that both toolkits have."""

    key: str
    """Key in the other toolkit's file. If it contains `{side}`, the file has one key for each side."""
    field: str
    """Field of `architecture`, such as `norm.epsilon`. With `{side}`, both sides have their own value."""
    default: Any
    """Value if the key is missing. Its type is the type of the setting. `int` means that an integer is required."""
    names: Mapping[str, str] | None = None
    """The other toolkit's names for the values, mapped to zoo's names. If a value has several, the first is written."""

    def keys(self) -> dict[str, str]:
        """Return the key for each side, or one key with an empty side."""
        sides = SIDES if _SIDE in self.key else ("",)
        return {side: self.key.replace(_SIDE, side) for side in sides}

    def read(self, settings: Settings) -> Iterator[tuple[str, Any]]:
        """Yield the field of `architecture` and its value, or one field for each side.

        Raises:
            ZooError: The value is invalid or not supported, or the sides have different values for a common field.
        """
        values = {side: self._value(settings, key) for side, key in self.keys().items()}
        if _SIDE in self.field:
            yield from ((self.field.replace(_SIDE, side), value) for side, value in values.items())
            return
        first, *others = values.values()
        for key, other in zip([*self.keys().values()][1:], others, strict=True):
            if other != first:
                raise settings.error(key, f"differs from the encoder's value `{first}`, but zoo supports one value")
        yield self.field, first

    def written(self, a: Any) -> Iterator[tuple[str, Any]]:
        """Yield each key with its value. Yield nothing if the object `a` does not have the field."""
        for side, key in self.keys().items():
            value: Any = a
            for name in self.field.replace(_SIDE, side).split("."):
                value = getattr(value, "depths" if name == "N" else name, None)
            if value is not None:
                yield key, next((name for name, ours in (self.names or {}).items() if ours == value), value)

    def _value(self, settings: Settings, key: str) -> Any:
        if self.names is not None:
            if (name := settings.text(key, self.default)) not in self.names:
                raise settings.error(key, "is a value that zoo does not support")
            return self.names[name]
        if isinstance(self.default, bool):
            return settings.boolean(key, self.default)
        if isinstance(self.default, float):
            return settings.number(key, self.default)
        return settings.integer(key, None if self.default is int else self.default, minimum=1)


def read_settings(settings: Settings, table: Iterable[Setting]) -> dict[str, Any]:
    """Return the fields of `architecture` that a table describes. Raises the same errors as `Setting.read`."""
    fields: dict[str, Any] = {}
    for setting in table:
        for path, value in setting.read(settings):
            *sections, name = path.split(".")
            reduce(lambda part, section: part.setdefault(section, {}), sections, fields)[name] = value
    return fields


def written_settings(a: Any, table: Iterable[Setting]) -> dict[str, Any]:
    """Return the other toolkit's settings that a table describes. This is the inverse of `read_settings`.

    Args:
        a: An architecture, or another object with the fields as attributes.
        table: The description of the settings.
    """
    return {key: value for setting in table for key, value in setting.written(a)}


class TensorRow(NamedTuple):
    """A tensor that both toolkits have."""

    foreign: str
    """Name in the other toolkit."""
    ours: str
    """Name in zoo."""
    shape: tuple[int, ...]
    """Shape in the other toolkit."""
    is_linear: bool = False
    """Whether it is the matrix of a linear map, which zoo stores transposed."""
    is_bias: bool = False
    """Whether zeros may replace the tensor if it is missing."""
    is_row: bool = False
    """Whether it is a vector that the other toolkit stores as a matrix with one row."""
    offset: float = 0.0
    """Number that the other toolkit adds to the tensor when it computes."""
    unused: int = 0
    """Number of unused rows at the beginning of the tensor in the other toolkit."""


def read_tensors(
    source: ForeignTensors, table: Iterable[TensorRow], *, optional_biases: bool = False
) -> dict[str, Tensor]:
    """Remove the tensors of a table from `source`. Return them with zoo's names as keys.

    Args:
        source: The tensors of the other toolkit's model.
        table: The description of the tensors.
        optional_biases: Whether missing biases become zeros.

    Raises:
        ZooError: A tensor is missing or invalid.
    """
    tensors = {}
    for row in table:
        if row.is_bias and optional_biases and row.foreign not in source.left:
            tensors[row.ours] = torch.zeros(row.shape)
        else:
            tensor = source.take(row.foreign, *row.shape)[row.unused :]
            tensor = tensor + row.offset if row.offset else tensor
            tensor = tensor.flatten() if row.is_row else tensor
            tensors[row.ours] = copied(tensor.T if row.is_linear else tensor)
    return tensors


def written_tensors(tensors: Mapping[str, Tensor], table: Iterable[TensorRow]) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a table with their names in the other toolkit. This is the inverse of `read_tensors`.

    Missing biases become zeros.

    Raises:
        ZooError: Another tensor is missing.
    """
    for row in table:
        if row.is_bias and row.ours not in tensors:
            yield row.foreign, torch.zeros(row.shape)
        elif row.ours not in tensors:
            raise ZooError(f"cannot export this model: the format requires a tensor `{row.ours}`", hint=USE_ONNX)
        else:
            tensor = tensors[row.ours].float()
            tensor = tensor - row.offset if row.offset else tensor
            tensor = torch.nn.functional.pad(tensor, (0, 0, row.unused, 0)) if row.unused else tensor
            tensor = tensor[None] if row.is_row else tensor
            yield row.foreign, copied(tensor.T if row.is_linear else tensor)


def pytorch_layers(a: Architecture, prefix: str = "") -> Iterator[TensorRow]:
    """Yield the tensors of the encoder and the decoder with the names of fairseq, which transformers uses, too.

    Args:
        a: An architecture with the layers of the original Transformer. Its norms are layer norms.
        prefix: The beginning of the names in the other toolkit.
    """
    for side in SIDES:
        for number in range(getattr(a.depths, side)):
            for sublayer in getattr(a, side):
                foreign, ours = f"{prefix}{side}.layers.{number}", f"{side}.{number}.{sublayer.kind}"
                if isinstance(sublayer, FeedForward):
                    yield from linear(f"{foreign}.fc1", f"{ours}.w1", (a.d_ff, a.d_model), f"{ours}.b1")
                    yield from linear(f"{foreign}.fc2", f"{ours}.w2", (a.d_model, a.d_ff), f"{ours}.b2")
                    yield from layer_norm(f"{foreign}.final_layer_norm", f"{ours}.norm", a.d_model)
                    continue
                part = f"{foreign}.{_ATTENTIONS[sublayer.kind]}"
                for name, theirs in _PROJECTIONS.items():
                    bias = f"{ours}.{name}_bias" if a.projection_bias else None
                    yield from linear(f"{part}.{theirs}", f"{ours}.{name}", (a.d_model, a.d_model), bias)
                yield from layer_norm(f"{part}_layer_norm", f"{ours}.norm", a.d_model)
        if a.norm.placement == "pre":
            yield from layer_norm(f"{prefix}{side}.layer_norm", f"{side}.norm", a.d_model)
        if a.norm.embeddings:
            yield from layer_norm(f"{prefix}{side}.layernorm_embedding", f"{side}.embedding_norm", a.d_model)


def learned_positions(a: Architecture, prefix: str = "") -> Iterator[TensorRow]:
    """Yield the tables of learned positions with the names of fairseq, if there are any."""
    for side in SIDES if a.max_positions is not None else ():
        shape = ((a.max_positions or 0) + FIRST_POSITION, a.d_model)
        foreign = f"{prefix}{side}.embed_positions.weight"
        yield TensorRow(foreign, f"{side}.positions", shape, unused=FIRST_POSITION)


def linear(foreign: str, ours: str, shape: tuple[int, int], bias: str | None = None) -> Iterator[TensorRow]:
    """Yield the weight of a linear map, and the bias if `bias`, its name in zoo, is given."""
    yield TensorRow(f"{foreign}.weight", ours, shape, is_linear=True)
    if bias:
        yield TensorRow(f"{foreign}.bias", bias, shape[:1], is_bias=True)


def layer_norm(foreign: str, ours: str, d_model: int) -> Iterator[TensorRow]:
    """Yield the gain and the bias of a layer norm."""
    yield TensorRow(f"{foreign}.weight", f"{ours}_gain", (d_model,))
    yield TensorRow(f"{foreign}.bias", f"{ours}_bias", (d_model,))

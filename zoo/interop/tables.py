"""Tables that convert other toolkits' settings and tensors to zoo's settings and tensors, and back.

Import and export use the same tables. A settings table maps the keys of a settings file to fields of `architecture`. A
tensor table maps the other toolkit's tensor names to zoo's names. A setting is known if a table or another caller has
read it, or if `known_settings.yaml` lists it. Unknown settings are errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml
from torch import Tensor

from compiler import Purpose, lower
from specs import Spec, ZooError
from specs.notation import quote_in_full
from zoo.interop.formats import USE_ONNX
from zoo.interop.tensors import SIDES, ForeignTensors, copied

KNOWN_SETTINGS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("known_settings.yaml").read_text("utf-8")
)
"""Content of `known_settings.yaml`."""
_SIDE = "{side}"
_BIAS, _GAIN, _NORM_BIAS = 1, 2, 3
"""Indices of the words in `Layout.words`. The word for a matrix has index 0."""
FIRST_POSITION = 2
"""Number of the first position in fairseq. Tables of learned positions begin with this many unused rows."""


class Settings:
    """Settings from a file. After an import, `require_all_known` rejects keys that were neither read nor ignored."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """Wrap the settings.

        Args:
            values: The settings.
            where: The file, for error messages.
        """
        self.values, self.where = values, where
        self.known: set[str] = set()
        """Keys that were read or ignored."""

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0) -> int:
        """Return the integer value of a key.

        Raises:
            ZooError: The value is not an integer, it is below the minimum, or it is missing and has no default.
        """
        value = self._value(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return value
        raise self.error(key, f"is not an integer of at least {minimum}")

    def number(self, key: str, default: float) -> float:
        """Return the value of a key as a float. Raise ZooError if the value is not a number."""
        value = self._value(key, default)
        try:
            return float(value)  # a YAML parser may return 1e-05 as text
        except (TypeError, ValueError):
            raise self.error(key, "is not a number") from None

    def boolean(self, key: str, default: bool) -> bool:
        """Return the Boolean value of a key. Raise ZooError if the value is neither true nor false."""
        value = self._value(key, default)
        if isinstance(value, bool):
            return value
        raise self.error(key, "is neither true nor false")

    def text(self, key: str, default: str | None = None) -> str:
        """Return the string value of a key. Raise ZooError if it is not a string, or is missing and has no default."""
        value = self._value(key, default)
        if isinstance(value, str):
            return value
        raise self.error(key, "is not a string")

    def any(self, key: str, default: Any = None) -> Any:
        """Return a value of any type, or the default if the key is missing."""
        self.known.add(key)
        return self.values.get(key, default)

    def require(self, allowed: Mapping[str, Collection[Any]]) -> None:
        """Raise ZooError if a key is present and its value is not one of the allowed values."""
        for key, values in allowed.items():
            self.known.add(key)
            if key in self.values and not any(_equal(self.values[key], value) for value in values):
                raise self.error(key, "is a setting that zoo does not support")

    def require_known(self, *sections: str) -> None:
        """Check the settings that the given sections of `known_settings.yaml` list.

        Raises:
            ZooError: A setting has a value that zoo does not support.
        """
        for section in sections:
            known = KNOWN_SETTINGS[section]
            self.require(known.get("allowed", {}))
            self.ignore(*known.get("ignored", "").split())

    def ignore(self, *keys: str) -> None:
        """Accept any value of these keys, because they do not change what the model computes."""
        self.known.update(keys)

    def require_all_known(self) -> None:
        """Raise ZooError if a key was neither read nor ignored, because it may change what the model computes."""
        for key in self.values:
            if key not in self.known:
                raise self.error(key, "is an unknown setting, which may change what the model computes")

    def error(self, key: str, problem: str, hint: str | None = None) -> ZooError:
        """Return an error about the value of a key.

        Args:
            key: The key of the invalid setting.
            problem: What is wrong, as the end of a sentence that begins with the key and its value.
            hint: What the user can do.
        """
        value = quote_in_full(self.values.get(key)).strip("`")
        return ZooError(f"`{key}: {value}` {problem}", where=self.where, hint=hint)

    def _value(self, key: str, default: Any) -> Any:
        self.known.add(key)
        if self.values.get(key) is not None:
            return self.values[key]
        if default is None and key not in self.values:
            hint = "restore the file from the model's original source"
            raise ZooError(f"the `{key}` setting is missing", where=self.where, hint=hint)
        return default


def _equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal. Unlike Python's `==`, treat True and 1 as different."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


class Setting(NamedTuple):
    """Setting of another toolkit, and the corresponding field of `architecture`."""

    key: str
    """Key in the other toolkit's file. If it contains `{side}`, the file has one key for each side."""
    field: str
    """Field of `architecture`, such as `norm.epsilon`. If it contains `{side}`, there is one field for each side."""
    default: Any
    """Default value. Its type is the type of the setting. `int` means that an integer is required."""
    names: Mapping[str, str] | None = None
    """The other toolkit's values, mapped to zoo's values. If several have the same meaning, export the first."""

    def keys(self) -> dict[str, str]:
        """Map `encoder` and `decoder` to the setting's keys. If both share one key, map an empty string to this key."""
        sides = SIDES if _SIDE in self.key else ("",)
        return {side: self.key.replace(_SIDE, side) for side in sides}

    def read(self, settings: Settings) -> Iterator[tuple[str, Any]]:
        """Yield the fields of `architecture` that the setting determines, with their values.

        Raises:
            ZooError: The value is invalid or not supported, or the encoder and the decoder have different values for a
                field that they share.
        """
        values = {side: self._value(settings, key) for side, key in self.keys().items()}
        if _SIDE in self.field:
            yield from ((self.field.replace(_SIDE, side), value) for side, value in values.items())
            return
        first, *others = values.values()
        for key, other in zip([*self.keys().values()][1:], others, strict=True):
            if other != first:
                raise settings.error(key, f"differs from the encoder's value `{first}`, but the values must be equal")
        yield self.field, first

    def written(self, a: Any) -> Iterator[tuple[str, Any]]:
        """Yield the other toolkit's keys with the value of the field in `a`. Yield nothing if `a` lacks the field."""
        for side, key in self.keys().items():
            value: Any = a
            for name in self.field.replace(_SIDE, side).split("."):
                value = getattr(value, "depths" if name == "N" else name, None)  # `N` may be one number for both sides
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
    """Convert the settings in a table to fields of `architecture`. Raise the same errors as `Setting.read`."""
    fields: dict[str, Any] = {}
    for setting in table:
        for path, value in setting.read(settings):
            *sections, name = path.split(".")
            part = fields
            for section in sections:
                part = part.setdefault(section, {})
            part[name] = value
    return fields


def written_settings(a: Any, table: Iterable[Setting]) -> dict[str, Any]:
    """Convert fields of `architecture` to the other toolkit's settings. This is the inverse of `read_settings`.

    Args:
        a: An architecture, or another object with the fields as attributes.
        table: The description of the settings.
    """
    return {key: value for setting in table for key, value in setting.written(a)}


class TensorRow(NamedTuple):
    """Tensor of another toolkit, and the corresponding tensor in zoo."""

    foreign: str
    """Name in the other toolkit."""
    ours: str
    """Name in zoo."""
    shape: tuple[int, ...]
    """Shape in the other toolkit."""
    is_linear: bool = False
    """Whether the tensor is the matrix of a linear map, which zoo stores transposed."""
    is_bias: bool = False
    """Whether zeros may replace the tensor if it is missing."""
    is_row: bool = False
    """Whether the tensor is a vector that the other toolkit stores as a matrix with one row."""
    unused: int = 0
    """Number of unused rows at the beginning of the tensor in the other toolkit."""


NamedTensors = Iterator[tuple[str, Tensor]]
"""Tensors with their names in the other toolkit."""


def read_tensors(
    source: ForeignTensors, table: Iterable[TensorRow], *, optional_biases: bool = False
) -> dict[str, Tensor]:
    """Remove the tensors in a table from `source`, and return the tensors with zoo's names and layout.

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
            tensor = tensor.flatten() if row.is_row else tensor
            tensors[row.ours] = copied(tensor.T if row.is_linear else tensor)
    return tensors


def written_tensors(tensors: Mapping[str, Tensor], table: Iterable[TensorRow]) -> NamedTensors:
    """Yield the tensors that a table describes, with the other toolkit's names. This is the inverse of `read_tensors`.

    Missing biases become zeros.

    Raises:
        ZooError: A tensor that is not a bias is missing.
    """
    for row in table:
        if row.is_bias and row.ours not in tensors:
            yield row.foreign, torch.zeros(row.shape)
        elif row.ours not in tensors:
            raise ZooError(f"cannot export this model: the format requires a tensor `{row.ours}`", hint=USE_ONNX)
        else:
            tensor = tensors[row.ours].float()
            tensor = torch.nn.functional.pad(tensor, (0, 0, row.unused, 0)) if row.unused else tensor
            tensor = tensor[None] if row.is_row else tensor
            yield row.foreign, copied(tensor.T if row.is_linear else tensor)


@dataclass(frozen=True)
class Layout:
    """Names and layout of another toolkit's layer tensors."""

    names: Mapping[str, str]
    """Names in the other toolkit, keyed by the end of zoo's name, such as `self_attention.query`.

    A matrix and its bias share an entry. The gain and the bias of a norm also share an entry. If encoder and
    decoder have different names, the key begins with the stack (`encoder.feed_forward.w1`). In the values, `{side}`
    stands for the stack, `{number}` for the layer, `{next}` for the layer counted from 1, `{index}` for the sub-layer,
    and `{tensor}` for a word of `words`. Tensors without an entry are omitted.
    """
    words: tuple[str, str, str, str] = ("weight", "bias", "weight", "bias")
    """Words for a matrix, its bias, the gain of a norm, and the bias of a norm."""
    is_transposed: bool = True
    """Whether the other toolkit stores the transposed matrices of linear maps."""
    vectors_are_rows: bool = False
    """Whether the other toolkit stores vectors as matrices with one row."""
    unused_positions: int = 0
    """Number of unused rows at the beginning of position embeddings."""

    def rows(self, spec: Spec) -> Iterator[TensorRow]:
        """Yield a table row for each tensor of the layers. The spec determines the shapes."""
        for parameter in lower(spec, Purpose.SCORE).parameters.values():
            for tensor in parameter.origin.stored():
                *layer, last = tensor.name.split(".")
                side, number, kind = (*layer, "", "", "")[:3]  # tensors outside the layers have at most a side
                base, word = _base(last)
                key = f"{kind}.{base}" if kind else base
                if (name := self.names.get(f"{side}.{key}", self.names.get(key))) is None:
                    continue
                index = [each.kind for each in getattr(spec.architecture, side)].index(kind) if kind else None
                foreign = name.format(
                    side=side, number=number, next=int(number or 0) + 1, index=index, tensor=self.words[word]
                )
                yield self._row(foreign, tensor.name, tensor.shape, word, is_table=base.endswith("positions"))

    def _row(self, foreign: str, ours: str, shape: tuple[int, ...], word: int, *, is_table: bool) -> TensorRow:
        is_linear = self.is_transposed and len(shape) == 2 and not is_table
        is_row = self.vectors_are_rows and len(shape) == 1
        unused = self.unused_positions if is_table else 0
        shape = shape[::-1] if is_linear else (1, *shape) if is_row else (shape[0] + unused, *shape[1:])
        return TensorRow(foreign, ours, shape, is_linear, word == _BIAS, is_row, unused)


def _base(name: str) -> tuple[str, int]:
    """Split a tensor name into its stem and an index in `Layout.words`: `query_bias` into `query` and 1."""
    if name in ("b1", "b2"):
        return f"w{name[1]}", _BIAS
    for ending, word in (("_gain", _GAIN), ("norm_bias", _NORM_BIAS), ("_bias", _BIAS)):
        if name.endswith(ending):
            return name.rpartition("_")[0], word
    return name, 0


def attention_names(parts: Mapping[str, str], projections: Sequence[str], pattern: str) -> dict[str, str]:
    """Return the entries of `Layout.names` for attention projections.

    Args:
        parts: The other toolkit's names of the attention sub-layers, keyed by zoo's names, such as `self_attention`.
        projections: The other toolkit's names of the query, key, value and output projections.
        pattern: The pattern of the names, with the placeholders `{attention}` and `{projection}`.
    """
    ours = ("query", "key", "value", "output")
    return {
        f"{kind}.{name}": pattern.replace("{attention}", part).replace("{projection}", projection)
        for kind, part in parts.items()
        for name, projection in zip(ours, projections, strict=True)
    }


def pytorch_layout(prefix: str = "", *, with_positions: bool = True) -> Layout:
    """Return the names of tensors in fairseq's Transformer layers. transformers uses the same names.

    Args:
        prefix: The beginning of the names in the other toolkit.
        with_positions: Whether the layout contains tables of learned positions.
    """
    side, attentions = f"{prefix}{{side}}", {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
    layer = f"{side}.layers.{{number}}"
    names = {
        **attention_names(
            attentions,
            ("q_proj", "k_proj", "v_proj", "out_proj"),
            f"{layer}.{{attention}}.{{projection}}.{{tensor}}",
        ),
        **{f"{kind}.norm": f"{layer}.{part}_layer_norm.{{tensor}}" for kind, part in attentions.items()},
        "feed_forward.w1": f"{layer}.fc1.{{tensor}}",
        "feed_forward.w2": f"{layer}.fc2.{{tensor}}",
        "feed_forward.norm": f"{layer}.final_layer_norm.{{tensor}}",
        "norm": f"{side}.layer_norm.{{tensor}}",
        "embedding_norm": f"{side}.layernorm_embedding.{{tensor}}",
        **({"positions": f"{side}.embed_positions.weight"} if with_positions else {}),
    }
    return Layout(names, unused_positions=FIRST_POSITION)

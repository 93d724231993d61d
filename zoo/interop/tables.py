"""Tables that convert other toolkits' settings and tensors to zoo's settings and tensors, and back.

Import and export use the same tables, which are in `toolkits.yaml`. A settings table maps the keys of a settings file
to fields of `architecture`. A tensor table maps the other toolkit's tensor names to zoo's names. A setting is known if
`toolkits.yaml` lists it, or if a caller has read it. Unknown settings are errors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compiler import Purpose, lower
from specs import Spec, ZooError
from specs.notation import quote_in_full
from zoo.interop import documents
from zoo.interop.formats import USE_ONNX
from zoo.interop.tensors import STACKS, ForeignTensors, copied

TOOLKITS: Mapping[str, Mapping[str, Any]] = list(documents())[1]
"""Tables of settings and tensors in `toolkits.yaml`."""
_SIDE = "{side}"
_BIAS, _GAIN, _NORM_BIAS = 1, 2, 3
"""Indices of the words in `Layout.words`. The word for a matrix has index 0."""
PROJECTIONS = ("query", "key", "value", "output")
FIRST_POSITION = 2
"""Number of the first position in fairseq. Learned position embeddings begin with this many unused rows."""
FAIRSEQ_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""Names of the tokens with the IDs 0 to 3 in models that fairseq trained."""
START, PAD_ROW, END, UNKNOWN = range(4)


class Settings:
    """Settings of another toolkit's model, read from a file.

    After an import, `require_all_known` rejects keys that were neither read nor ignored.
    """

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """Wrap the settings.

        Args:
            values: The values of the settings, keyed by name.
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
        """Return the value of a key, which may have any type. If the key is missing, return the default."""
        self.known.add(key)
        return self.values.get(key, default)

    def require(self, allowed: Mapping[str, Collection[Any]]) -> None:
        """Raise ZooError if a key is present and its value is not one of the allowed values."""
        for key, values in allowed.items():
            self.known.add(key)
            if key in self.values and not any(_equal(self.values[key], value) for value in values):
                raise self.error(key, "is a setting that zoo does not support")

    def require_known(self, *sections: str) -> None:
        """Check the settings that are listed in the given sections of `toolkits.yaml`.

        Raises:
            ZooError: A setting has a value that zoo does not support.
        """
        for section in sections:
            self.require(TOOLKITS[section].get("allowed", {}))
            self.ignore(*TOOLKITS[section].get("ignored", "").split())

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
    """Setting in another toolkit, and the corresponding field of `architecture`."""

    key: str
    """Key in the other toolkit's file."""
    field: str
    """Field of `architecture`, such as `norm.epsilon`."""
    default: Any = None
    """Default value. Its type is the type of the setting. None if the setting is a required integer."""
    names: Mapping[Any, Any] | None = None
    """The other toolkit's values, mapped to zoo's values. Of values with equal meaning, an export writes the first."""
    like: str | None = None
    """Key of a setting that is listed earlier. Its value is the default value of this setting."""

    @classmethod
    def listed(cls, sections: Sequence[str]) -> Iterator[Setting]:
        """Yield the settings that are listed in the given sections of `toolkits.yaml`.

        If a key contains `{side}`, yield one setting for the encoder and one for the decoder.
        """
        for section in sections:
            for key, row in TOOLKITS[section].get("converted", {}).items():
                for side in STACKS if _SIDE in key else ("",):
                    fields = {**row, "field": row["field"].replace(_SIDE, side)}
                    yield cls(key=key.replace(_SIDE, side), **fields)

    def read(self, settings: Settings, default: Any) -> Any:
        """Return the setting's value. Raise ZooError if it is invalid or not supported."""
        readers: Mapping[type, Any] = {bool: settings.boolean, float: settings.number, str: settings.text}
        value = readers.get(type(default), partial(settings.integer, minimum=1))(self.key, default)
        if self.names is not None and value not in self.names:
            raise settings.error(self.key, "is a value that zoo does not support")
        return value

    def written(self, a: Any) -> Any:
        """Return the setting's value in the other toolkit, or None if no such value corresponds to zoo's value."""
        value: Any = a
        for name in self.field.split("."):
            value = getattr(value, "depths" if name == "N" else name, None)  # `N` may be one number for both sides
        if self.names is None:
            return value
        return next((name for name, ours in self.names.items() if ours == value), None)


def read_settings(settings: Settings, *sections: str) -> dict[str, Any]:
    """Check the settings listed in the given sections of `toolkits.yaml`. Convert them to `architecture` fields.

    If there is no setting for `d_k`, `d_k` is d_model divided by the number of heads. `d_v` is equal to `d_k`.

    Raises:
        ZooError: A setting has a value that zoo does not support, or two settings give a field different values.
    """
    settings.require_known(*sections)
    fields: dict[str, Any] = {}
    for section in sections:
        for field, value in TOOLKITS[section].get("fixed", {}).items():
            _set(fields, field, value)
    values: dict[str, Any] = {}
    keys: dict[str, str] = {}  # the first key of each field
    for setting in Setting.listed(sections):
        default = setting.default if setting.like is None else values[setting.like]
        value = values[setting.key] = setting.read(settings, default)
        value = value if setting.names is None else setting.names[value]
        first = keys.setdefault(setting.field, setting.key)
        if _set(fields, setting.field, value) != value:
            raise settings.error(
                setting.key, f"differs from `{first}: {values[first]}`, but zoo supports only one value"
            )
    d_model, h = fields["d_model"], fields["h"]
    if "d_k" not in fields and (d_model % h or d_model % 2 or d_model < 4):
        raise settings.error(keys["d_model"], f"is odd, less than 4, or cannot be divided among {h} heads")
    fields.setdefault("d_k", d_model // h)
    return {**fields, "d_v": fields["d_k"]}


def _set(fields: dict[str, Any], field: str, value: Any) -> Any:
    """Set a field such as `norm.epsilon`, unless the field already has a value. Return the value of the field."""
    *sections, name = field.split(".")
    for section in sections:
        fields = fields.setdefault(section, {})
    return fields.setdefault(name, value)


def written_settings(a: Any, *sections: str) -> dict[str, Any]:
    """Return the other toolkit's settings for an exported model. This is the inverse of `read_settings`.

    Args:
        a: An architecture, or another object with the fields as attributes.
        sections: The sections of `toolkits.yaml` that describe the settings.
    """
    settings: dict[str, Any] = {}
    for section in sections:
        settings |= TOOLKITS[section].get("written", {})
    written = {setting.key: setting.written(a) for setting in Setting.listed(sections)}
    return settings | {key: value for key, value in written.items() if value is not None}


class TensorRow(NamedTuple):
    """Tensor in another toolkit, and the corresponding tensor in zoo."""

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
    """Pop the tensors that a table lists from `source`. Return tensors with zoo's names and layout.

    Args:
        source: The tensors of the other toolkit's model.
        table: The names and shapes of the tensors to pop.
        optional_biases: Whether a missing bias is replaced with zeros. Otherwise, a missing bias is an error.

    Raises:
        ZooError: A tensor is missing or invalid.
    """
    tensors = {}
    for row in table:
        if row.is_bias and optional_biases and row.foreign not in source:
            tensors[row.ours] = torch.zeros(row.shape)
        else:
            tensor = source.take(row.foreign, *row.shape)[row.unused :]
            tensor = tensor.flatten() if row.is_row else tensor
            tensors[row.ours] = copied(tensor.T if row.is_linear else tensor)
    return tensors


def written_tensors(tensors: Mapping[str, Tensor], table: Iterable[TensorRow]) -> NamedTensors:
    """Yield the listed tensors with the other toolkit's names and layout. This is the inverse of `read_tensors`.

    Missing biases are replaced with zeros.

    Raises:
        ZooError: A tensor that is not a bias is missing.
    """
    for row in table:
        if row.is_bias and row.ours not in tensors:
            yield row.foreign, torch.zeros(row.shape)
        elif row.ours not in tensors:
            problem = f"cannot export this model: it lacks the tensor `{row.ours}`, which the format requires"
            raise ZooError(problem, hint=USE_ONNX)
        else:
            tensor = tensors[row.ours].float()
            tensor = torch.nn.functional.pad(tensor, (0, 0, row.unused, 0)) if row.unused else tensor
            tensor = tensor[None] if row.is_row else tensor
            yield row.foreign, copied(tensor.T if row.is_linear else tensor)


@dataclass(frozen=True)
class Layout:
    """Names and layout of another toolkit's tensors, except embeddings and the output projection.

    The names contain placeholders: `{side}` (encoder or decoder), `{number}` (layer index from 0), `{next}` (layer
    number from 1), `{index}` (sub-layer index), `{part}` (an entry of `parts`), `{projection}` (an entry of
    `projections`), and `{tensor}` (an entry of `words`).
    """

    stack: str
    """Prefix of all tensor names of the encoder or decoder, such as `model.{side}.`."""
    layer: str
    """Part that follows `stack` in the names of a layer's tensors, such as `layers.{number}.`."""
    parts: Mapping[str, str]
    """The other toolkit's names of the sub-layers, keyed by zoo's names, such as `self_attention`."""
    names: Mapping[str, str]
    """Last parts of the other toolkit's names, keyed by the last part of zoo's name, such as `w2`.

    `projection` is the key of all attention projections, and `gated_w1` is the key of `w1` in gated networks. A matrix
    and its bias share an entry, as do the gain and the bias of a norm. If a name depends on the sub-layer, the key
    begins with the sub-layer (`feed_forward.norm`), or with `stack` for tensors outside the layers (`stack.norm`).
    Tensors without an entry are omitted.
    """
    projections: Sequence[str] = "qkvo"
    """The other toolkit's names of the query, key, value and output projections."""
    words: tuple[str, str, str, str] = ("weight", "bias", "weight", "bias")
    """Words for a matrix, its bias, the gain of a norm, and the bias of a norm."""
    is_transposed: bool = True
    """Whether the other toolkit stores the transposed matrices of linear maps."""
    vectors_are_rows: bool = False
    """Whether the other toolkit stores vectors as matrices with one row."""
    unused_positions: int = 0
    """Number of unused rows at the beginning of position embeddings."""

    def rows(self, spec: Spec) -> Iterator[TensorRow]:
        """Yield a `TensorRow` for each tensor of a model with this spec, except tensors that `self.names` omits."""
        projections = dict(zip(PROJECTIONS, self.projections, strict=True))
        for parameter in lower(spec, Purpose.SCORE).parameters.values():
            for tensor in parameter.origin.stored():
                *layer, last = tensor.name.split(".")
                side, number, kind = (*layer, "", "", "")[:3]  # tensors outside the layers have at most a side
                sublayers = {each.kind: each for each in getattr(spec.architecture, side, ())}
                base, word = _base(last)
                if base == "w1" and getattr(sublayers[kind], "gated", False):
                    base = "gated_w1"
                general = self.names.get("projection" if kind and base in projections else base)
                if (name := self.names.get(f"{kind or 'stack'}.{base}", general)) is None:
                    continue
                foreign = f"{self.stack}{self.layer if kind else ''}{name}".format(
                    side=side,
                    number=number,
                    next=int(number or 0) + 1,
                    index=[*sublayers].index(kind) if kind else None,
                    part=self.parts.get(kind),
                    projection=projections.get(base),
                    tensor=self.words[word],
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


def tensor_layout(section: str) -> Layout:
    """Return the names and the layout of the tensors that are listed in a section of `toolkits.yaml`."""
    return Layout(**TOOLKITS[section]["tensors"])

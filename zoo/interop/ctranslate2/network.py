"""CTranslate2's Transformer: the file `model.bin`, the names of its variables, and its settings.

The file contains named variables (tensors), which may be quantised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float32
from torch import Tensor

from compiler.lowering.positions import alibi_slope
from specs import Spec, ZooError
from zoo.files.reading import damaged, open_file
from zoo.interop.formats import LAYERS
from zoo.interop.loading import BinaryReader
from zoo.interop.tables import TensorRow, read_tensors, tensor_layout, written_tensors
from zoo.interop.tensors import STACKS, EmbeddingTables, ForeignTensors, convert_positions, copied

ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
"""zoo's names of activations, by CTranslate2's numbers."""
POSITIONS = 4096
"""Number of positions in exported sinusoid tables, and of distances for which exported ALiBi biases are exact."""
_PARTS = tensor_layout("ctranslate2").parts
_CONCATENATED = {
    "self_attention": {"query": 0, "key": 0, "value": 0, "output": 1},
    "attention": {"query": 0, "key": 1, "value": 1, "output": 2},
}
"""Index of the linear map in CTranslate2's attention that contains each projection."""
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # for models that do not store the number of heads
_DEFAULT_HEADS = 8
_DEFAULT_EPSILON = {"layer_norm": 1e-5, "rms_norm": 1e-6}
_DEFAULT_ROTARY_BASE = 10_000.0
_NO_EFFECT = {"alignment_layer", "alignment_heads", "embeddings_merge", "multi_query_attention"}
_MUST_BE_OFF = {
    **dict.fromkeys(("alibi", "alibi_use_positive_positions", "scale_alibi"), "linear biases of attention (ALiBi)"),
    "sliding_window": "attention with a sliding window",
    "final_logit_softcapping": "soft-capped logits",
}
"""Flags of features that zoo cannot import, with the name of each feature. A model may contain a flag that is off."""
_VERSIONS = range(2, 7)
"""File versions that zoo reads. Version 2 added the model's name and revision, 3 added aliases, and 4 data types."""
_TYPES = dict(enumerate((torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)))
_TYPES_BY_SIZE = {4: torch.float32, 2: torch.int16, 1: torch.int8}  # before version 4
_DEFAULT_INT16_SCALE = 1000.0
_KINDS = ("", "TransformerBase", "TransformerBig", "TransformerSpec")
_REVISIONS = range(2, 8)


def _text(reader: BinaryReader) -> str:
    return reader.text(reader.integer("H"))


def _variable(reader: BinaryReader, version: int) -> tuple[str, Tensor]:
    name = _text(reader)
    shape = [reader.integer("I") for _ in range(reader.integer("B"))]
    code, length = reader.integer("B"), reader.integer("I")
    dtype = (_TYPES if version >= 4 else _TYPES_BY_SIZE).get(code)
    if dtype is None:
        raise ValueError(f"`{name}` has the unknown type {code}")
    size = prod(shape) * dtype.itemsize
    if size != (length if version >= 4 else length * dtype.itemsize):
        raise ValueError(f"the shape of `{name}` does not match the number of bytes")
    if not size:
        return name, torch.empty(0, dtype=dtype)
    return name, torch.frombuffer(reader.bytes(size), dtype=dtype).reshape(shape)


def _dequantized(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Dequantise the quantised matrices as CTranslate2 does, and remove their scales.

    Raises:
        ValueError: The scale of a matrix is missing or invalid.
    """
    variables = {}
    for name, tensor in stored.items():
        if tensor.dim() == 2 and tensor.dtype in (torch.int8, torch.int16):
            scale = stored.get(f"{name}_scale")
            if scale is None and tensor.dtype is torch.int16:
                scale = torch.tensor(_DEFAULT_INT16_SCALE)
            if scale is None or scale.numel() not in (1, len(tensor)) or not bool((scale.float() != 0).all()):
                raise ValueError(f"the scale of the quantised variable `{name}` is missing or invalid")
            variables[name] = tensor.float() * (1 / scale.float().reshape(-1, 1))
        elif not name.endswith("weight_scale"):
            variables[name] = tensor
    return variables


def _rows(spec: Spec) -> Iterator[TensorRow]:
    placement = spec.architecture.norm.placement
    return tensor_layout("ctranslate2.both" if placement == "both" else "ctranslate2").rows(spec)


def _stored(foreign: str) -> str:
    """Convert a tensor's name in `toolkits.yaml` to the name of the variable in `model.bin` that contains it."""
    part, name, kind = foreign.rsplit("/", 2)
    number = _CONCATENATED.get(part.rpartition("/")[2], {}).get(name)
    return foreign if number is None else f"{part}/linear_{number}/{kind}"


def read_layers(source: ForeignTensors, spec: Spec) -> dict[str, Tensor]:
    """Pop the variables of all layers from `source`. Return tensors with zoo's names. Missing biases become zeros.

    Raises:
        ZooError: A variable is missing or has the wrong shape.
    """
    table, groups = [*_rows(spec)], dict[str, list[TensorRow]]()
    for row in table:
        groups.setdefault(_stored(row.foreign), []).append(row)
    for name, parts in groups.items():
        if name in source:
            sizes = [row.shape[0] for row in parts]
            tensors = torch.split(source.take(name, sum(sizes), *parts[0].shape[1:]), sizes)
            source.update({row.foreign: tensor for row, tensor in zip(parts, tensors, strict=True)})
    return read_tensors(source, table, optional_biases=True)


def written_layers(spec: Spec, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the tensors of all layers to CTranslate2's variables. This is the inverse of `read_layers`."""
    concatenated: dict[str, list[Tensor]] = {}
    for foreign, tensor in written_tensors(tensors, _rows(spec)):
        concatenated.setdefault(_stored(foreign), []).append(tensor)
    return {name: torch.cat(parts) for name, parts in concatenated.items()}


def alibi_table(heads: int, side: str) -> Float32[Tensor, "buckets h"]:
    """Return a table of relative position biases that emulates ALiBi.

    Each distance below `POSITIONS` has its own bucket. Distances up to `2 * POSITIONS` share the other buckets.
    """
    slopes = torch.tensor([alibi_slope(head, heads) for head in range(heads)])
    table = -torch.arange(2.0 * POSITIONS)[:, None] * slopes
    return table.repeat(2, 1) if side == "encoder" else table  # in the encoder, each direction has one half


class Network(ForeignTensors):
    """Transformer in a `model.bin`. The import fails if it leaves any relevant variable unused.

    Attributes:
        version: Version of the file format.
        name: Class of the model in CTranslate2, such as TransformerSpec.
        revision: Revision of this class, which CTranslate2 increases when the variables change.
        number_type: Data type of most matrices in the file, such as `int8`. The variables are dequantised to float32.
        depths: Number of layers in the encoder and in the decoder.
    """

    def __init__(self, file: Path) -> None:
        """Read a `model.bin`.

        Raises:
            ZooError: The version of the file or the class of the model is not supported.
            Exception: The file is damaged.
        """
        with open_file(file) as stream:
            reader = BinaryReader(stream, file)
            self.version = reader.integer("I")
            if self.version not in _VERSIONS:
                supported = f"zoo supports versions {_VERSIONS[0]} to {_VERSIONS[-1]}"
                hint = "convert the model again with a converter from CTranslate2 1.0 or newer"
                raise ZooError(f"`{file}` uses version {self.version} of the binary format, but {supported}", hint=hint)
            self.name, self.revision = _text(reader), reader.integer("I")
            stored = dict(_variable(reader, self.version) for _ in range(reader.integer("I")))
            variables = _dequantized(stored)
            if self.version >= 3:
                for _ in range(reader.integer("I")):
                    alias, original = _text(reader), _text(reader)
                    if original not in variables:
                        raise ValueError(f"`{alias}` is an alias of `{original}`, which does not exist")
                    variables[alias] = variables[original]
            if reader.left:
                raise ValueError(f"there are {reader.left:,} unexpected bytes after the last variable")
        super().__init__(variables, file)
        types = Counter(str(tensor.dtype).removeprefix("torch.") for tensor in stored.values() if tensor.dim() == 2)
        self.number_type = next(iter(dict(types.most_common(1))), "float32")
        self._require_transformer()
        self.depths = {side: self._depth(side) for side in STACKS}
        self._heads = self._same("num_heads", _HEADS.get(self.name, _DEFAULT_HEADS))

    def _require_transformer(self) -> None:
        if self.name not in _KINDS:
            supported = "zoo imports only text-to-text encoder-decoder Transformers"
            raise ZooError(f"cannot import a CTranslate2 model of the type `{self.name}`: {supported}")
        if self.revision not in _REVISIONS:
            supported = f"zoo reads revisions {_REVISIONS[0]} to {_REVISIONS[-1]}"
            problem = f"the model has revision {self.revision} of CTranslate2's Transformer, but {supported}"
            raise ZooError(problem, hint="convert the model again with a current CTranslate2 converter")

    def architecture(self, epsilon: float | None) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return two mappings: the fields of `architecture` without the embedding fields, and the position tensors.

        Args:
            epsilon: The epsilon of the normalisation layers, if the settings contain it.

        Raises:
            ZooError: The model has a property that zoo does not support, or a variable is missing or damaged.
        """
        d_model, placement = self._rows("decoder/embeddings/weight", 1), "pre" if self._same("pre_norm", 1) else "post"
        if "encoder/layer_0/input_layer_norm/gamma" in self:
            placement = "both"
        norm = "layer_norm" if any(name.endswith("/beta") for name in self) else "rms_norm"
        stacks = {side: [self._sublayer(side, kind) for kind in kinds] for side, kinds in LAYERS.items()}
        kv_heads = stacks["encoder"][0]["kv_heads"] or self._heads
        total = self._rows("encoder/layer_0/self_attention/linear_0/weight")
        d_k = total // (self._heads + 2 * kv_heads)
        for kind in LAYERS["decoder"][:2]:
            if self._of_layers(kind, "head_dim", d_k, LAYERS) != d_k:
                raise ZooError(f"`head_dim` in `{self.file}` does not match the shapes of the attention projections")
        positions, tensors = self._positions(d_k)
        inner: dict[str, list[Any]] = {
            "activation": [self._activation(number) for number in self._both_sides("activation", 0)],
            "d_ff": [self._rows(f"{side}/layer_0/ffn/linear_0/weight") for side in STACKS],
        }
        stacks["decoder"][-1] |= {name: after for name, (before, after) in inner.items() if before != after}
        return {
            **stacks,
            "N": self.depths,
            "d_model": d_model,
            **{name: encoder for name, (encoder, _) in inner.items()},
            "h": self._heads,
            "d_k": d_k,
            "d_v": d_k,
            "attention_score": self._attention_score(d_k),
            "norm": {
                "kind": norm,
                "placement": placement,
                "epsilon": _DEFAULT_EPSILON[norm] if epsilon is None else epsilon,
                "embeddings": any(f"{side}/layernorm_embedding/gamma" in self for side in STACKS),
            },
            "projection_bias": any("attention/linear_" in name and name.endswith("/bias") for name in self),
            "positions": positions,
            "scale_logits": _is_scaled("decoder/scale_outputs", [self.number("decoder/scale_outputs", 1.0)], d_model),
        }, tensors

    def tables(self) -> EmbeddingTables:
        """Pop the embeddings, the output projection and its bias."""
        inputs = sorted(name for name in self if name.startswith("encoder/embeddings") and name.endswith("weight"))
        if len(inputs) > 1:
            raise ZooError("the encoder reads several tokens per position (source factors), but zoo reads only one")
        source = self.take(inputs[0] if inputs else "encoder/embeddings_0/weight")
        target, output = self.take("decoder/embeddings/weight"), self.take("decoder/projection/weight")
        bias = self.take("decoder/projection/bias") if "decoder/projection/bias" in self else None
        return EmbeddingTables(source, target, output, bias, *(self._scale(side, target.shape[-1]) for side in STACKS))

    def require_all_taken(self) -> None:
        """Raise ZooError if the import did not use a variable that affects the results of the model."""
        for name in sorted(self):
            last = name.rpartition("/")[2]
            if last in _NO_EFFECT or (last in _MUST_BE_OFF and not self[name].any()):
                del self[name]
            elif feature := _MUST_BE_OFF.get(last):
                raise ZooError(f"the model has {feature}, which zoo cannot import")
        super().require_all_taken()

    def number(self, name: str, default: float) -> float:
        """Pop a variable that contains a single number. If the variable is missing, return `default`.

        Raises:
            ZooError: The variable is not a single finite number.
        """
        if name not in self:
            return default
        tensor = self.pop(name)
        if tensor.numel() != 1 or not bool(tensor.isfinite().all()):
            raise damaged(self.file, f"`{name}` is not a number")
        return float(tensor)

    def _rows(self, name: str, dimension: int = 0) -> int:
        """Return the size of a matrix along one dimension, without removing the matrix from the unused variables."""
        self[name] = tensor = self.take(name)
        if tensor.dim() != 2 or not len(tensor):
            raise damaged(self.file, f"`{name}` is not a matrix")
        return int(tensor.shape[dimension])

    def _depth(self, side: str) -> int:
        numbers = {name.split("/")[1] for name in self if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        if not numbers or numbers != {f"layer_{number}" for number in range(len(numbers))}:
            raise ZooError(f"some or all layers of the {side} are missing")
        return len(numbers)

    def _both_sides(self, name: str, default: int) -> list[int]:
        """Return a setting's values for the encoder and the decoder. The file may contain one value for both sides."""
        common = self.number(name, default)
        return [int(self.number(f"{side}/{name}", common)) for side in STACKS]

    def _activation(self, number: int) -> str:
        if number not in ACTIVATIONS:
            name = {4: "sigmoid approximation of GELU", 5: "tanh", 6: "sigmoid"}.get(number, number)
            raise ZooError(f"the feed-forward networks use the activation {name}, which zoo does not support")
        return ACTIVATIONS[number]

    def _same(self, name: str, default: int) -> int:
        """Return a setting that must have the same value for the encoder and the decoder.

        Raises:
            ZooError: The values differ.
        """
        encoder, decoder = self._both_sides(name, default)
        if encoder != decoder:
            problem = f"`{name}` is {encoder} in the encoder and {decoder} in the decoder"
            raise ZooError(f"{problem}, but zoo requires the same value in both")
        return encoder

    def _of_layers(self, kind: str, name: str, default: float, sides: Iterable[str]) -> float:
        """Pop a variable from all sub-layers of one kind, and return its value.

        Raises:
            ZooError: The sub-layers have different values.
        """
        names = [
            f"{side}/layer_{number}/{_PARTS[kind]}/{name}" for side in sides for number in range(self.depths[side])
        ]
        first, *others = {self.number(each, default) for each in names}
        if others:
            raise ZooError(f"`{names[0]}` must have the same value in all layers")
        return first

    def _sublayer(self, side: str, kind: str) -> dict[str, Any]:
        """Return the spec fields for one kind of sub-layer in the encoder or decoder (`side`)."""
        if kind != "feed_forward":
            kv_heads = int(self._of_layers(kind, "num_heads_kv", self._heads, [side]))
            return {"kind": kind, "kv_heads": None if kv_heads == self._heads else kv_heads}
        is_gated = f"{side}/layer_0/ffn/linear_0_noact/weight" in self
        has_bias = any(re.fullmatch(rf"{side}/.+/ffn/linear_.+/bias", name) for name in self)
        return {"kind": kind, "gated": is_gated, "bias": has_bias}

    def _positions(self, d_k: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Pop the position variables. Return the fields of `architecture.positions`, and zoo's position tensors."""
        names = {side: f"{side}/position_encodings/encodings" for side in STACKS}
        stored = [name for name in names.values() if name in self]
        dimension = self._of_layers("self_attention", "rotary_dim", -1, STACKS)
        biases = [name for name in self if name.endswith("/relative_attention_bias")]
        if len(stored) == 1 or (stored and biases):
            raise ZooError("the encoder and the decoder have different positional encodings; zoo does not support this")
        if dimension >= 0:
            is_interleaved = self._of_layers("self_attention", "rotary_interleave", 1, STACKS)
            if dimension not in (0, d_k) or is_interleaved:
                problem = (
                    "the rotary position embeddings rotate only a part of each head, or pair neighbouring "
                    "features (`rotary_interleave`)"
                )
                raise ZooError(f"{problem}, but zoo rotates all features, and pairs feature i with feature i + d_k / 2")
            theta = self._of_layers("self_attention", "rotary_base", _DEFAULT_ROTARY_BASE, STACKS)
            return {"kind": "rotary", "theta": theta}, {}
        if biases:
            return self._relative()
        if not stored:  # then CTranslate2 computes sinusoids and counts positions from 1
            return {"kind": "sinusoidal_halves", "first": 1}, {}
        tables = {side: self.take(name) for side, name in names.items()}
        if not any(table.any() for table in tables.values()):
            return {"kind": "none"}, {}
        return convert_positions(tables)

    def _relative(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Pop the relative position biases. Return the fields of `architecture.positions`, and zoo's tensors."""
        tables = {}
        for side, depth in self.depths.items():
            names = [f"{side}/layer_{number}/self_attention/relative_attention_bias" for number in range(depth)]
            table, *others = (self.take(name) for name in names)
            if table.dim() != 2 or not all(torch.equal(table, other) for other in others):
                problem = f"`{names[0]}` is not a matrix, or differs from the bias in other layers"
                raise ZooError(f"{problem}, but in zoo all layers share one bias")
            tables[side] = table
        max_distance = int(self._of_layers("self_attention", "relative_attention_max_distance", 0, STACKS))
        if all(torch.equal(table, alibi_table(table.shape[1], side)) for side, table in tables.items()):
            return {"kind": "alibi"}, {}
        fields = {"kind": "relative", "buckets": len(tables["encoder"]), "max_distance": max_distance}
        return fields, {f"{side}.relative_positions": copied(table) for side, table in tables.items()}

    def _scale(self, side: str, d_model: int) -> float:
        """Return the factor by which the encoder or decoder (`side`) multiplies its embeddings.

        The file contains the factor, or a flag that selects sqrt(d_model) instead of 1.
        """
        names = (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth")
        name = next((name for name in names if name in self), names[0])
        is_flag = name not in self or self[name].dtype is torch.int8
        factor = self.number(name, 1.0)
        return factor if not is_flag else float(d_model**0.5) if factor else 1.0

    def _attention_score(self, d_k: int) -> str:
        """Return the value of `attention_score` that matches the factor by which queries are multiplied."""
        scales = {
            self._of_layers(kind, "queries_scale", d_k**-0.5, [side]) for side in STACKS for kind in LAYERS[side][:-1]
        }
        return "scaled_dot_product" if _is_scaled("queries_scale", scales, d_k) else "dot_product"


def _is_scaled(name: str, factors: Collection[float], size: int) -> bool:
    """Return True if all factors are 1/sqrt(size), or False if all factors are 1. Otherwise, raise ZooError."""
    usual = size**-0.5
    if all(abs(factor / usual - 1) < 1e-5 for factor in factors):
        return True
    if {*factors} == {1.0}:
        return False
    listed = ", ".join(f"{factor:g}" for factor in factors)
    raise ZooError(f"`{name}` is {listed}, but zoo supports only 1/sqrt({size}) and 1")

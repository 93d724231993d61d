"""Conversion of the Transformer in a `model.bin` to zoo's tensors and to the fields of `architecture` in a spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specs import ZooError
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.ctranslate2.config import SETTING_VARIABLES
from zoo.interop.ctranslate2.model_spec import alibi_table
from zoo.interop.ctranslate2.tables import PARTS, bias_of, linear_maps, norms
from zoo.interop.roundtrip import LAYERS
from zoo.interop.tensors import SIDES, EmbeddingTables, Linear, copied, position_fields

_ACTIVATIONS = {0: "relu", 1: "gelu_tanh", 2: "silu", 3: "gelu"}
_UNSUPPORTED_ACTIVATIONS = {
    4: "sigmoid approximation of GELU",
    5: "tanh",
    6: "sigmoid",
}
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # of models that do not store the number
_DEFAULT_HEADS = 8
_DEFAULT_EPSILON = {"layer_norm": 1e-5, "rms_norm": 1e-6}
_DEFAULT_ROTARY_BASE = 10_000.0
_NO_EFFECT = {"alignment_layer", "alignment_heads", "embeddings_merge", "multi_query_attention"}
_MUST_BE_OFF = {
    "alibi": "linear biases of attention (ALiBi)",
    "alibi_use_positive_positions": "linear biases of attention (ALiBi)",
    "scale_alibi": "linear biases of attention (ALiBi)",
    "sliding_window": "attention with a sliding window",
    "final_logit_softcapping": "soft-capped logits",
}
"""Flags of features that zoo cannot import, with the name of the feature. A model may contain them if they are off."""


@dataclass(frozen=True)
class Network:
    """Transformer of a `model.bin`, converted for zoo."""

    architecture: Mapping[str, Any]
    """Fields of `architecture` in a spec."""
    tensors: Mapping[str, Tensor]
    """Tensors of the layers. The keys are zoo's tensor names."""
    tables: EmbeddingTables
    starts_from_zeros: bool
    """Whether decoding starts with a zero embedding instead of the embedding of a token."""


def read_network(binary: Binary, norm_epsilon: float | None) -> Network:
    """Convert the Transformer in a `model.bin`.

    Args:
        binary: The content of the file.
        norm_epsilon: The epsilon of layer norms, if the settings contain it.

    Raises:
        ZooError: The model has a property that zoo does not support, or a variable is missing or damaged.
    """
    return _Reader(binary).network(norm_epsilon)


class _Reader:
    """Reader that removes each variable when it is used. Variables that are left at the end are an error."""

    def __init__(self, binary: Binary) -> None:
        self.binary, self.left = binary, set(binary.variables)
        self.tensors: dict[str, Tensor] = {}
        self.norm_kinds: set[str] = set()
        self.feed_forward_bias = {side: self._has(rf"{side}/.+/ffn/linear_.+/bias") for side in SIDES}
        self.projection_bias = self._has(r".+attention/linear_\d/bias")

    def _has(self, pattern: str) -> bool:
        """Return whether the name of a variable matches a regular expression."""
        return any(re.fullmatch(pattern, name) for name in self.left)

    def network(self, epsilon: float | None) -> Network:
        depths = {side: self.depth(side) for side in SIDES}
        heads = self.same_on_both_sides("num_heads", _HEADS.get(self.binary.name, _DEFAULT_HEADS))
        placement = "pre" if self.same_on_both_sides("pre_norm", 1) else "post"
        if any(f"{side}/layer_0/input_layer_norm/gamma" in self.left for side in SIDES):
            placement = "both"
        normalizes_embeddings = any(f"{side}/layernorm_embedding/gamma" in self.left for side in SIDES)
        stacks = {side: self.stack(side, depth, heads) for side, depth in depths.items()}
        inner: dict[str, list[Any]] = {
            "activation": [*self.activations()],
            "d_ff": [self.tensors[f"{side}.0.feed_forward.w1"].shape[1] for side in SIDES],
        }
        stacks["decoder"][-1] |= {name: after for name, (before, after) in inner.items() if before != after}
        for side, depth in depths.items():
            for name, ours in norms(side, depth, placement, embeddings=normalizes_embeddings):
                self.add_norm(name, ours)
        if len(self.norm_kinds) > 1:
            raise ZooError("the model has both LayerNorm and RMSNorm, but zoo supports one kind")
        (norm_kind,) = self.norm_kinds
        tables = self.tables()
        d_model = tables.target.shape[1]
        d_k = self.head_dimension(heads)
        positions = self.positions(depths, d_k)
        starts_from_zeros = bool(self.scalar("decoder/start_from_zero_embedding", 0))
        architecture = {
            **stacks,
            "N": depths if len({*depths.values()}) > 1 else depths["encoder"],
            "d_model": d_model,
            **{name: encoder for name, (encoder, _) in inner.items()},
            "h": heads,
            "d_k": d_k,
            "d_v": d_k,
            "attention_score": self.attention_score(d_k),
            "norm": {
                "kind": norm_kind,
                "placement": placement,
                "epsilon": _DEFAULT_EPSILON[norm_kind] if epsilon is None else epsilon,
                "embeddings": normalizes_embeddings,
            },
            "projection_bias": self.projection_bias,
            "positions": positions,
            "scale_logits": self.scales_logits(d_model),
        }
        self.require_none_left()
        return Network(architecture, self.tensors, tables, starts_from_zeros)

    def stack(self, side: str, depth: int, heads: int) -> list[dict[str, Any]]:
        """Read the linear maps of the encoder or the decoder. Return the sub-layers of each layer, as in a spec."""
        layers = [[self.sublayer(side, number, kind, heads) for kind in LAYERS[side]] for number in range(depth)]
        if any(layer != layers[0] for layer in layers):
            raise ZooError(f"the layers of the {side} differ from one another, but zoo supports only equal layers")
        return layers[0]

    def sublayer(self, side: str, number: int, kind: str, heads: int) -> dict[str, Any]:
        """Add the linear maps of a sub-layer. Return the sub-layer, as in a spec.

        If a sub-layer of this kind has biases, a missing bias becomes zeros.
        """
        foreign, ours = f"{side}/layer_{number}/{PARTS[kind]}", f"{side}.{number}.{kind}"
        sublayer: dict[str, Any] = {"kind": kind}
        shares: dict[str, int] = {}
        gated = f"{foreign}/linear_0_noact/weight" in self.left
        if kind == "feed_forward":
            biased = self.feed_forward_bias[side]
            sublayer |= ({"gated": True} if gated else {}) | ({} if biased else {"bias": False})
        else:
            biased = self.projection_bias
            kv_heads = self.count(f"{foreign}/num_heads_kv", heads)
            shares = {"query": heads, "key": kv_heads, "value": kv_heads}
            sublayer |= {} if kv_heads == heads else {"kv_heads": kv_heads}
        for name, matrices in linear_maps(kind, gated=gated).items():
            parts = self.linear(f"{foreign}/{name}").split(*(shares.get(matrix, 1) for matrix in matrices))
            for matrix, linear in zip(matrices, parts, strict=True):
                self.tensors[f"{ours}.{matrix}"] = copied(linear.weight.T)
                if biased:
                    bias = torch.zeros(len(linear.weight)) if linear.bias is None else copied(linear.bias)
                    self.tensors[f"{ours}.{bias_of(matrix)}"] = bias
        return sublayer

    def add_norm(self, name: str, ours: str) -> None:
        """Add a norm. Without a bias, it is RMSNorm."""
        has_bias = f"{name}/beta" in self.left
        self.norm_kinds.add("layer_norm" if has_bias else "rms_norm")
        self.tensors[f"{ours}_gain"] = copied(self.take(f"{name}/gamma"))
        if has_bias:
            self.tensors[f"{ours}_bias"] = copied(self.take(f"{name}/beta"))

    def tables(self) -> EmbeddingTables:
        inputs = [name for name in self.left if name.startswith("encoder/embeddings_") and "/weight" in name]
        if len(inputs) > 1 + ("encoder/embeddings_0/weight_scale" in inputs):
            raise ZooError(
                "the encoder reads several tokens per position (source factors), but a model in zoo reads one"
            )
        source = self.matrix("encoder/embeddings_0" if inputs else "encoder/embeddings")
        target = self.matrix("decoder/embeddings")
        projection = self.linear("decoder/projection")
        scales = [self.embedding_scale(side, target.shape[1]) for side in SIDES]
        return EmbeddingTables(source, target, projection.weight, projection.bias, *scales)

    def activations(self) -> Iterator[str]:
        """Yield the activation of the encoder and that of the decoder."""
        for activation in self.both_sides("activation", 0):
            if activation not in _ACTIVATIONS:
                name = _UNSUPPORTED_ACTIVATIONS.get(activation, activation)
                raise ZooError(f"the feed-forward networks have the activation {name}, which zoo does not support")
            yield _ACTIVATIONS[activation]

    def positions(self, depths: Mapping[str, int], d_k: int) -> dict[str, Any]:
        encoder, decoder = (self.attention_positions(side, depth, d_k) for side, depth in depths.items())
        stored = [f"{side}/position_encodings/encodings" in self.left for side in SIDES]
        if encoder != decoder or (not encoder and len({*stored}) > 1):
            raise ZooError("the encoder and the decoder have different kinds of positions, but zoo supports one kind")
        if encoder:
            return encoder
        if not any(stored):  # then CTranslate2 computes sinusoids and counts positions from 1
            return {"kind": "sinusoidal_halves", "first": 1}
        tables = {side: self.take(f"{side}/position_encodings/encodings") for side in SIDES}
        if not any(table.any() for table in tables.values()):
            return {"kind": "none"}
        fields = position_fields(tables["encoder"], tables["decoder"])
        if fields["kind"] == "learned":
            self.tensors |= {f"{side}.positions": copied(table[: fields["rows"]]) for side, table in tables.items()}
        return fields

    def attention_positions(self, side: str, depth: int, d_k: int) -> dict[str, Any]:
        """Return the positions of the self-attentions of a stack, as in a spec. Return {} if they have none."""
        attentions = [f"{side}/layer_{number}/self_attention" for number in range(depth)]
        fields = [self.rotary(name, d_k) or self.relative(name, side) for name in attentions]
        if any(each != fields[0] for each in fields):
            raise ZooError(f"the layers of the {side} have different positions, but zoo supports the same in all")
        name = f"{side}.relative_positions"
        if (table := self.tensors.get(name)) is None or not torch.equal(table, alibi_table(table.shape[1], side)):
            return fields[0]
        del self.tensors[name]
        return {"kind": "alibi"}

    def rotary(self, name: str, d_k: int) -> dict[str, Any]:
        """Return the rotary positions of a self-attention, or {} if it has none."""
        if f"{name}/rotary_dim" not in self.left:
            return {}
        if (dimension := self.scalar(f"{name}/rotary_dim", 0)) not in (0, d_k):
            raise ZooError(f"`{name}/rotary_dim` is {dimension}, but zoo rotates all features of a head")
        if self.scalar(f"{name}/rotary_interleave", 1):
            raise ZooError(
                f"`{name}/rotary_interleave` is on, but zoo rotates pairs of features that are d_k / 2 apart"
            )
        return {"kind": "rotary", "theta": self.number(f"{name}/rotary_base", _DEFAULT_ROTARY_BASE)}

    def relative(self, name: str, side: str) -> dict[str, Any]:
        """Return the relative positions of a self-attention, or {} if it has none. Add their biases."""
        if f"{name}/relative_attention_bias" not in self.left:
            return {}
        table = self.take(f"{name}/relative_attention_bias").float()
        if table.dim() != 2 or not torch.equal(self.tensors.setdefault(f"{side}.relative_positions", table), table):
            raise ZooError(f"`{name}/relative_attention_bias` differs from that of other layers, but zoo shares it")
        return {
            "kind": "relative",
            "buckets": len(table),
            "max_distance": self.count(f"{name}/relative_attention_max_distance", 0),
        }

    def embedding_scale(self, side: str, d_model: int) -> float:
        """Return the factor of embeddings. The file contains either the factor or a flag for sqrt(d_model)."""
        names = (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth")
        stored = next((self.take(name) for name in names if name in self.left), None)
        factor = 1.0 if stored is None else _single_number(names[0], stored)
        if stored is None or stored.dtype is torch.int8:
            return float(d_model**0.5) if factor else 1.0
        return factor

    def head_dimension(self, heads: int) -> int:
        total = self.tensors["encoder.0.self_attention.query"].shape[1]
        for name in [name for name in self.left if name.endswith("/head_dim")]:
            if _single_number(name, self.take(name)) * heads != total:
                raise ZooError(f"`{name}` contradicts the shape of the attention's projections")
        if total % heads:
            raise ZooError(f"the {total} outputs of the query projection cannot be divided among {heads} heads")
        return total // heads

    def attention_score(self, d_k: int) -> str:
        usual = d_k**-0.5
        names = [name for name in sorted(self.left) if name.endswith("/queries_scale")]
        scales = {_single_number(name, self.take(name)) for name in names} or {usual}
        if all(abs(scale / usual - 1) < 1e-5 for scale in scales):
            return "scaled_dot_product"
        if scales == {1.0}:
            return "dot_product"
        factors = ", ".join(map(str, scales))
        raise ZooError(f"the attention multiplies queries by {factors}, but zoo supports only 1/sqrt(d_k) and 1")

    def depth(self, side: str) -> int:
        layers = {name.split("/")[1] for name in self.left if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        if not layers or layers != {f"layer_{number}" for number in range(len(layers))}:
            raise ZooError(f"some or all layers of the {side} are missing")
        return len(layers)

    def scales_logits(self, d_model: int) -> bool:
        """Return whether the decoder's output is multiplied by 1/sqrt(d_model)."""
        scale, usual = self.number("decoder/scale_outputs", 1.0), d_model**-0.5
        if abs(scale / usual - 1) < 1e-5:
            return True
        if scale != 1:
            raise ZooError(f"`decoder/scale_outputs` is {scale:g}, but zoo supports only 1/sqrt(d_model) and 1")
        return False

    def both_sides(self, name: str, default: int) -> tuple[int, int]:
        """Return a setting of the encoder and the decoder that is stored once, or separately for both."""
        common = self.scalar(name, default)
        return self.scalar(f"encoder/{name}", common), self.scalar(f"decoder/{name}", common)

    def same_on_both_sides(self, name: str, default: int) -> int:
        """Return a setting of both sides. Raise ZooError if the encoder and the decoder have different values."""
        encoder, decoder = self.both_sides(name, default)
        if encoder != decoder:
            raise ZooError(
                f"`{name}` is {encoder} in the encoder and {decoder} in the decoder, but zoo supports one value"
            )
        return encoder

    def scalar(self, name: str, default: int) -> int:
        return int(self.number(name, default))

    def number(self, name: str, default: float) -> float:
        return _single_number(name, self.take(name)) if name in self.left else default

    def count(self, name: str, default: int) -> int:
        """Return a positive number. Raise ZooError if it is not positive."""
        if (number := self.scalar(name, default)) < 1:
            raise ZooError(f"`model.bin` is damaged: `{name}` is {number}", exit_code=1)
        return number

    def linear(self, name: str) -> Linear:
        bias = self.take(f"{name}/bias").float() if f"{name}/bias" in self.left else None
        return Linear(self.matrix(name), bias)

    def matrix(self, name: str) -> Tensor:
        self.left.discard(f"{name}/weight_scale")
        stored = self.take(f"{name}/weight")
        if stored.dim() != 2:
            raise _damaged(f"{name}/weight", stored)
        try:
            return self.binary.dequantized(f"{name}/weight")
        except ValueError as error:
            raise ZooError(f"`model.bin` is damaged: {error}", exit_code=1) from None

    def take(self, name: str) -> Tensor:
        if name not in self.binary.variables:
            raise ZooError(f"`model.bin` has no variable `{name}`, which a Transformer requires")
        self.left.discard(name)
        return self.binary.variables[name]

    def require_none_left(self) -> None:
        """Raise ZooError if a variable was not used, although it affects what the model computes."""
        for name in sorted(self.left):
            last = name.rpartition("/")[2]
            off = last in _MUST_BE_OFF and not bool(self.binary.variables[name].any())
            if not (name in SETTING_VARIABLES or last in _NO_EFFECT or off):
                raise ZooError(f"the model has {_MUST_BE_OFF.get(last) or f'`{name}`'}, which zoo cannot import")


def _single_number(name: str, tensor: Tensor) -> float:
    """Return the number in a tensor. Raise ZooError unless the tensor contains exactly one, finite number."""
    if tensor.numel() != 1 or not bool(tensor.isfinite().all()):
        raise _damaged(name, tensor)
    return float(tensor)


def _damaged(name: str, tensor: Tensor) -> ZooError:
    problem = f"`model.bin` is damaged: `{name}`, of shape {list(tensor.shape)} and type {tensor.dtype}, is invalid"
    return ZooError(problem, hint="restore the file from its source", exit_code=1)

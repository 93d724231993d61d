"""Conversion of the Transformer in a `model.bin` to zoo's tensors and to the fields of `architecture` in a spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specs import ZooError
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.ctranslate2.config import SETTING_VARIABLES
from zoo.interop.tensors import SIDES, EmbeddingTables, Linear, NetworkTensors, position_fields

_ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
_UNSUPPORTED_ACTIVATIONS = {
    1: "tanh approximation of GELU",
    4: "sigmoid approximation of GELU",
    5: "tanh",
    6: "sigmoid",
}
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # of models that do not store the number
_DEFAULT_HEADS = 8
_DEFAULT_EPSILON = 1e-5
_NO_EFFECT = {"alignment_layer", "alignment_heads", "embeddings_merge"}
_MUST_BE_OFF = {
    "alibi": "linear biases of attention (ALiBi)",
    "alibi_use_positive_positions": "linear biases of attention (ALiBi)",
    "scale_alibi": "linear biases of attention (ALiBi)",
    "multi_query_attention": "keys and values shared by heads (multi-query attention)",
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
    """Tensors of the layers, by zoo's names."""
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
    return _Reader(binary).network(_DEFAULT_EPSILON if norm_epsilon is None else norm_epsilon)


class _Reader:
    """Reader that removes each variable when it is used. Variables that are left at the end are an error."""

    def __init__(self, binary: Binary) -> None:
        self.binary, self.layers = binary, NetworkTensors()
        self.left = set(binary.variables)

    def network(self, epsilon: float) -> Network:
        depths = {side: self.depth(side) for side in SIDES}
        heads = self.same_on_both_sides("num_heads", _HEADS.get(self.binary.name, _DEFAULT_HEADS))
        pre_norm = bool(self.same_on_both_sides("pre_norm", 1))
        activation = self.same_on_both_sides("activation", 0)
        if activation not in _ACTIVATIONS:
            name = _UNSUPPORTED_ACTIVATIONS.get(activation, activation)
            raise ZooError(f"the feed-forward networks have the activation {name}, which zoo does not support")
        normalizes_embeddings = any(f"{side}/layernorm_embedding/gamma" in self.left for side in SIDES)
        for side, depth in depths.items():
            for number in range(depth):
                self.add_layer(side, number)
            if pre_norm:
                self.add_norm(f"{side}/layer_norm", f"{side}.norm")
            if normalizes_embeddings:
                self.add_norm(f"{side}/layernorm_embedding", f"{side}.embedding_norm")
        tables = self.tables()
        d_model = tables.target.shape[1]
        positions = self.positions()
        starts_from_zeros = bool(self.scalar("decoder/start_from_zero_embedding", 0))
        d_k = self.head_dimension(heads)
        architecture = {
            "N": depths if len({*depths.values()}) > 1 else depths["encoder"],
            "d_model": d_model,
            "d_ff": self.layers.tensors["encoder.0.feed_forward.w1"].shape[1],
            "h": heads,
            "d_k": d_k,
            "d_v": d_k,
            "activation": _ACTIVATIONS[activation],
            "attention_score": self.attention_score(d_k),
            "norm": {
                "placement": "pre" if pre_norm else "post",
                "epsilon": epsilon,
                "embeddings": normalizes_embeddings,
            },
            "projection_bias": self.layers.projection_bias,
            "positions": positions,
        }
        self.require_none_left()
        return Network(architecture, self.layers.complete(), tables, starts_from_zeros)

    def add_layer(self, side: str, number: int) -> None:
        foreign, ours = f"{side}/layer_{number}", f"{side}.{number}"
        linears = self.linear(f"{foreign}/self_attention/linear_0").split(3)
        self.add_attention(f"{foreign}/self_attention", f"{ours}.self_attention", linears, 1)
        if side == "decoder":
            query = self.linear(f"{foreign}/attention/linear_0")
            linears = [query, *self.linear(f"{foreign}/attention/linear_1").split(2)]
            self.add_attention(f"{foreign}/attention", f"{ours}.cross_attention", linears, 2)
        inner, outer = (self.linear(f"{foreign}/ffn/linear_{index}") for index in (0, 1))
        self.layers.add_feed_forward(f"{ours}.feed_forward", inner, outer)
        self.add_norm(f"{foreign}/ffn/layer_norm", f"{ours}.feed_forward.norm")

    def add_attention(self, foreign: str, ours: str, linears: list[Linear], output: int) -> None:
        """Add an attention sub-layer.

        Args:
            foreign: The name of the attention in the file.
            ours: The name of the sub-layer in zoo.
            linears: The projections of queries, keys and values.
            output: The number of the output projection in the file, as in `linear_1`.
        """
        linears = [*linears, self.linear(f"{foreign}/linear_{output}")]
        self.layers.add_attention(ours, dict(zip(("query", "key", "value", "output"), linears, strict=True)))
        self.add_norm(f"{foreign}/layer_norm", f"{ours}.norm")

    def add_norm(self, name: str, ours: str) -> None:
        gain = self.take(f"{name}/gamma")
        if f"{name}/beta" not in self.left:
            raise ZooError(f"`{name}` is a norm without a bias (RMSNorm), but zoo imports only LayerNorm")
        self.layers.add_norm(ours, gain, self.take(f"{name}/beta"))

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

    def positions(self) -> dict[str, Any]:
        names = {side: f"{side}/position_encodings/encodings" for side in SIDES}
        stored = [name in self.binary.variables for name in names.values()]
        if not any(stored):  # then CTranslate2 computes sinusoids and counts positions from 1
            return {"kind": "sinusoidal_halves", "first": 1}
        if not all(stored):
            raise ZooError("the encoder and the decoder have different kinds of positions, but zoo supports one kind")
        tables = {side: self.take(name) for side, name in names.items()}
        fields = position_fields(tables["encoder"], tables["decoder"])
        if fields["kind"] == "learned":
            self.layers.add_learned_positions(tables, fields["rows"])
        return fields

    def embedding_scale(self, side: str, d_model: int) -> float:
        """Return the factor of embeddings. The file contains either the factor or a flag for sqrt(d_model)."""
        names = (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth")
        stored = next((self.take(name) for name in names if name in self.left), None)
        factor = 1.0 if stored is None else _single_number(names[0], stored)
        if stored is None or stored.dtype is torch.int8:
            return float(d_model**0.5) if factor else 1.0
        return factor

    def head_dimension(self, heads: int) -> int:
        total = self.layers.tensors["encoder.0.self_attention.query"].shape[1]
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

    def same_on_both_sides(self, name: str, default: int) -> int:
        """Return a setting that is stored once, or separately for the encoder and the decoder.

        Raise ZooError if the encoder and the decoder have different values.
        """
        common = self.scalar(name, default)
        encoder, decoder = (self.scalar(f"{side}/{name}", common) for side in SIDES)
        if encoder != decoder:
            raise ZooError(
                f"`{name}` is {encoder} in the encoder and {decoder} in the decoder, but zoo supports one value"
            )
        return encoder

    def scalar(self, name: str, default: int) -> int:
        return int(_single_number(name, self.take(name))) if name in self.left else default

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

"""The Transformer in a `model.bin`: its variables under our names, and what a spec says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specs import ZooError
from zoo.interop.ctranslate2.binary import Binary
from zoo.interop.ctranslate2.settings import VARIABLES
from zoo.interop.layers import Layers, Linear
from zoo.interop.tables import Tables, positions

ACTIVATIONS = {0: "relu", 2: "silu", 3: "gelu"}
"""By the engine's numbers; 1 is an approximation of gelu, the others are no activation of a Transformer of ours."""
_OTHERS = {1: "gelu by way of tanh", 4: "gelu by way of sigmoid", 5: "tanh", 6: "sigmoid"}
_HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # models of before the number was written
_EPSILON = 1e-5  # where none is written
_WITHOUT_EFFECT = {"alignment_layer", "alignment_heads", "embeddings_merge"}
_OFF = {
    "alibi": "linear biases of attention (ALiBi)",
    "alibi_use_positive_positions": "linear biases of attention (ALiBi)",
    "scale_alibi": "linear biases of attention (ALiBi)",
    "multi_query_attention": "keys and values that heads share",
    "sliding_window": "attention to a window of positions",
    "final_logit_softcapping": "logits that are capped",
}
"""Flags that are said to be off, and what they would be."""


@dataclass(frozen=True)
class Network:
    """What a `model.bin` says: fields of `architecture`, tensors in our names, tables in the foreign numbers."""

    architecture: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    tables: Tables
    starts_from_zeros: bool
    """Whether decoding starts with a zero embedding, and not with that of a token."""


def network(found: Binary, epsilon: float | None) -> Network:
    """The Transformer in it. Raises ZooError, by name, for what a spec cannot say."""
    return _Reader(found).network(_EPSILON if epsilon is None else epsilon)


class _Reader:
    """Takes the variables one by one, so that none is left out unseen."""

    def __init__(self, found: Binary) -> None:
        self.found, self.layers = found, Layers()
        self.left = set(found.variables)

    def network(self, epsilon: float) -> Network:
        depths = {side: self.depth(side) for side in ("encoder", "decoder")}
        heads, pre = self.both("num_heads", _HEADS.get(self.found.name, 8)), bool(self.both("pre_norm", 1))
        activation = self.both("activation", 0)
        if activation not in ACTIVATIONS:
            raise ZooError(f"its feed-forward networks have {_OTHERS.get(activation, activation)} between their maps")
        for side, depth in depths.items():
            for number in range(depth):
                self.layer(side, number)
            if pre:
                self.norm(f"{side}/layer_norm", side)
        tables = self.tables()
        width = tables.target.shape[1]
        placed = self.positions(width)
        zeros = bool(self.scalar("decoder/start_from_zero_embedding", 0))
        per_head = self.head_width(heads)
        scale = self.queries_scale(per_head)
        self.require_nothing_left()
        inner = self.layers.tensors["encoder.0.feed_forward.w1"].shape[1]
        return Network(
            {
                "N": depths if len({*depths.values()}) > 1 else depths["encoder"],
                "d_model": width,
                "d_ff": inner,
                "h": heads,
                "d_k": per_head,
                "d_v": per_head,
                "activation": ACTIVATIONS[activation],
                "attention_score": scale,
                "norm": "pre" if pre else "post",
                "norm_epsilon": epsilon,
                "projection_bias": self.layers.biased,
                **placed,
            },
            self.layers.finished(),
            tables,
            zeros,
        )

    def layer(self, side: str, number: int) -> None:
        foreign, ours = f"{side}/layer_{number}", f"{side}.{number}"
        query, key, value = self.linear(f"{foreign}/self_attention/linear_0").parts(3)
        output = self.linear(f"{foreign}/self_attention/linear_1")
        part = f"{ours}.self_attention"
        self.layers.attention(part, {"query": query, "key": key, "value": value, "output": output})
        self.norm(f"{foreign}/self_attention/layer_norm", part)
        if side == "decoder":
            query, part = self.linear(f"{foreign}/attention/linear_0"), f"{ours}.cross_attention"
            key, value = self.linear(f"{foreign}/attention/linear_1").parts(2)
            output = self.linear(f"{foreign}/attention/linear_2")
            self.layers.attention(part, {"query": query, "key": key, "value": value, "output": output})
            self.norm(f"{foreign}/attention/layer_norm", part)
        inner, outer = (self.linear(f"{foreign}/ffn/linear_{which}") for which in (0, 1))
        self.layers.feed_forward(f"{ours}.feed_forward", inner, outer)
        self.norm(f"{foreign}/ffn/layer_norm", f"{ours}.feed_forward")

    def tables(self) -> Tables:
        several = [name for name in self.left if name.startswith("encoder/embeddings_") and "/weight" in name]
        if len(several) > 1 + ("encoder/embeddings_0/weight_scale" in several):
            raise ZooError("its encoder reads several streams of tokens (source factors), and a model here reads one")
        source, target = self.matrix("encoder/embeddings_0" if several else "encoder/embeddings"), None
        target = self.matrix("decoder/embeddings")
        projection = self.linear("decoder/projection")
        scales = [self.embedding_scale(side, target.shape[1]) for side in ("encoder", "decoder")]
        return Tables(source, target, projection.weight, projection.bias, *scales)

    def positions(self, width: int) -> dict[str, Any]:
        names = [f"{side}/position_encodings/encodings" for side in ("encoder", "decoder")]
        written = [name in self.found.variables for name in names]
        if not any(written):  # the engine makes its own, and counts from 1
            return {"positional_encoding": "sinusoidal_halves", "first_position": 1}
        if not all(written):
            raise ZooError("its encoder and its decoder have positions of two kinds, and a spec has one")
        tables = [self.take(name) for name in names]
        said = positions(*tables)
        if said["positional_encoding"] == "learned":
            for side, table in zip(("encoder", "decoder"), tables, strict=True):
                self.layers.tensors[f"{side}.positions"] = table[: said["max_positions"]].float().clone()
        return said

    def embedding_scale(self, side: str, width: int) -> float:
        """As the engine finds it: a flag, or the number itself."""
        names = (f"{side}/scale_embeddings", f"{side}/embeddings/multiply_by_sqrt_depth")
        written = next((self.take(name) for name in names if name in self.left), None)
        if written is None:
            return float(width**0.5)
        if written.dtype is torch.int8:
            return float(width**0.5) if _one(names[0], written) else 1.0
        return _one(names[0], written)

    def head_width(self, heads: int) -> int:
        """Features of a head. Every attention has the same."""
        whole = self.layers.tensors["encoder.0.self_attention.query"].shape[1]
        for name in [name for name in self.left if name.endswith("/head_dim")]:
            if _one(name, self.take(name)) * heads != whole:
                raise ZooError(f"`{name}` is not what its projections have")
        if whole % heads:
            raise ZooError(f"it has {heads} heads, which do not share {whole} features evenly")
        return whole // heads

    def queries_scale(self, per_head: int) -> str:
        usual = per_head**-0.5
        found = {_one(name, self.take(name)) for name in sorted(self.left) if name.endswith("/queries_scale")} or {
            usual
        }
        if all(abs(each / usual - 1) < 1e-5 for each in found):
            return "scaled_dot_product"
        if found == {1.0}:
            return "dot_product"
        raise ZooError(
            f"its attention multiplies queries by {', '.join(map(str, found))}: a spec has 1/sqrt(d_k), or 1"
        )

    def depth(self, side: str) -> int:
        numbers = {name.split("/")[1] for name in self.left if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        depth = len(numbers)
        if not depth or numbers != {f"layer_{number}" for number in range(depth)}:
            raise ZooError(f"its {side} has no layers, or not all of them")
        return depth

    def both(self, name: str, default: int) -> int:
        """What is said of the encoder and of the decoder, or of both at once; a spec says it once."""
        whole = self.scalar(name, default)
        one, other = (self.scalar(f"{side}/{name}", whole) for side in ("encoder", "decoder"))
        if one != other:
            raise ZooError(f"its encoder has `{name}` {one}, its decoder {other}, and a spec has it once")
        return one

    def scalar(self, name: str, default: int) -> int:
        return int(_one(name, self.take(name))) if name in self.left else default

    def linear(self, name: str) -> Linear:
        bias = self.take(f"{name}/bias").float() if f"{name}/bias" in self.left else None
        return Linear(self.matrix(name), bias)

    def matrix(self, name: str) -> Tensor:
        self.left.discard(f"{name}/weight_scale")
        stored = self.take(f"{name}/weight")
        if stored.dim() != 2:
            raise _damaged(f"{name}/weight", stored)
        try:
            return self.found.floats(f"{name}/weight")
        except ValueError as error:
            raise ZooError(f"its file is damaged: {error}", exit_code=1) from None

    def norm(self, name: str, part: str) -> None:
        gain = self.take(f"{name}/gamma")
        if f"{name}/beta" not in self.left:
            raise ZooError(f"`{name}` is a norm without a bias (RMSNorm), and a spec has LayerNorm alone")
        self.layers.norm(part, gain, self.take(f"{name}/beta"))

    def take(self, name: str) -> Tensor:
        if name not in self.found.variables:
            raise ZooError(f"it has no `{name}`, which a Transformer as in the paper has")
        self.left.discard(name)
        return self.found.variables[name]

    def require_nothing_left(self) -> None:
        """Raises ZooError for a variable that was not asked for and says something."""
        for name in sorted(self.left):
            last = name.rpartition("/")[2]
            of = self.found.variables[name]
            if name in VARIABLES or last in _WITHOUT_EFFECT or (last in _OFF and not bool(of.any())):
                continue
            what = _OFF.get(last) or f"`{name}`"
            raise ZooError(f"it has {what}, which a spec cannot say")


def _one(name: str, tensor: Tensor) -> float:
    """Its only number. Raises ZooError where it has others."""
    if tensor.numel() != 1 or not bool(tensor.isfinite().all()):
        raise _damaged(name, tensor)
    return float(tensor)


def _damaged(name: str, tensor: Tensor) -> ZooError:
    problem = f"its file is damaged: `{name}` is {list(tensor.shape)} of {tensor.dtype}, or no number"
    return ZooError(problem, hint="restore it from where it came from", exit_code=1)

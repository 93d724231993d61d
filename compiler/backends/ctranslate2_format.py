"""A model of ours in CTranslate2's format, for the Transformer that it knows, written through its Python API."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import BuildRequest, digest
from compiler.graph import Purpose, stored
from compiler.lower import lower
from compiler.lower.attention import scale
from compiler.operations.attention import Attention
from compiler.operations.embedding import Embed, Position
from compiler.operations.mask import CausalMask, PaddingMask
from compiler.operations.probability import LogSoftmax, Pick
from compiler.operations.projection import Linear, Logits
from compiler.operations.residual import Add, Dropout, Gelu, Norm, Relu, Silu
from compiler.operations.views import MergeHeads, Slice, SplitHeads
from compiler.runtime import sinusoids
from specs import BOS, EOS, UNK, Spec

POSITIONS = 4096
"""Rows of the table that sinusoids become there: it has others of its own, so ours are written out."""

KNOWN = {
    *(Add, Attention, CausalMask, Dropout, Embed, Gelu, Linear, LogSoftmax, Logits),
    *(MergeHeads, Norm, PaddingMask, Pick, Position, Relu, Silu, Slice, SplitHeads),
}
"""What the Transformer that it knows is made of."""
LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "cross_attention", "feed_forward"],
}
"""The sub-layers of each of its layers, in order."""
ACTIVATIONS = {"relu": "RELU", "silu": "SWISH", "gelu": "GELU"}
"""What it calls each curve."""


_WRITERS = (__file__, *(inspect.getsourcefile(each) for each in (sinusoids, scale)))
"""What a model follows from but its spec and its weights."""


def written(order: BuildRequest) -> Path:
    """The folder of the model in CTranslate2's format, written unless it is there."""
    import ctranslate2

    def write(folder: Path) -> None:
        model = _Writer(order.spec, order.weights).model()
        model.validate()
        model.optimize(order.precision)
        model.save(str(folder))

    spec = order.spec
    key = {
        "architecture": spec.architecture.model_dump_json(),
        "vocabulary": "/".join(map(str, dict.fromkeys(spec.vocabulary.sizes))),
        "precision": order.precision,
        "positions": str(POSITIONS),
        "weights": digest(order.weights),
        "ctranslate2": ctranslate2.__version__,
        "writer": "".join(Path(str(file)).read_text(encoding="utf-8") for file in _WRITERS),
    }
    return Artefact(order.folder, "ctranslate2", key).make(write)


def beyond(order: BuildRequest) -> str | None:
    """What CTranslate2 has not that a model has, if there is something. It has to be installed."""
    sides = {"encoder": order.spec.architecture.encoder, "decoder": order.spec.architecture.decoder}
    for side, sublayers in sides.items():
        if (found := [each.kind for each in sublayers]) != LAYERS[side]:
            return f"its {side} has layers of {', '.join(found)}, and CTranslate2's of {', '.join(LAYERS[side])}"
    used = {type(node.operation) for node in lower(order.spec, Purpose.SCORE).nodes}
    if strange := sorted(each.__name__ for each in used - KNOWN):
        return f"CTranslate2 has no word for {strange[0]}"
    wanted = stored(order.graphs.values())
    writer = _Writer(order.spec, {name: torch.empty(each.shape, device="meta") for name, each in wanted.items()})
    writer.model()
    if left := sorted(set(wanted) - writer.written):
        return f"CTranslate2's format has no place for `{left[0]}`"
    return None


def tokens(spec: Spec, side: str) -> list[str]:
    """Made-up names of the tokens of a side: it speaks in words, we in numbers.

    They differ from side to side, so that a source of nothing but EOS is not taken for an empty one.
    """
    size = spec.vocabulary.sizes[side == "target"]
    return ["unknown" if index == UNK else f"{side} {index}" for index in range(size)]


class _Writer:
    """Fills in CTranslate2's description of a Transformer from the tensors of a weights file."""

    def __init__(self, spec: Spec, weights: Mapping[str, Tensor]) -> None:
        self.spec, self.a, self.weights = spec, spec.architecture, weights
        self.width = max(self.a.d_k, self.a.d_v)
        self.written: set[str] = set()

    def model(self) -> Any:
        from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
        from ctranslate2.specs.common_spec import Activation

        a = self.a
        activation = Activation[ACTIVATIONS[a.activation]]
        encoder, decoder = (
            side(depth, a.h, pre_norm=a.norm == "pre", activation=activation, head_dim=self.width)
            for side, depth in (
                (TransformerEncoderSpec, a.depths.encoder),
                (TransformerDecoderSpec, a.depths.decoder),
            )
        )
        model = TransformerSpec(encoder, decoder)
        model.encoder.embeddings[0].weight = self.table("source")
        model.decoder.embeddings.weight = self.table("target")
        model.decoder.projection.weight = self.table("output")
        if a.output_bias:
            model.decoder.projection.bias = self.tensor("output_bias")
        for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
            side.position_encodings.encodings = self.positions(name)
            if a.norm == "pre":
                self.norm(side.layer_norm, name)
            for i, layer in enumerate(side.layer):
                self.layer(layer, f"{name}.{i}")
        model.register_source_vocabulary(tokens(self.spec, "source"))
        model.register_target_vocabulary(target := tokens(self.spec, "target"))
        model.config.unk_token, model.config.bos_token, model.config.eos_token = target[UNK], target[BOS], target[EOS]
        model.config.decoder_start_token = target[BOS]
        model.config.layer_norm_epsilon = a.norm_epsilon
        return model

    def layer(self, layer: Any, name: str) -> None:
        self.attention(layer.self_attention, f"{name}.self_attention", (("query", "key", "value"),))
        if hasattr(layer, "attention"):
            self.attention(layer.attention, f"{name}.cross_attention", (("query",), ("key", "value")))
        inner, outer, part = layer.ffn.linear_0, layer.ffn.linear_1, f"{name}.feed_forward"
        inner.weight, inner.bias = self.tensor(f"{part}.w1").T, self.tensor(f"{part}.b1")
        outer.weight, outer.bias = self.tensor(f"{part}.w2").T, self.tensor(f"{part}.b2")
        self.norm(layer.ffn.layer_norm, part)

    def attention(self, attention: Any, part: str, products: Iterable[tuple[str, ...]]) -> None:
        """Queries, keys and values have to be equally wide there: the narrower ones get features of zeros."""
        a = self.a
        widths = {"query": a.d_k, "key": a.d_k, "value": a.d_v}
        for linear, names in zip(attention.linear, products, strict=False):
            linear.weight = torch.cat([self.widened(self.tensor(f"{part}.{n}"), widths[n]) for n in names], -1).T
            if a.projection_bias:
                linear.bias = torch.cat([self.widened(self.tensor(f"{part}.{n}_bias"), widths[n]) for n in names])
        output = attention.linear[-1]
        output.weight = self.widened(self.tensor(f"{part}.output").T.contiguous(), a.d_v)
        if a.projection_bias:
            output.bias = self.tensor(f"{part}.output_bias")
        attention.queries_scale = scale(a)
        self.norm(attention.layer_norm, part)

    def widened(self, heads: Tensor, width: int) -> Tensor:
        """Each head's features, of which there are `width`, filled up with zeros. [..., h·width] -> [..., h·widest]"""
        parted = heads.view(*heads.shape[:-1], self.a.h, width)
        return torch.nn.functional.pad(parted, (0, self.width - width)).flatten(-2)

    def norm(self, norm: Any, part: str) -> None:
        norm.gamma, norm.beta = self.tensor(f"{part}.norm_gain"), self.tensor(f"{part}.norm_bias")

    def table(self, side: str) -> Tensor:
        names = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }
        return self.tensor(names[self.a.tied_embeddings])

    def positions(self, part: str) -> Tensor:
        if self.a.positional_encoding == "learned":
            return self.tensor(f"{part}.positions")
        halves, rows = self.a.positional_encoding == "sinusoidal_halves", torch.empty(1, POSITIONS, self.a.d_model)
        return sinusoids(rows, halves=halves, first=self.a.first_position).clone()

    def tensor(self, name: str) -> Tensor:
        """A copy: it rounds to 8 bits in place."""
        self.written.add(name)
        return self.weights[name].detach().float().clone()

"""Conversion of a spec and zoo's tensors to an object of CTranslate2's class TransformerSpec."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from compiler.lowering.attention import attention_scale
from compiler.lowering.positions import alibi_slope
from compiler.runtime import sinusoids
from specs import Architecture, FeedForward, Rotary, Sinusoidal, Spec
from zoo.interop.ctranslate2.tables import PARTS, bias_of, linear_maps, norms
from zoo.interop.roundtrip import cannot_export, require_standard_layers
from zoo.interop.tensors import SIDES

POSITIONS = 4096
"""Number of positions in the tables of sinusoids, and number of distances with exact ALiBi in the exported model."""
_ACTIVATIONS = {"relu": "RELU", "silu": "SWISH", "gelu": "GELU", "gelu_tanh": "GELUTanh"}
_SUPPORTED = {
    "source": {"tokens"},
    "attention_score": {"scaled_dot_product", "dot_product"},
    "norm": {"layer_norm", "rms_norm"},
    "positions": {"sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi", "none"},
    "activation": {*_ACTIVATIONS},
}
"""Values of fields of `architecture` that CTranslate2 implements. For a section, these are its kinds."""
_OPTIONS = {
    *("h", "kv_heads", "d_k", "d_v", "projection_bias", "d_ff", "activation", "gated", "bias"),
    *("dropout", "attention_dropout", "activation_dropout"),
}
"""Options of single sub-layers that CTranslate2 implements, or that translation does not depend on."""


def require_supported(architecture: Architecture) -> None:
    """Raise ZooError if CTranslate2 does not implement a part of an architecture."""
    for field, supported in _SUPPORTED.items():
        value = getattr(architecture, field)
        if (kind := getattr(value, "kind", value)) not in supported:
            raise cannot_export("CTranslate2", f"it does not implement `{field}: {kind}`")
    require_standard_layers(architecture, "CTranslate2")
    for side in SIDES:
        sublayers = getattr(architecture, side)
        if len({architecture.option(sublayer, "h") for sublayer in sublayers if sublayer.kind != "feed_forward"}) > 1:
            reason = f"it has one number of heads for all attentions of the {side}, not `h` for each"
            raise cannot_export("CTranslate2", reason)
    if own := next((own for own in architecture.own_options if own.rpartition(".")[2] not in _OPTIONS), None):
        raise cannot_export("CTranslate2", f"it does not implement the option `{own}`")


class SpecWriter:
    """Writer that fills an object of CTranslate2's class TransformerSpec with the tensors of a weights file."""

    def __init__(self, spec: Spec, weights: Mapping[str, Tensor]) -> None:
        """Prepare to write a model that `require_supported` accepts."""
        self.architecture, self.weights = spec.architecture, weights
        self.used: set[str] = set()

    def model(self) -> Any:
        """Return the model as an object of CTranslate2, without vocabularies and settings."""
        specs, a = import_module("ctranslate2.specs"), self.architecture
        both = a.norm.placement == "both"
        model = specs.TransformerSpec(
            specs.TransformerEncoderSpec(a.depths.encoder, **self.options("encoder")),
            specs.TransformerDecoderSpec(
                a.depths.decoder, **self.options("decoder"), external_pre_post_encoder_layers=both
            ),
        )
        model.encoder.embeddings[0].weight = self.table("source")
        model.decoder.embeddings.weight = self.table("target")
        model.decoder.projection.weight = self.table("output")
        if a.output_bias:
            model.decoder.projection.bias = self.tensor("output_bias")
        if a.scale_logits:
            model.decoder.scale_outputs = a.d_model**-0.5
        for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
            side.scale_embeddings = a.scale_embeddings
            if (encodings := self.encodings(name)) is not None:
                side.position_encodings.encodings = encodings
            for norm, ours in norms(name, len(side.layer), a.norm.placement, embeddings=a.norm.embeddings):
                self.fill_norm(_part(model, norm), ours)
            bias = self.distance_bias(name)
            for number, layer in enumerate(side.layer):
                self.fill_layer(layer, name, number, bias)
        return model

    def options(self, side: str) -> dict[str, Any]:
        """Return the arguments of CTranslate2's class for the encoder or the decoder."""
        activations, a = import_module("ctranslate2.specs.common_spec").Activation, self.architecture
        attention, *_, feed_forward = getattr(a, side)
        h, d_k = a.option(attention, "h"), a.option(attention, "d_k")
        options = {
            "num_heads": h,
            "num_heads_kv": h,  # this and `head_dim` are replaced in each attention
            "head_dim": d_k,
            "pre_norm": a.norm.placement != "post",
            "pre_post_layer_norm": a.norm.placement == "both",
            "rms_norm": a.norm.kind == "rms_norm",
            "layernorm_embedding": a.norm.embeddings,
            "activation": activations[_ACTIVATIONS[a.option(feed_forward, "activation")]],
            "ffn_glu": feed_forward.gated,
            "relative_attention_bias": a.positions.kind in ("relative", "alibi"),
        }
        if isinstance(a.positions, Rotary):  # feature i is paired with i + d_k / 2, and not with its neighbour
            options |= {"rotary_dim": d_k, "rotary_base": a.positions.theta, "rotary_interleave": False}
        return options

    def fill_layer(self, layer: Any, side: str, number: int, bias: Mapping[str, Any]) -> None:
        """Fill the linear maps of a layer. `bias` are the variables of its self-attention for a bias by distance."""
        for sublayer in getattr(self.architecture, side):
            name, part = f"{side}.{number}.{sublayer.kind}", getattr(layer, PARTS[sublayer.kind])
            if isinstance(sublayer, FeedForward):
                self.fill_feed_forward(part, name, sublayer)
            else:
                self.fill_attention(part, name, sublayer, bias)

    def fill_feed_forward(self, part: Any, name: str, sublayer: FeedForward) -> None:
        """Fill a feed-forward network."""
        for foreign, (matrix,) in linear_maps(sublayer.kind, gated=sublayer.gated).items():
            linear = getattr(part, foreign)
            linear.weight = self.tensor(f"{name}.{matrix}").T
            if sublayer.bias:
                linear.bias = self.tensor(f"{name}.{bias_of(matrix)}")

    def fill_attention(self, attention: Any, name: str, sublayer: Any, bias: Mapping[str, Any]) -> None:
        """Fill an attention, whose projections CTranslate2 concatenates. `bias` is that of `fill_layer`."""
        a = self.architecture
        h, d_k, d_v, projection_bias = (a.option(sublayer, key) for key in ("h", "d_k", "d_v", "projection_bias"))
        head_dimension = max(d_k, d_v)

        def padded(projection: str, heads: Tensor) -> Tensor:
            """Pad each head [..., d_k or d_v] with zeros, because CTranslate2 requires d_k = d_v."""
            dimension = d_k if projection in ("query", "key") else d_v
            separate = heads.reshape(*heads.shape[:-1], -1, dimension)
            return torch.nn.functional.pad(separate, (0, head_dimension - dimension)).flatten(-2)

        *inputs, output = attention.linear
        for linear, names in zip(inputs, linear_maps(sublayer.kind).values(), strict=False):
            linear.weight = torch.cat([padded(each, self.tensor(f"{name}.{each}")) for each in names], -1).T
            if projection_bias:
                linear.bias = torch.cat([padded(each, self.tensor(f"{name}.{each}_bias")) for each in names])
        output.weight = padded("output", self.tensor(f"{name}.output").T)
        if projection_bias:
            output.bias = self.tensor(f"{name}.output_bias")
        attention.queries_scale, attention.head_dim = attention_scale(a, d_k), np.int32(head_dimension)
        attention.num_heads_kv = np.int32(sublayer.kv_heads or h)
        if sublayer.kind == "self_attention":
            for variable, value in bias.items():
                setattr(attention, variable, value)

    def fill_norm(self, norm: Any, name: str) -> None:
        """Set the gain of a CTranslate2 norm to that of zoo's norm `name`, and also the bias unless it is RMSNorm."""
        norm.gamma = self.tensor(f"{name}_gain")
        if self.architecture.norm.kind == "layer_norm":
            norm.beta = self.tensor(f"{name}_bias")

    def table(self, side: str) -> Tensor:
        """Return the embedding of the source or the target, or the output projection."""
        names = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "embeddings": "embedding" if side != "output" else "output_projection",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }
        return self.tensor(names[self.architecture.tied_embeddings])

    def encodings(self, side: str) -> Tensor | None:
        """Return the table [positions, d_model] that is added to the embeddings of the encoder or the decoder.

        Return None if positions enter self-attention. Otherwise a missing table would make CTranslate2 add its own
        sinusoids, which differ from zoo's.
        """
        positions, d_model = self.architecture.positions, self.architecture.d_model
        if isinstance(positions, Sinusoidal):
            rows, halves = torch.empty(1, POSITIONS, d_model), positions.kind == "sinusoidal_halves"
            return sinusoids(rows, halves=halves, first=positions.first).clone()
        if positions.kind == "none":
            return torch.zeros(POSITIONS, d_model)
        return self.tensor(f"{side}.positions") if positions.kind == "learned" else None

    def distance_bias(self, side: str) -> dict[str, Any]:
        """Return the variables of self-attention for a bias by distance, which all layers of a stack share.

        CTranslate2's encoder has no ALiBi, so ALiBi becomes a relative bias with one bucket for each distance below
        `POSITIONS`. Larger distances share buckets, so their bias is approximate.
        """
        a = self.architecture
        if a.positions.kind == "relative":
            table, max_distance = self.tensor(f"{side}.relative_positions"), a.positions.max_distance
        elif a.positions.kind == "alibi":
            h, max_distance = a.option(getattr(a, side)[0], "h"), 2 * POSITIONS
            table = alibi_table(h, side)
        else:
            return {}
        return {"relative_attention_bias": table, "relative_attention_max_distance": np.int32(max_distance)}

    def tensor(self, name: str) -> Tensor:
        """Return a copy of a tensor in float32, because CTranslate2 modifies tensors in place."""
        self.used.add(name)
        return self.weights[name].detach().float().clone()


def _part(model: Any, name: str) -> Any:
    """Return a part of a model of CTranslate2, given its name in `model.bin`, such as `encoder/layer_0/ffn`."""
    for part in name.split("/"):
        layers, _, number = part.rpartition("_")
        model = model.layer[int(number)] if layers == "layer" and number.isdecimal() else getattr(model, part)
    return model


def alibi_table(heads: int, side: str) -> Float32[Tensor, "buckets h"]:
    """Return the relative bias by which ALiBi is written.

    The largest distance of its buckets is `2 * POSITIONS`. Half of the buckets of a direction have one distance each.
    """
    slopes = torch.tensor([alibi_slope(head, heads) for head in range(heads)])
    table = -torch.arange(2.0 * POSITIONS)[:, None] * slopes
    return table.repeat(2, 1) if side == "encoder" else table  # the encoder has a half for each direction

"""Conversion of Marian models: options become the `architecture` of a spec, and matrices get zoo's names.

The layout is the same in Marian and zoo: x @ W, with one matrix for each matrix of the paper.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from specs import Architecture, Spec
from zoo.interop.tables import Layout, Setting, Settings, attention_names, read_settings, read_tensors
from zoo.interop.tensors import EmbeddingTables, ForeignTensors

_SETTINGS = (
    Setting("enc-depth", "N.encoder", int),
    Setting("dec-depth", "N.decoder", int),
    Setting("dim-emb", "d_model", int),
    Setting("transformer-dim-ffn", "d_ff", int),
    Setting("transformer-heads", "h", int),
    # Marian's gelu is x sigmoid(1.702 x), which zoo does not support.
    Setting("transformer-ffn-activation", "activation", "swish", {"swish": "silu", "relu": "relu"}),
)
_EPSILON = 1e-6
_FIRST_WITH_NORMALISED_KEYS = (1, 10, 42)
"""First version of Marian that always normalises keys and values in the self-attention of pre-norm models.

Commit 14042019 of marian-dev (October 2021) added this. Versions up to 1.10.23, and 1.10.25 to 1.10.27, do not have it.
Builds of 1.10.24 and 1.10.28 exist with and without it. There is no version between 1.10.28 and 1.10.42.
"""
_OUTPUT = "decoder_ff_logit_out"


def architecture_fields(options: Settings) -> dict[str, Any]:
    """Convert options to fields of `architecture`. Raise ZooError if zoo does not support an option."""
    options.require_known("marian")
    fields = read_settings(options, _SETTINGS)
    d_model, h, d_ff = fields["d_model"], fields["h"], fields["d_ff"]
    if d_model % h or d_model < 4 or d_model % 2:
        raise options.error("transformer-heads", f"does not divide `dim-emb: {d_model}`, or `dim-emb` is odd")
    if options.integer("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        problem = f"differs from the encoder's `transformer-dim-ffn: {d_ff}`, but zoo supports one `d_ff`"
        raise options.error("transformer-decoder-dim-ffn", problem)
    return {
        **fields,
        "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
        "decoder": [{"kind": _first_sublayer(options)}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        "d_k": d_model // h,
        "d_v": d_model // h,
        "positions": {"kind": "sinusoidal_halves"},
        "norm": {"placement": _norm_placement(options), "epsilon": _EPSILON},
        "projection_bias": True,
    }


def _first_sublayer(options: Settings) -> str:
    """Return the kind of the first sub-layer in each decoder layer."""
    if options.any("transformer-decoder-autoreg", "self-attention") == "rnn":
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
        return "ssru"
    options.ignore("dec-cell", "layer-normalization")
    return "self_attention"


def _norm_placement(options: Settings) -> str:
    """Return whether the model is post-norm (`post`) or pre-norm (`pre`).

    Marian's options are sequences of steps: `d` is dropout, `a` adds the residual connection, and `n` is the norm.
    """
    defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": "", "postprocess-emb": "d"}
    steps = tuple(options.text(f"transformer-{key}", default).replace("d", "") for key, default in defaults.items())
    if steps == ("", "an", "", ""):
        return "post"
    if steps == ("n", "a", "n", ""):
        _require_normalised_keys(options)
        return "pre"
    values = ", ".join(f"`{key}: {options.any(f'transformer-{key}', '')}`" for key in defaults)
    raise options.error(
        "transformer-preprocess",
        f"is, with the other steps ({values}), neither post-norm nor pre-norm; zoo imports only post-norm "
        "(`postprocess: dan`) and pre-norm (`preprocess: n`, `postprocess: da`, `postprocess-top: n`)",
    )


def _require_normalised_keys(options: Settings) -> None:
    """Raise ZooError if a pre-norm model comes from an old Marian version that might not normalise keys and values."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", options.text("version"))
    if numbers is None:
        raise options.error(
            "version", "does not begin with the number of the Marian version that trained the model, such as v1.12.0"
        )
    if tuple(map(int, numbers.groups())) < _FIRST_WITH_NORMALISED_KEYS:
        raise options.error(
            "version",
            "is older than 1.10.42: in pre-norm models, such versions may not normalise the keys and values of "
            "self-attention, which zoo does not support",
            "translate with the Marian version that trained the model, or train it again with Marian 1.11 or later",
        )


def read_embeddings(source: ForeignTensors, options: Settings) -> EmbeddingTables:
    """Remove the embeddings, the output projection and its bias from `source`, and return them."""
    names = ("tied-embeddings-all", "tied-embeddings-src", "tied-embeddings", "output-omit-bias")
    all_tied, sources_tied, targets_tied, without_bias = (options.boolean(name, False) for name in names)
    if all_tied or sources_tied:
        encoder = decoder = source.take("Wemb")
    else:
        encoder, decoder = source.take("encoder_Wemb"), source.take("decoder_Wemb")
    if all_tied or targets_tied:
        output = decoder
    elif f"{_OUTPUT}_W" in source.left:  # old versions of Marian
        output = source.take(f"{_OUTPUT}_W").T
    else:
        output = source.take(f"{_OUTPUT}_Wt")
    bias = None if without_bias else source.take(f"{_OUTPUT}_b")
    scale = decoder.shape[-1] ** 0.5
    return EmbeddingTables(encoder, decoder, output, bias, scale, scale)


def read_layers(source: ForeignTensors, options: Settings, spec: Spec) -> dict[str, Tensor]:
    """Remove the tensors of all layers from `source`. Return them with zoo's names as keys.

    Raise ZooError if a tensor is missing or has a different shape.
    """
    for number, original in enumerate(_tied_layers(options), start=1):
        if number != original:  # a weights file has no aliases, so the tensors of the original layer are copied
            prefix = f"decoder_l{original}_"
            own = {name: tensor for name, tensor in source.left.items() if name.startswith(prefix)}
            source.left |= {f"decoder_l{number}_{name.removeprefix(prefix)}": tensor for name, tensor in own.items()}
    return read_tensors(source, _layout(spec.architecture).rows(spec))


def _tied_layers(options: Settings) -> list[int]:
    """Return, for each decoder layer, the 1-based number of the layer whose weights it uses."""
    depth = options.integer("dec-depth", minimum=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.error("transformer-tied-layers", f"must list {depth} layer numbers, one per decoder layer")
    return tied


def _layout(a: Architecture) -> Layout:
    """Return Marian's names and layout of the tensors in encoder and decoder layers."""
    layer, suffix = "{side}_l{next}", "_pre" if a.norm.placement == "pre" else ""
    attentions = {"self_attention": "self", "cross_attention": "context"}
    norms = {
        **{kind: f"_{part}_Wo" for kind, part in attentions.items()},
        "feed_forward": "_ffn_ffn",
        "ssru": "_rnn" if suffix else "_rnn_ffn",
    }
    names = {
        **attention_names(attentions, "qkvo", layer + "_{attention}_{tensor}{projection}"),
        **{f"{kind}.norm": f"{layer}{part}_ln_{{tensor}}{suffix}" for kind, part in norms.items()},
        "feed_forward.w1": layer + "_ffn_{tensor}1",
        "feed_forward.w2": layer + "_ffn_{tensor}2",
        "ssru.value": layer + "_rnn_{tensor}",
        "ssru.gate": layer + "_rnn_{tensor}f",
        "norm": "{side}_top_ln_{tensor}",
    }
    return Layout(names, ("W", "b", "scale", "bias"), is_transposed=False, vectors_are_rows=True)

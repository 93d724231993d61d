"""Conversion of a Marian model: options to the `architecture` of a spec, and matrices to zoo's names.

The layout is the same in Marian and zoo: x @ W, with one matrix for each matrix of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from specs import Architecture, FeedForward
from zoo.interop.settings import Settings
from zoo.interop.tables import Setting, TensorRow, read_settings, read_tensors
from zoo.interop.tensors import SIDES, EmbeddingTables, ForeignTensors

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
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_OUTPUT = "decoder_ff_logit_out"


def architecture_fields(options: Settings) -> dict[str, Any]:
    """Return the fields of `architecture`. Raise ZooError for an option that zoo does not support."""
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
    """Return the kind of the first sub-layer of the decoder."""
    if options.any("transformer-decoder-autoreg", "self-attention") == "rnn":
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
        return "ssru"
    options.ignore("dec-cell", "layer-normalization")
    return "self_attention"


def _norm_placement(options: Settings) -> str:
    """Return whether the model is post-norm (`post`) or pre-norm (`pre`).

    Marian's options are sequences of steps: `d` is dropout, `a` adds the residual connection, and `n` is the norm.
    """
    keys = ("preprocess", "postprocess", "postprocess-top", "postprocess-emb")
    defaults = ("", "dan", "", "d")
    steps = tuple(
        options.text(f"transformer-{key}", default).replace("d", "")
        for key, default in zip(keys, defaults, strict=True)
    )
    if steps == ("", "an", "", ""):
        return "post"
    if steps == ("n", "a", "n", ""):
        _require_normalised_keys(options)
        return "pre"
    values = ", ".join(f"`{key}: {options.any(f'transformer-{key}', '')}`" for key in keys)
    raise options.error(
        "transformer-preprocess",
        f"is neither post-norm nor pre-norm together with the other steps ({values}); zoo imports only post-norm "
        "(`postprocess: dan`) and pre-norm (`preprocess: n`, `postprocess: da`, `postprocess-top: n`)",
    )


def _require_normalised_keys(options: Settings) -> None:
    """Raise ZooError if a pre-norm model is from a version of Marian that may not normalise keys and values."""
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


def read_layers(source: ForeignTensors, options: Settings, a: Architecture) -> dict[str, Tensor]:
    """Remove the tensors of all layers from `source`. Return them with zoo's names as keys.

    Raise ZooError if one is missing or has another shape.
    """
    tied = _tied_layers(options)
    originals = {original: tied.index(original) for original in tied}
    layers = [
        *(("encoder", number, f"encoder_l{number + 1}") for number in range(a.depths.encoder)),
        *(("decoder", number, f"decoder_l{original}") for original, number in originals.items()),
    ]
    tensors: dict[str, Tensor] = {}
    for side, number, foreign in layers:
        tensors |= read_tensors(source, _layer(a, side, f"{side}.{number}", foreign))
    for number, original in enumerate(tied):
        if (first := originals[original]) != number:  # a weights file has no aliases, so the tensors are copied
            prefix = f"decoder.{first}."
            copied = [(name, tensor) for name, tensor in tensors.items() if name.startswith(prefix)]
            tensors |= {f"decoder.{number}.{name.removeprefix(prefix)}": tensor.clone() for name, tensor in copied}
    if a.norm.placement == "pre":
        for side in SIDES:
            tensors |= read_tensors(source, _norm(a, f"{side}_top", "", side))
    return tensors


def _tied_layers(options: Settings) -> list[int]:
    """Return, for each decoder layer, the number of the layer whose weights it uses, counted from 1."""
    depth = options.integer("dec-depth", minimum=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.error("transformer-tied-layers", f"does not name a layer for each of the {depth} layers")
    return tied


def _layer(a: Architecture, side: str, ours: str, foreign: str) -> Iterator[TensorRow]:
    """Yield the tensors of a layer."""
    suffix = "_pre" if a.norm.placement == "pre" else ""
    square = (a.d_model, a.d_model)
    for sublayer in getattr(a, side):
        name = f"{ours}.{sublayer.kind}"
        if isinstance(sublayer, FeedForward):
            for number, shape in (("1", (a.d_model, a.d_ff)), ("2", (a.d_ff, a.d_model))):
                yield TensorRow(f"{foreign}_ffn_W{number}", f"{name}.w{number}", shape)
                yield TensorRow(f"{foreign}_ffn_b{number}", f"{name}.b{number}", (1, shape[1]), is_row=True)
            yield from _norm(a, f"{foreign}_ffn_ffn", suffix, name)
        elif sublayer.kind == "ssru":
            yield TensorRow(f"{foreign}_rnn_W", f"{name}.value", square)
            yield TensorRow(f"{foreign}_rnn_Wf", f"{name}.gate", square)
            yield TensorRow(f"{foreign}_rnn_bf", f"{name}.gate_bias", (1, a.d_model), is_row=True)
            yield from _norm(a, f"{foreign}_rnn" if suffix else f"{foreign}_rnn_ffn", suffix, name)
        else:
            part = f"{foreign}_self" if sublayer.kind == "self_attention" else f"{foreign}_context"
            for projection, letter in _PROJECTIONS.items():
                yield TensorRow(f"{part}_W{letter}", f"{name}.{projection}", square)
                yield TensorRow(f"{part}_b{letter}", f"{name}.{projection}_bias", (1, a.d_model), is_row=True)
            yield from _norm(a, f"{part}_Wo", suffix, name)


def _norm(a: Architecture, foreign: str, suffix: str, ours: str) -> Iterator[TensorRow]:
    yield TensorRow(f"{foreign}_ln_scale{suffix}", f"{ours}.norm_gain", (1, a.d_model), is_row=True)
    yield TensorRow(f"{foreign}_ln_bias{suffix}", f"{ours}.norm_bias", (1, a.d_model), is_row=True)

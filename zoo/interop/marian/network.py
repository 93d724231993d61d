"""Conversion of a Marian model: options to the `architecture` of a spec, and matrices to zoo's names.

The layout is the same in Marian and zoo: x @ W, with one matrix for each matrix of the paper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from specs import Architecture
from zoo.interop.marian.archive import Archive
from zoo.interop.numbering import Numbering
from zoo.interop.settings import Settings

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "type": ("transformer",),
    "right-left": (False,),
    "input-types": ([], ["sequence", "sequence"]),
    "special-vocab": ([],),
    "transformer-no-projection": (False,),
    "transformer-rnn-projection": (False,),
    "transformer-pool": (False,),
    "transformer-no-bias": (False,),
    "transformer-no-affine": (False,),
    "transformer-train-position-embeddings": (False,),
    "transformer-train-positions": (False,),
    "transformer-disable-position-embeddings": (False,),
    "transformer-attention-mask": ("default",),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "factors-dim-emb": (0,),
    "lemma-dim-emb": (0,),
    "lemma-dependency": ("",),
    "ulr": (False,),
}
"""Supported values of the options that change the network. Marian's default is always among them."""
_NO_EFFECT = (
    *("version", "dim-rnn", "enc-cell", "enc-cell-depth", "enc-type", "dec-cell-base-depth", "dec-cell-high-depth"),
    *("skip", "transformer-aan-activation", "transformer-aan-depth", "transformer-aan-nogate", "transformer-dim-aan"),
    *("transformer-guided-alignment-layer", "transformer-alibi-shift", "transformer-alibi-trainable"),
    *("bert-train-type-embeddings", "bert-type-vocab-size", "ulr-dim-emb", "ulr-trainable-transformation"),
    *("separator-symbol", "factors-combine", "transformer-depth-scaling", "dim-vocabs"),
)
"""Ignored options: training options, options of networks that `_ALLOWED` excludes, and sizes that the matrices' shapes
also show.

`version` has an effect only on pre-norm models, for which `_require_normalised_keys` reads it.
"""
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
_EPSILON = 1e-6
_FIRST_WITH_NORMALISED_KEYS = (1, 10, 42)
"""First version of Marian that always normalises keys and values in the self-attention of pre-norm models.

Commit 14042019 of marian-dev (October 2021) added this. Versions up to 1.10.23, and 1.10.25 to 1.10.27, do not have it.
Builds of 1.10.24 and 1.10.28 exist with and without it. There is no version between 1.10.28 and 1.10.42.
"""
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
NamedTensors = Iterator[tuple[str, Tensor]]


def architecture_fields(options: Settings) -> dict[str, Any]:
    """Return the fields of `architecture`. Raise ZooError for an option that zoo does not support."""
    options.require(_ALLOWED)
    options.ignore(*_NO_EFFECT)
    d_model, h = options.integer("dim-emb", minimum=1), options.integer("transformer-heads", minimum=1)
    if d_model % h or d_model < 4 or d_model % 2:
        raise options.error("transformer-heads", f"does not divide `dim-emb: {d_model}`, or `dim-emb` is odd")
    depths = {"encoder": options.integer("enc-depth", minimum=1), "decoder": options.integer("dec-depth", minimum=1)}
    return {
        "N": depths,
        "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
        "decoder": [{"kind": _first_sublayer(options)}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        "d_model": d_model,
        "d_ff": _d_ff(options),
        "h": h,
        "d_k": d_model // h,
        "d_v": d_model // h,
        "activation": _activation(options),
        "positions": {"kind": "sinusoidal_halves"},
        "norm": {"placement": _norm_placement(options), "epsilon": _EPSILON},
        "tied_embeddings": _tied_embeddings(options),
        "projection_bias": True,
        "output_bias": True,  # Marian has no PAD and no BOS, so a bias suppresses them
    }


def _first_sublayer(options: Settings) -> str:
    """Return the kind of the first sub-layer of the decoder."""
    if options.any("transformer-decoder-autoreg", "self-attention") == "rnn":
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
        return "ssru"
    options.ignore("dec-cell", "layer-normalization")
    return "self_attention"


def _d_ff(options: Settings) -> int:
    d_ff = options.integer("transformer-dim-ffn", minimum=1)
    if options.integer("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        raise options.error(
            "transformer-decoder-dim-ffn",
            f"differs from the encoder's `transformer-dim-ffn: {d_ff}`, but zoo supports one `d_ff`",
        )
    return d_ff


def _activation(options: Settings) -> str:
    """Return the activation. Marian's gelu is x sigmoid(1.702 x), which zoo does not support."""
    name = options.text("transformer-ffn-activation", "swish")
    if name not in _ACTIVATIONS:
        raise options.error("transformer-ffn-activation", "is an activation that zoo does not support")
    return _ACTIVATIONS[name]


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


def _tied_embeddings(options: Settings) -> str:
    """Return the value of `tied_embeddings` in the spec. If only the two embeddings are tied, zoo stores two copies."""
    all_tied, target = options.boolean("tied-embeddings-all", False), options.boolean("tied-embeddings", False)
    source = options.boolean("tied-embeddings-src", False)
    if all_tied or (source and target):
        return "all"
    return "target" if target else "none"


def _has_common_embedding(options: Settings) -> bool:
    """Return whether source and target share one embedding."""
    return options.boolean("tied-embeddings-all", False) or options.boolean("tied-embeddings-src", False)


def embedding_rows(archive: Archive, options: Settings) -> tuple[int, int]:
    """Return the number of rows of the source embedding and of the target embedding."""
    common = _has_common_embedding(options)
    return archive.rows("Wemb" if common else "encoder_Wemb"), archive.rows("Wemb" if common else "decoder_Wemb")


def read_layers(archive: Archive, options: Settings, architecture: Architecture) -> dict[str, Tensor]:
    """Remove the tensors of all layers from the archive. Return them with zoo's names as keys.

    Raise ZooError if one is missing or has another shape.
    """
    tensors: dict[str, Tensor] = {}
    for number in range(architecture.depths.encoder):
        tensors.update(_layer(archive, f"encoder_l{number + 1}", f"encoder.{number}", architecture, "self_attention"))
    tied = _tied_layers(options)
    for number, original in enumerate(tied):
        first = tied.index(original)
        ours = f"decoder.{number}"
        if first == number:
            kind = architecture.decoder[0].kind
            tensors.update(_layer(archive, f"decoder_l{original}", ours, architecture, kind))
        else:  # a weights file has no aliases, so the tensors of the tied layer are copied
            prefix = f"decoder.{first}."
            tied_tensors = [(name, tensor) for name, tensor in tensors.items() if name.startswith(prefix)]
            tensors |= {f"{ours}.{name.removeprefix(prefix)}": tensor.clone() for name, tensor in tied_tensors}
    if architecture.norm.placement == "pre":
        for side in ("encoder", "decoder"):
            tensors.update(_norm(archive, f"{side}_top", "", side, architecture.d_model))
    return tensors


def read_embeddings(
    archive: Archive, options: Settings, architecture: Architecture, source: Numbering, target: Numbering
) -> NamedTensors:
    """Remove the embeddings, the output projection and its bias, and yield them in the order of zoo's token IDs."""
    if architecture.tied_embeddings == "all":
        yield "embedding", source.rows(archive.take("Wemb"))
    else:
        common = archive.take("Wemb") if _has_common_embedding(options) else None
        yield "source_embedding", source.rows(archive.take("encoder_Wemb") if common is None else common)
        yield "target_embedding", target.rows(archive.take("decoder_Wemb") if common is None else common)
    output = "decoder_ff_logit_out"
    if architecture.tied_embeddings == "none":
        transposed = archive.has(f"{output}_W")  # old versions of Marian
        table = archive.take(f"{output}_W").T if transposed else archive.take(f"{output}_Wt")
        yield "output_projection", target.rows(table)
    has_bias = not options.boolean("output-omit-bias", False)
    yield "output_bias", target.bias(archive.take(f"{output}_b") if has_bias else None)


def _tied_layers(options: Settings) -> list[int]:
    """Return, for each decoder layer, the number of the layer whose weights it uses, counted from 1."""
    depth = options.integer("dec-depth", minimum=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.error("transformer-tied-layers", f"does not name a layer for each of the {depth} layers")
    return tied


def _layer(archive: Archive, foreign: str, ours: str, architecture: Architecture, first: str) -> NamedTensors:
    if first == "ssru":
        yield from _ssru(archive, f"{foreign}_rnn", f"{ours}.ssru", architecture)
    else:
        yield from _attention(archive, f"{foreign}_self", f"{ours}.self_attention", architecture)
    if ours.startswith("decoder"):
        yield from _attention(archive, f"{foreign}_context", f"{ours}.cross_attention", architecture)
    d_model, d_ff = architecture.d_model, architecture.d_ff
    for number, (rows, columns) in enumerate(((d_model, d_ff), (d_ff, d_model)), start=1):
        yield f"{ours}.feed_forward.w{number}", archive.take(f"{foreign}_ffn_W{number}", rows, columns)
        yield f"{ours}.feed_forward.b{number}", archive.take_vector(f"{foreign}_ffn_b{number}", columns)
    yield from _norm(archive, f"{foreign}_ffn_ffn", _norm_suffix(architecture), f"{ours}.feed_forward", d_model)


def _attention(archive: Archive, foreign: str, ours: str, architecture: Architecture) -> NamedTensors:
    d_model = architecture.d_model
    for name, letter in _PROJECTIONS.items():
        yield f"{ours}.{name}", archive.take(f"{foreign}_W{letter}", d_model, d_model)
        yield f"{ours}.{name}_bias", archive.take_vector(f"{foreign}_b{letter}", d_model)
    yield from _norm(archive, f"{foreign}_Wo", _norm_suffix(architecture), ours, d_model)


def _ssru(archive: Archive, foreign: str, ours: str, architecture: Architecture) -> NamedTensors:
    d_model = architecture.d_model
    yield f"{ours}.value", archive.take(f"{foreign}_W", d_model, d_model)
    yield f"{ours}.gate", archive.take(f"{foreign}_Wf", d_model, d_model)
    yield f"{ours}.gate_bias", archive.take_vector(f"{foreign}_bf", d_model)
    norm = foreign if architecture.norm.placement == "pre" else f"{foreign}_ffn"
    yield from _norm(archive, norm, _norm_suffix(architecture), ours, d_model)


def _norm(archive: Archive, foreign: str, suffix: str, ours: str, d_model: int) -> NamedTensors:
    yield f"{ours}.norm_gain", archive.take_vector(f"{foreign}_ln_scale{suffix}", d_model)
    yield f"{ours}.norm_bias", archive.take_vector(f"{foreign}_ln_bias{suffix}", d_model)


def _norm_suffix(architecture: Architecture) -> str:
    return "_pre" if architecture.norm.placement == "pre" else ""

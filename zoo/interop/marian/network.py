"""Conversion of Marian models: options become the `architecture` of a spec, and matrices get zoo's names.

The layout is the same in Marian and zoo: x @ W, with one matrix for each matrix of the paper.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor

from specs import Spec
from zoo.interop.tables import Settings, head_sizes, read_settings, read_tensors, tensor_layout
from zoo.interop.tensors import EmbeddingTables, ForeignTensors

_FIRST_WITH_NORMALISED_KEYS = (1, 10, 42)
"""First version of Marian that always normalises keys and values in the self-attention of pre-norm models.

Commit 14042019 of marian-dev (October 2021) added this. Versions up to 1.10.23, and 1.10.25 to 1.10.27, do not have it.
Builds of 1.10.24 and 1.10.28 exist with and without it. There is no version between 1.10.28 and 1.10.42.
"""
_OUTPUT = "decoder_ff_logit_out"


def architecture_fields(options: Settings) -> dict[str, Any]:
    """Convert a Marian model's options to fields of `architecture`. Raise ZooError if an option is not supported."""
    fields = read_settings(options, "marian")
    d_ff = fields["d_ff"]
    if options.integer("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        problem = f"differs from the encoder's `transformer-dim-ffn: {d_ff}`, but zoo supports one `d_ff`"
        raise options.error("transformer-decoder-dim-ffn", problem)
    return {
        **fields,
        "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
        "decoder": [{"kind": _first_sublayer(options)}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        **head_sizes(options, "dim-emb", fields),
        "norm": {**fields["norm"], "placement": _norm_placement(options)},
    }


def _first_sublayer(options: Settings) -> str:
    """Return the kind of the first sub-layer in each decoder layer: `self_attention` or `ssru`."""
    if options.any("transformer-decoder-autoreg", "self-attention") == "rnn":
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
        return "ssru"
    options.ignore("dec-cell", "layer-normalization")
    return "self_attention"


def _norm_placement(options: Settings) -> str:
    """Return whether the model is post-norm (`post`) or pre-norm (`pre`).

    The value of each Marian option is a string of operations, one per letter: `d` applies dropout, `a` adds the
    residual connection, and `n` normalises.
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
        f"belongs to a model that is neither post-norm nor pre-norm ({values}); zoo imports only post-norm "
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

    Raise ZooError if a tensor is missing or does not have the shape that `spec` requires.
    """
    for number, original in enumerate(_tied_layers(options), start=1):
        if number != original:  # a weights file has no aliases, so the tensors of the original layer are copied
            prefix = f"decoder_l{original}_"
            own = {name: tensor for name, tensor in source.left.items() if name.startswith(prefix)}
            source.left |= {f"decoder_l{number}_{name.removeprefix(prefix)}": tensor for name, tensor in own.items()}
    section = "marian.pre" if spec.architecture.norm.placement == "pre" else "marian"
    return read_tensors(source, tensor_layout(section).rows(spec))


def _tied_layers(options: Settings) -> list[int]:
    """Return, for each decoder layer, the 1-based number of the layer whose weights it uses."""
    depth = options.integer("dec-depth", minimum=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.error("transformer-tied-layers", f"must list {depth} layer numbers, one per decoder layer")
    return tied

"""What `special:model.yml` in an .npz says of the network, as a spec's `architecture`."""

from __future__ import annotations

from typing import Any

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
"""Of what changes the network, the values that a spec can say. Where a key is missing, Marian takes one of them."""
_WITHOUT_EFFECT = (
    *("version", "dim-rnn", "enc-cell", "enc-cell-depth", "enc-type", "dec-cell-base-depth", "dec-cell-high-depth"),
    *("skip", "transformer-aan-activation", "transformer-aan-depth", "transformer-aan-nogate", "transformer-dim-aan"),
    *("transformer-guided-alignment-layer", "transformer-alibi-shift", "transformer-alibi-trainable"),
    *("bert-train-type-embeddings", "bert-type-vocab-size", "ulr-dim-emb", "ulr-trainable-transformation"),
    *("separator-symbol", "factors-combine", "transformer-depth-scaling", "dim-vocabs"),
)
"""They are of other networks than those that are allowed, or of training. Matrices say how many tokens there are."""
_ACTIVATIONS = {"relu": "relu", "swish": "silu"}
_EPSILON = 1e-6


def architecture(options: Settings) -> dict[str, Any]:
    """The fields of `architecture` that follow. Raises ZooError for what a spec cannot say."""
    options.require(_ALLOWED)
    options.without_effect(*_WITHOUT_EFFECT)
    d_model, h = options.whole("dim-emb", least=1), options.whole("transformer-heads", least=1)
    if d_model % h or d_model < 4 or d_model % 2:
        raise options.refused("transformer-heads", f"does not divide `dim-emb: {d_model}`, or that is odd")
    depths = {"encoder": options.whole("enc-depth", least=1), "decoder": options.whole("dec-depth", least=1)}
    first = "ssru" if _is_ssru(options) else "self_attention"
    return {
        "N": depths,
        "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
        "decoder": [{"kind": first}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        "d_model": d_model,
        "d_ff": _d_ff(options),
        "h": h,
        "d_k": d_model // h,
        "d_v": d_model // h,
        "activation": _activation(options),
        "positional_encoding": "sinusoidal_halves",
        "norm": _norm(options),
        "norm_epsilon": _EPSILON,
        "tied_embeddings": _tied(options),
        "projection_bias": True,
        "output_bias": True,  # PAD and BOS, which Marian does not have, are kept out by it
    }


def has_output_bias(options: Settings) -> bool:
    """Whether there is a bias on the logits."""
    return not options.truth("output-omit-bias", False)


def tied_layers(options: Settings) -> list[int]:
    """Of which layer, from 1 on, each of the decoder has its weights."""
    depth = options.whole("dec-depth", least=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.refused("transformer-tied-layers", f"does not name a layer for each of {depth}")
    return tied


def _is_ssru(options: Settings) -> bool:
    recurrent: bool = options.any("transformer-decoder-autoreg", "self-attention") == "rnn"
    if recurrent:
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
    else:
        options.without_effect("dec-cell", "layer-normalization")
    return recurrent


def _d_ff(options: Settings) -> int:
    d_ff = options.whole("transformer-dim-ffn", least=1)
    if options.whole("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        raise options.refused(
            "transformer-decoder-dim-ffn",
            f"is another width than the encoder's `transformer-dim-ffn: {d_ff}`, and a spec has one `d_ff`",
        )
    return d_ff


def _activation(options: Settings) -> str:
    """Marian's own gelu is x sigmoid(1.702 x), which a spec has no word for."""
    found = options.text("transformer-ffn-activation", "swish")
    if found not in _ACTIVATIONS:
        raise options.refused("transformer-ffn-activation", "is nothing that a spec can say (relu and swish are)")
    return _ACTIVATIONS[found]


def _norm(options: Settings) -> str:
    """d is dropout, a the residual connection, n the norm: in this order, each where it stands."""
    keys = ("preprocess", "postprocess", "postprocess-top", "postprocess-emb")
    defaults = ("", "dan", "", "d")
    steps = tuple(
        options.text(f"transformer-{key}", default).replace("d", "")
        for key, default in zip(keys, defaults, strict=True)
    )
    if steps == ("", "an", "", ""):
        return "post"
    if steps == ("n", "a", "n", ""):
        return "pre"
    written = ", ".join(f"`{key}: {options.any(f'transformer-{key}', '')}`" for key in keys)
    raise options.refused(
        "transformer-preprocess",
        f"is with the others of its kind ({written}) neither post-norm (`dan` after) nor pre-norm (`n` before, `da` "
        "after, `n` on top), which are all that a spec can say",
    )


def _tied(options: Settings) -> str:
    """One matrix of source and target alone is written as two that are alike."""
    everything, target = options.truth("tied-embeddings-all", False), options.truth("tied-embeddings", False)
    source = options.truth("tied-embeddings-src", False)
    if everything or (source and target):
        return "all"
    return "target" if target else "none"


def embedding_of_both(options: Settings) -> bool:
    """Whether source and target have one embedding."""
    return options.truth("tied-embeddings-all", False) or options.truth("tied-embeddings-src", False)

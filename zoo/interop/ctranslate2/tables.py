"""Names of tensors in CTranslate2. The import and the export use the same tables."""

from __future__ import annotations

from collections.abc import Iterator

from zoo.interop.roundtrip import LAYERS

PARTS = {"self_attention": "self_attention", "cross_attention": "attention", "feed_forward": "ffn"}
"""CTranslate2's names of the sub-layers."""
_NORMS_ON_BOTH_SIDES = {
    "self_attention": ("input_layer_norm", "post_attention_layer_norm"),
    "cross_attention": ("external_pre_encoder_attention_layer_norm", "external_post_encoder_attention_layer_norm"),
    "feed_forward": ("pre_feedforward_layer_norm", "post_feedforward_layer_norm"),
}
"""CTranslate2's names of the norms before and after each sub-layer, if the placement is `both`."""
_LINEAR_MAPS = {
    "self_attention": (("query", "key", "value"), ("output",)),
    "cross_attention": (("query",), ("key", "value"), ("output",)),
    "feed_forward": (("w1",), ("w2",)),
}
_BIASES = {"w1": "b1", "w2": "b2"}


def linear_maps(kind: str, *, gated: bool = False) -> dict[str, tuple[str, ...]]:
    """Return the linear maps of a sub-layer: CTranslate2's name, and zoo's matrices that it concatenates.

    CTranslate2 applies the activation to `linear_0`, which is the gate of a gated network.
    """
    if gated:
        return {"linear_0": ("gate",), "linear_0_noact": ("w1",), "linear_1": ("w2",)}
    return {f"linear_{index}": names for index, names in enumerate(_LINEAR_MAPS[kind])}


def bias_of(matrix: str) -> str:
    """Return zoo's name for the bias of a linear map, given the name of its matrix."""
    return _BIASES.get(matrix, f"{matrix}_bias")


def norms(side: str, depth: int, placement: str, *, embeddings: bool) -> Iterator[tuple[str, str]]:
    """Yield CTranslate2's name and zoo's name of each norm of the encoder or the decoder.

    Args:
        side: The encoder or the decoder.
        depth: The number of layers.
        placement: The placement of the norms.
        embeddings: Whether the embeddings are also normalised.
    """
    for number in range(depth):
        for kind in LAYERS[side]:
            foreign, ours = f"{side}/layer_{number}", f"{side}.{number}.{kind}"
            if placement == "both":
                before, after = _NORMS_ON_BOTH_SIDES[kind]
                yield f"{foreign}/{before}", f"{ours}.norm"
                yield f"{foreign}/{after}", f"{ours}.post_norm"
            else:
                yield f"{foreign}/{PARTS[kind]}/layer_norm", f"{ours}.norm"
    if placement != "post":
        yield f"{side}/layer_norm", f"{side}.norm"
    if embeddings:
        yield f"{side}/layernorm_embedding", f"{side}.embedding_norm"

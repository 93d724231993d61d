"""The network of MarianMTModel: what it has, and where a bundle's tensors are in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from compiler.operations.embedding import sinusoidal_encoding
from specs import Spec, ZooError

_LONGEST = 4_096
_LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "cross_attention", "feed_forward"],
}
_PARTS = {"self_attention": "self_attn", "cross_attention": "encoder_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def require_marian(spec: Spec) -> None:
    """Raises ZooError for an architecture that MarianMTModel has not."""
    a = spec.architecture
    for side, wanted in _LAYERS.items():
        if (found := [each.kind for each in getattr(a, side)]) != wanted:
            raise refused(f"its {side} has layers of {', '.join(found)}, and MarianMTModel's of {', '.join(wanted)}")
    if a.norm != "post":
        raise refused("its norms come before each sub-layer (`norm: pre`), and MarianMTModel's after it")
    if a.d_k != a.d_v or a.d_k * a.h != a.d_model:
        raise refused(f"its {a.h} heads do not share `d_model: {a.d_model}` evenly, as those of MarianMTModel do")
    if a.attention_score != "scaled_dot_product":
        raise refused(f"`attention_score: {a.attention_score}` is not MarianMTModel's")


def refused(why: str) -> ZooError:
    """What is said of a model that cannot be written."""
    return ZooError(f"this model cannot be written for transformers: {why}", hint="`--to onnx` takes every model")


def rows(spec: Spec) -> int:
    """Of the table of positions: of the learned ones, else for the longest source and its EOS."""
    a = spec.architecture
    if a.positional_encoding == "learned":
        return a.max_positions
    return min(spec.decoding.max_source_length, _LONGEST - 1) + 1


def tensors(spec: Spec, of: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """By their names there; all that MarianMTModel has, zeros where the spec has no bias."""
    a = spec.architecture
    for side, depth in (("encoder", a.depths.encoder), ("decoder", a.depths.decoder)):
        for number in range(depth):
            yield from _layer(of, f"{side}.{number}", f"model.{side}.layers.{number}")
        yield f"model.{side}.embed_positions.weight", _positions(spec, of, side)
    if a.tied_embeddings == "all":
        yield "model.shared.weight", of["embedding"].float().clone()
    else:
        for side, name in (("encoder", "source_embedding"), ("decoder", "target_embedding")):
            yield f"model.{side}.embed_tokens.weight", of[name].float().clone()
        if a.tied_embeddings == "none":
            yield "lm_head.weight", of["output_projection"].float().clone()
    bias = of.get("output_bias", torch.zeros(spec.vocabulary.sizes[1]))
    yield "final_logits_bias", bias.float().reshape(1, -1).clone()


def _layer(of: Mapping[str, Tensor], ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    for part, their_part in _PARTS.items():
        if f"{ours}.{part}.query" not in of:
            continue
        for name, their_name in _PROJECTIONS.items():
            matrix = of[f"{ours}.{part}.{name}"]
            yield f"{theirs}.{their_part}.{their_name}.weight", _turned(matrix)
            bias = of.get(f"{ours}.{part}.{name}_bias", torch.zeros(matrix.shape[1]))
            yield f"{theirs}.{their_part}.{their_name}.bias", bias.float().clone()
        yield from _norm(of, f"{ours}.{part}", f"{theirs}.{their_part}_layer_norm")
    for ordinal in (1, 2):
        yield f"{theirs}.fc{ordinal}.weight", _turned(of[f"{ours}.feed_forward.w{ordinal}"])
        yield f"{theirs}.fc{ordinal}.bias", of[f"{ours}.feed_forward.b{ordinal}"].float().clone()
    yield from _norm(of, f"{ours}.feed_forward", f"{theirs}.final_layer_norm")


def _norm(of: Mapping[str, Tensor], ours: str, theirs: str) -> Iterator[tuple[str, Tensor]]:
    yield f"{theirs}.weight", of[f"{ours}.norm_gain"].float().clone()
    yield f"{theirs}.bias", of[f"{ours}.norm_bias"].float().clone()


def _turned(matrix: Tensor) -> Tensor:
    return matrix.float().T.contiguous()


def _positions(spec: Spec, of: Mapping[str, Tensor], side: str) -> Tensor:
    a = spec.architecture
    if a.positional_encoding == "learned":
        return of[f"{side}.positions"].float().clone()
    halves, first = a.positional_encoding == "sinusoidal_halves", a.first_position
    return torch.tensor([sinusoidal_encoding(first + row, a.d_model, halves) for row in range(rows(spec))])

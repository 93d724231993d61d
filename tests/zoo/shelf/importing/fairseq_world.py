"""Tiny checkpoints of fairseq, made from the keys that it documents, and what they compute, in plain torch."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, relu, silu

WORDS = ("a", "b", "cc", "d@@", "e", "f", "g", "h")
D, D_FF, HEADS = 8, 16, 2
ENDS, PADS = 2, 1  # fairseq's </s> and <pad>
ACTIVATIONS = {"relu": relu, "gelu": gelu, "swish": silu}


def options(**changed: Any) -> dict[str, Any]:
    """Those of a small model, as a flat list."""
    sides = ("encoder", "decoder")
    sizes = {"embed_dim": D, "ffn_embed_dim": D_FF, "attention_heads": HEADS, "layers": 2}
    of_sides = {f"{side}_{key}": value for side in sides for key, value in sizes.items()}
    flags = {f"{side}_{key}": False for side in sides for key in ("normalize_before", "learned_pos")}
    return {
        **of_sides,
        **flags,
        **{"decoder_input_dim": D, "decoder_output_dim": D, "activation_fn": "relu", "dropout": 0.1},
        **{"share_all_embeddings": False, "share_decoder_input_output_embed": False, "no_scale_embedding": False},
        **{"layernorm_embedding": False, "adaptive_softmax_cutoff": None, "max_source_positions": 20},
        **{"arch": "transformer", "task": "translation", "source_lang": "en", "target_lang": "de_DE"},
        **{"lr": [0.0005], "optimizer": "adam", "adam_betas": "(0.9, 0.98)", "seed": 1, "max_update": 100},
        **changed,
    }


def tensors(of: dict[str, Any], *, rows: int = 4 + len(WORDS)) -> dict[str, Tensor]:
    """Random ones by fairseq's names."""
    torch.manual_seed(3)
    found: dict[str, Tensor] = {}

    def linear(name: str, inner: int, outer: int) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = torch.randn(outer, inner) / 3, torch.randn(outer) / 3

    def norm(name: str) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = 1 + torch.randn(D) / 5, torch.randn(D) / 5

    for side in ("encoder", "decoder"):
        found[f"{side}.embed_tokens.weight"] = torch.randn(rows, D) / 2
        found[f"{side}.version"] = torch.tensor([3.0])
        if of[f"{side}_learned_pos"]:
            found[f"{side}.embed_positions.weight"] = torch.randn(22, D) / 2
        else:
            found[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for number in range(of[f"{side}_layers"]):
            layer = f"{side}.layers.{number}"
            for part in ("self_attn", "encoder_attn")[: 1 + (side == "decoder")]:
                for projection in ("k_proj", "v_proj", "q_proj", "out_proj"):
                    linear(f"{layer}.{part}.{projection}", D, D)
                norm(f"{layer}.{part}_layer_norm")
            linear(f"{layer}.fc1", D, D_FF)
            linear(f"{layer}.fc2", D_FF, D)
            norm(f"{layer}.final_layer_norm")
        if of[f"{side}_normalize_before"]:
            norm(f"{side}.layer_norm")
    if of["share_all_embeddings"]:
        found["encoder.embed_tokens.weight"] = found["decoder.embed_tokens.weight"]
    shared = of["share_all_embeddings"] or of["share_decoder_input_output_embed"]
    found["decoder.output_projection.weight"] = (
        found["decoder.embed_tokens.weight"] if shared else torch.randn(rows, D) / 2
    )
    return found


def write(folder: Path, of: dict[str, Any], found: dict[str, Tensor], held: dict[str, Any] | None = None) -> Path:
    """A folder with `checkpoint_best.pt` and the dictionaries; `held` in place of the flat options."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = held or {"args": argparse.Namespace(**of)}
    torch.save({**kept, "model": found, "optimizer_history": [{"num_updates": 7}]}, folder / "checkpoint_best.pt")
    for language in ("en", "de_DE"):
        of_side = WORDS if language == "en" or of["share_all_embeddings"] else WORDS[::-1]
        lines = "".join(f"{word} {9 - place}\n" for place, word in enumerate(of_side))
        (folder / f"dict.{language}.txt").write_text(lines, encoding="utf-8")
    return folder


def log_probabilities(of: dict[str, Any], found: dict[str, Tensor], source: list[int], target: list[int]) -> Tensor:
    """Of each piece of a target, in fairseq's numbers; it begins after EOS and ends with EOS."""
    memory = _stack("encoder", of, found, torch.tensor(source), None)
    begun = torch.tensor([ENDS, *target[:-1]])
    logits = _stack("decoder", of, found, begun, memory) @ found["decoder.output_projection.weight"].T
    return logits.log_softmax(-1)[torch.arange(len(target)), torch.tensor(target)]


def _stack(side: str, of: dict[str, Any], found: dict[str, Tensor], ids: Tensor, memory: Tensor | None) -> Tensor:
    scale = 1.0 if of["no_scale_embedding"] else math.sqrt(D)
    x = scale * found[f"{side}.embed_tokens.weight"][ids] + _positions(side, of, found, len(ids))
    before = of[f"{side}_normalize_before"]
    hidden = torch.full((len(ids), len(ids)), -math.inf).triu(1) if memory is not None else torch.zeros(1)

    def normed(x: Tensor, name: str) -> Tensor:
        return layer_norm(x, (D,), found[f"{name}.weight"], found[f"{name}.bias"], 1e-5)

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ found[f"{name}.weight"].T + found[f"{name}.bias"]

    def attention(x: Tensor, of_what: Tensor, name: str, mask: Tensor) -> Tensor:
        query, key, value = (
            linear(each, f"{name}.{part}_proj").view(len(each), HEADS, -1).transpose(0, 1)
            for part, each in (("q", x), ("k", of_what), ("v", of_what))
        )
        weights = (query @ key.transpose(1, 2) / math.sqrt(D / HEADS) + mask).softmax(-1)
        return linear((weights @ value).transpose(0, 1).reshape(len(x), D), f"{name}.out_proj")

    for number in range(of[f"{side}_layers"]):
        layer = f"{side}.layers.{number}"
        parts = [(f"{layer}.self_attn_layer_norm", lambda y, layer=layer: attention(y, y, f"{layer}.self_attn", hidden))]
        if memory is not None:
            reads = lambda y, layer=layer: attention(y, memory, f"{layer}.encoder_attn", torch.zeros(1))  # noqa: E731
            parts.append((f"{layer}.encoder_attn_layer_norm", reads))
        active = ACTIVATIONS[of["activation_fn"]]
        inner = lambda y, layer=layer: linear(active(linear(y, f"{layer}.fc1")), f"{layer}.fc2")  # noqa: E731
        parts.append((f"{layer}.final_layer_norm", inner))
        for norm, sublayer in parts:
            x = x + sublayer(normed(x, norm)) if before else normed(x + sublayer(x), norm)
    return normed(x, f"{side}.layer_norm") if before else x


def _positions(side: str, of: dict[str, Any], found: dict[str, Tensor], length: int) -> Tensor:
    if of[f"{side}_learned_pos"]:
        return found[f"{side}.embed_positions.weight"][PADS + 1 : PADS + 1 + length]
    half = D // 2
    angles = torch.arange(2, 2 + length).unsqueeze(1) * torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], 1)

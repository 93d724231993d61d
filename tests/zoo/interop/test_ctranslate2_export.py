"""Exported models compute the same in CTranslate2, whose missing parts are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import specs
from compiler import build
from specs import EOS, UNK
from tests.examples import small
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from zoo.interop.ctranslate2.exporter import require_supported
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.text.vocabulary import Vocabulary

TEXTS = ["the old dog sees a small house", "two books?", "we read today the man", "do you see the cat? " * 6]


def layers(attention: dict[str, Any], **feed_forward: Any) -> dict[str, Any]:
    """Return the layers of both stacks, whose attentions have the same options."""
    self_attention, cross_attention = ({"kind": f"{kind}_attention", **attention} for kind in ("self", "cross"))
    inner = {"kind": "feed_forward", **feed_forward}
    return {"encoder": [self_attention, inner], "decoder": [self_attention, cross_attention, inner]}


SIZES = {"h": 4, "d_k": 6, "d_v": 6, "output_bias": True}
ROTARY, RELATIVE, ALIBI = ({"positions": {"kind": kind}} for kind in ("rotary", "relative", "alibi"))
PARTS: dict[str, dict[str, Any]] = {
    "rms_norm": {"norm": {"kind": "rms_norm", "epsilon": 0.01, "embeddings": True}},
    "norms on both sides": {"norm": {"placement": "both"}},
    "rms_norm on both sides": {"norm": {"kind": "rms_norm", "placement": "both"}, **RELATIVE},
    "gated, no bias": layers({}, gated=True, bias=False, activation="gelu"),
    "grouped heads": {**layers({"kv_heads": 2}), "projection_bias": True},
    "rotary": {"positions": {"kind": "rotary", "theta": 100.0}},
    "alibi, three heads": {**ALIBI, "h": 3},
    "no positions": {"positions": {"kind": "none"}},
    "padded heads": {**ROTARY, "d_v": 4, "projection_bias": True},
    "padded grouped heads": {**layers({"kv_heads": 2}), **RELATIVE, "d_k": 4},
    "own options": {
        "N": {"encoder": 1, "decoder": 2},
        "encoder": [{"kind": "self_attention", "h": 2}, {"kind": "feed_forward", "gated": True, "d_ff": 10}],
        "decoder": [
            {"kind": "self_attention", "kv_heads": 1, "projection_bias": True},
            {"kind": "cross_attention", "d_k": 4, "d_v": 8, "dropout": 0.3},
            {"kind": "feed_forward", "bias": False, "activation": "silu"},
        ],
        **ALIBI,
    },
}
SIZE_FIELDS = {"N", "d_model", "d_ff", "h", "d_k", "d_v", "output_bias"}
for name in ("t5", "modern", "rotary", "alibi"):
    PARTS[f"variants/{name}"] = specs.load(f"variants/{name}").architecture.model_dump(exclude=SIZE_FIELDS)


@pytest.mark.parametrize("architecture", PARTS.values(), ids=PARTS)
def test_exported_models_compute_the_same(architecture: dict[str, Any], tokens: Vocabulary, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    spec = small(**{**SIZES, **architecture})
    torch.manual_seed(3)
    tensors = {name: tensor + torch.randn_like(tensor) / 5 for name, tensor in build(spec).weights().items()}
    tensors["output_bias"][[UNK, EOS]] = torch.tensor([-30.0, 3.0])  # no unknown tokens, and some short translations
    tiny.require_same_in_ctranslate2(Model(spec, tokens, Weights(tensors)), tmp_path, TEXTS)


@pytest.mark.parametrize(
    ("message", "architecture"),
    [
        ("`norm: none`", {"norm": {"kind": "none", "placement": "post"}}),
        ("`attention_score: additive`", {"attention_score": "additive"}),
        ("`source: features`", {"source": {"kind": "features", "width": 3}, "tied_embeddings": "target"}),
        ("layers consist of self_attention, mixture_of_experts", {
            "encoder": [{"kind": "self_attention"}, {"kind": "mixture_of_experts", "experts": 4, "top_k": 2}],
        }),
        ("the same number of heads in all attention layers of the decoder", {
            "decoder": [{"kind": "self_attention", "h": 1}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        }),
    ],
)  # fmt: skip
def test_parts_that_ctranslate2_lacks_are_named(message: str, architecture: dict[str, Any]) -> None:
    refused(f"CTranslate2.*{message}|{message}.*CTranslate2", require_supported, small(**architecture).architecture)

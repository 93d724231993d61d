"""`config.json` and `generation_config.json` of transformers' Marian, from a spec."""

from __future__ import annotations

from typing import Any

from specs import BOS, EOS, PAD, Spec
from zoo.interop.huggingface.export_network import rows

EPSILON = 1e-5
"""Of its norms, always."""
_ACTIVATIONS = {"relu": "relu", "silu": "swish", "gelu": "gelu"}
_GNMT = "the spec's length penalty is ((5 + length) / 6)^alpha, and that of transformers is length^alpha"
_ENDING = "a beam search ends there by transformers' own rule, and not as `ending: {}` does"
_LENGTH = "transformers has one longest translation for all sources: `max_length` in generation_config.json"


def config(spec: Spec) -> dict[str, Any]:
    """`config.json`."""
    a = spec.architecture
    source, target = spec.vocabulary.sizes
    sides = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("attention_heads", a.h), ("ffn_dim", a.d_ff), ("layerdrop", 0.0))
    }
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "activation_function": _ACTIVATIONS[a.activation],
        "d_model": a.d_model,
        **sides,
        "encoder_layers": a.depths.encoder,
        "decoder_layers": a.depths.decoder,
        "dropout": a.dropout,
        "attention_dropout": a.attention_dropout,
        "activation_dropout": a.activation_dropout,
        "vocab_size": source,
        "decoder_vocab_size": target,
        "max_position_embeddings": rows(spec),
        "scale_embedding": True,
        "static_position_embeddings": True,
        "share_encoder_decoder_embeddings": a.tied_embeddings == "all",
        "tie_word_embeddings": a.tied_embeddings != "none",
        "pad_token_id": PAD,
        "bos_token_id": None,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
        "forced_eos_token_id": None,
        "use_cache": True,
        "dtype": "float32",
    }


def generation(spec: Spec) -> dict[str, Any]:
    """`generation_config.json`, as near as it comes; what decoding starts with and EOS count for `max_length`."""
    decoding = spec.decoding
    longest = rows(spec) if decoding.length_factor else min(rows(spec), decoding.extra_length + 2)
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "early_stopping": decoding.stopping_rule == "full",
        "max_length": longest,
        "bad_words_ids": [[id] for id in dict.fromkeys((PAD, BOS, *decoding.suppressed_tokens))],
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS,
    }


def differences(spec: Spec) -> list[str]:
    """What the two cannot say, for the user to know."""
    decoding, epsilon = spec.decoding, spec.architecture.norm_epsilon
    gnmt = [_GNMT] if decoding.length_penalty == "gnmt" and decoding.alpha and decoding.beam > 1 else []
    ending = [_ENDING.format(decoding.stopping_rule)] if decoding.stopping_rule != "full" and decoding.beam > 1 else []
    norm = [f"norms add {EPSILON:g} to the variance there, and {epsilon:g} here"] if epsilon != EPSILON else []
    return [*norm, *gnmt, *ending, *([_LENGTH] if decoding.length_factor else [])]

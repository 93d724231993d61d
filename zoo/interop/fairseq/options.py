"""What the options of fairseq say of a network: each is used, known to change nothing, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zoo.interop.fairseq.known import OF_TRAINING
from zoo.interop.settings import Settings

_ACTIVATIONS = {"relu": "relu", "swish": "silu", "gelu": "gelu"}
_NOTHING = (None, False, 0)
_ALLOWED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("adaptive_input", "character_embeddings", "char_inputs", "cross_self_attention"), _NOTHING),
    **dict.fromkeys(("adaptive_softmax_cutoff", "layer_wise_attention", "layernorm_embedding"), _NOTHING),
    **dict.fromkeys(("merge_src_tgt_embed", "no_cross_attention", "no_token_positional_embeddings"), _NOTHING),
    **dict.fromkeys(("use_factorized_embedding", "no_decoder_final_norm", "full_context_alignment"), _NOTHING),
    **dict.fromkeys(("scale_fc", "scale_attn", "scale_heads", "scale_resids", "base_layers"), _NOTHING),
    **{
        f"{side}_{name}": _NOTHING
        for side in ("encoder", "decoder")
        for name in (
            "layers_to_keep",
            "recurrent_stacking",
            "factorized_embed_dim",
            "add_adapters",
            "xformers_att_config",
        )
    },
    "task": ("translation",),
}
"""Of what changes the network, the values that a spec can say."""
_WITHOUT_EFFECT = (
    *("arch", "_name", "data", "quant_noise_pq", "quant_noise_pq_block_size", "quant_noise_scalar", "export"),
    *("encoder_layerdrop", "decoder_layerdrop", "encoder_embed_path", "decoder_embed_path", "min_params_to_wrap"),
    *("checkpoint_activations", "offload_activations", "alignment_heads", "alignment_layer", "tie_adaptive_proj"),
    *("tie_adaptive_weights", "adaptive_softmax_dropout", "adaptive_softmax_factor", "adaptive_input_factor"),
    *("adaptive_input_cutoff", "char_embedder_highway_layers", "character_embedding_dim", "character_filters"),
    *("base_sublayers", "base_shuffle", "max_source_positions", "max_target_positions", "bpe", "tokenizer"),
    *("encoder_adapter_reduction_factor", "encoder_adapter_activation_fn", "encoder_adapter_lang_ids"),
    *("decoder_adapter_reduction_factor", "decoder_adapter_activation_fn", "decoder_adapter_lang_ids"),
    *("encoder_finetune_adapter", "decoder_finetune_adapter"),
)
"""They are of training, of other networks than those that are allowed, or the tensors say it themselves."""


def flat(options: Mapping[str, Any], where: str) -> Settings:
    """Options of a checkpoint as one list, whether fairseq had sections when it was written or not."""
    if not isinstance(options.get("model"), Mapping):
        return Settings({key: _word(value) for key, value in options.items()}, where)
    found: dict[str, Any] = {}
    task = options.get("task")
    for section, prefix in ((task if isinstance(task, Mapping) else {}, ""), (options["model"], "")):
        for key, value in section.items():
            if isinstance(value, Mapping) and key in ("encoder", "decoder", "quant_noise"):
                found |= {f"{key}_{inner}": each for inner, each in value.items()}
            else:
                found[f"{prefix}{key}"] = _word(value)
    if isinstance(task, Mapping):
        found["task"] = task.get("_name")
    return Settings(found, where)


def architecture(options: Settings) -> dict[str, Any]:
    """The fields of `architecture` that follow. Raises ZooError for what a spec cannot say."""
    options.require(_ALLOWED)
    options.without_effect(*_WITHOUT_EFFECT, *OF_TRAINING)
    width, heads = _both(options, "embed_dim", None), _both(options, "attention_heads", None)
    for key in ("decoder_input_dim", "decoder_output_dim"):
        if options.whole(key, width) != width:
            raise options.refused(key, f"is another width than `decoder_embed_dim: {width}`, and a spec has one")
    if width % heads:
        raise options.refused("encoder_attention_heads", f"do not divide `encoder_embed_dim: {width}`")
    found = options.text("activation_fn", "relu")
    if found not in _ACTIVATIONS:
        raise options.refused("activation_fn", "is nothing that a spec can say (relu, gelu and swish are)")
    return {
        "N": {side: options.whole(f"{side}_layers", least=1) for side in ("encoder", "decoder")},
        "d_model": width,
        "d_ff": _both(options, "ffn_embed_dim", None),
        "h": heads,
        "d_k": width // heads,
        "d_v": width // heads,
        "dropout": options.number("dropout", 0.1),
        "attention_dropout": options.number("attention_dropout", 0.0),
        "activation_dropout": max(options.number(key, 0.0) for key in ("activation_dropout", "relu_dropout")),
        "activation": _ACTIVATIONS[found],
        "norm": "pre" if _both(options, "normalize_before", False) else "post",
        "norm_epsilon": 1e-5,
        "initial_weights": "glorot_uniform_half_qkv",
    }


def learns_positions(options: Settings) -> bool:
    """Whether positions are learned, on both sides."""
    return bool(_both(options, "learned_pos", False))


def scales_embeddings(options: Settings) -> bool:
    """Whether embeddings are multiplied by sqrt(d_model)."""
    return not options.truth("no_scale_embedding", False)


def languages(options: Settings) -> tuple[str | None, str | None]:
    """Source and target, as fairseq calls them."""
    source, target = (options.any(f"{side}_lang") for side in ("source", "target"))
    return source if isinstance(source, str) else None, target if isinstance(target, str) else None


def shares_output(options: Settings) -> bool:
    """Whether the decoder's embedding is the projection to the logits, too."""
    shared = [options.truth(key, False) for key in ("share_decoder_input_output_embed", "share_all_embeddings")]
    return any(shared)


def _both(options: Settings, name: str, default: bool | None) -> int:
    """What is said of the encoder and of the decoder: a spec says it once."""
    keys = [f"{side}_{name}" for side in ("encoder", "decoder")]
    one, other = (options.whole(key, least=1) if default is None else options.truth(key, default) for key in keys)
    if one != other:
        raise options.refused(keys[1], f"is not `{keys[0]}: {one}`, and a spec has it once")
    return one


def _word(value: Any) -> Any:
    """Of an option that is a section of its own, its name."""
    return value.get("_name") if isinstance(value, Mapping) else value

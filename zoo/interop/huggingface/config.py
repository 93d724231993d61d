"""What `config.json` says of the network, as a spec's `architecture`."""

from __future__ import annotations

from typing import Any

from zoo.interop.imported import Positions
from zoo.interop.settings import Settings

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "model_type": ("marian",),
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "scale_embedding": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "add_bias_logits": (False, True),
    "static_position_embeddings": (True,),
    "extra_pos_embeddings": (0,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "quantization_config": (None,),
    "is_multilingual": (False, True),
}
"""Of what changes the network, the values that a spec can say."""
_WITHOUT_EFFECT = (
    *(
        "architectures",
        "transformers_version",
        "_name_or_path",
        "name_or_path",
        "_num_labels",
        "num_labels",
        "id2label",
    ),
    *("label2id", "classif_dropout", "classifier_dropout", "encoder_layerdrop", "decoder_layerdrop", "init_std"),
    *("gradient_checkpointing", "use_cache", "output_past", "torch_dtype", "dtype", "torchscript", "use_bfloat16"),
    *("output_attentions", "output_hidden_states", "return_dict", "finetuning_task", "problem_type", "tokenizer_class"),
    *("prefix", "task_specific_params", "sep_token_id", "num_hidden_layers", "save_step", "swish", "mirror"),
    *("_commit_hash", "attn_implementation", "_attn_implementation_autoset", "tf_legacy_loss", "bos_token_id"),
)
"""Of training, of other models, of how it is run. `extra_pos_embeddings` is of tables that are learned."""
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
_EPSILON = {"marian": 1e-6, "transformers": 1e-5}
"""Of the norms: each has its own."""


def architecture(config: Settings, positions: Positions) -> dict[str, Any]:
    """The fields of `architecture` that follow. Raises ZooError for what a spec cannot say."""
    config.require({key: values for key, values in _ALLOWED.items() if key != "extra_pos_embeddings"})
    config.without_effect(*_WITHOUT_EFFECT, "extra_pos_embeddings")
    if not config.truth("scale_embedding", False):  # as transformers has it where nothing is said
        raise config.refused("scale_embedding", "does not scale embeddings by the root of their width, as a spec does")
    d_model, h = config.whole("d_model", 1024, least=1), _of_both(config, "attention_heads", 16)
    if d_model % h or d_model % 2 or d_model < 4:
        raise config.refused("d_model", f"is odd, or is not divided by {h} heads")
    activation = config.text("activation_function", "gelu")
    if activation not in _ACTIVATIONS:
        raise config.refused("activation_function", "is nothing that a spec can say (swish, relu and gelu are)")
    return {
        "N": {side: config.whole(f"{side}_layers", 12, least=1) for side in ("encoder", "decoder")},
        "d_model": d_model,
        "d_ff": _of_both(config, "ffn_dim", 4096),
        "h": h,
        "d_k": d_model // h,
        "d_v": d_model // h,
        "dropout": config.number("dropout", 0.1),
        "attention_dropout": config.number("attention_dropout", 0.0),
        "activation_dropout": config.number("activation_dropout", 0.0),
        "activation": _ACTIVATIONS[activation],
        # Those of transformers are the paper's, which ours have in another order.
        "positional_encoding": "sinusoidal_halves" if positions == "marian" else "sinusoidal",
        "norm": "post",
        "norm_epsilon": _EPSILON[positions],
        "tied_embeddings": _tied(config),
        "projection_bias": True,
        "output_bias": True,
    }


def shares_embeddings(config: Settings) -> bool:
    """Whether source and target have one embedding."""
    return config.truth("share_encoder_decoder_embeddings", True)


def _of_both(config: Settings, key: str, default: int) -> int:
    encoder, decoder = (config.whole(f"{side}_{key}", default, least=1) for side in ("encoder", "decoder"))
    if encoder != decoder:
        raise config.refused(f"decoder_{key}", f"is not the encoder's {encoder}, and a spec has one for both")
    return encoder


def _tied(config: Settings) -> str:
    if not config.truth("tie_word_embeddings", True):
        return "none"
    return "all" if shares_embeddings(config) else "target"

"""Settings in `config.json` that several families of transformers' models have."""

from __future__ import annotations

from typing import Any

from zoo.interop.settings import Settings
from zoo.interop.tables import Setting, read_settings

ALLOWED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "quantization_config": (None,),
}
"""Supported values of the settings that change the network."""
NO_EFFECT = (
    *("architectures", "transformers_version", "_name_or_path", "name_or_path", "_num_labels", "num_labels"),
    *("id2label", "label2id", "classif_dropout", "classifier_dropout", "encoder_layerdrop", "decoder_layerdrop"),
    *("gradient_checkpointing", "use_cache", "output_past", "torch_dtype", "dtype", "torchscript", "use_bfloat16"),
    *("output_attentions", "output_hidden_states", "return_dict", "finetuning_task", "problem_type", "tokenizer_class"),
    *("prefix", "task_specific_params", "sep_token_id", "num_hidden_layers", "save_step", "swish", "mirror"),
    *("_commit_hash", "attn_implementation", "_attn_implementation_autoset", "tf_legacy_loss", "bos_token_id"),
    *("init_std", "extra_pos_embeddings"),
)
"""Ignored settings: for training, for performance, for other models, and for learned positions."""
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Supported activations of transformers."""
WRITTEN = {"is_encoder_decoder": True, "forced_eos_token_id": None, "use_cache": True, "dtype": "float32"}
"""Settings in the `config.json` of every exported model."""


def bart_settings(activation: str, attention_dropout: float) -> tuple[Setting, ...]:
    """Return the settings that Marian, M2M-100 and mBART models have, with two defaults that differ."""
    return (
        Setting("{side}_layers", "N.{side}", 12),
        Setting("d_model", "d_model", 1024),
        Setting("{side}_attention_heads", "h", 16),
        Setting("{side}_ffn_dim", "d_ff", 4096),
        Setting("dropout", "dropout", 0.1),
        Setting("attention_dropout", "attention_dropout", attention_dropout),
        Setting("activation_dropout", "activation_dropout", 0.0),
        Setting("activation_function", "activation", activation, ACTIVATIONS),
    )


def read_bart_settings(config: Settings, table: tuple[Setting, ...]) -> dict[str, Any]:
    """Return the fields of `architecture` that Marian, M2M-100 and mBART models express equally.

    Raises:
        ZooError: A setting is not supported.
    """
    fields = read_settings(config, table)
    d_model, h = fields["d_model"], fields["h"]
    if d_model % h or d_model % 2 or d_model < 4:
        raise config.error("d_model", f"is odd, or cannot be divided among {h} heads")
    return {**fields, "d_k": d_model // h, "d_v": d_model // h, "projection_bias": True, "output_bias": True}

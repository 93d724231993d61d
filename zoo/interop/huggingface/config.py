"""Conversion of the `config.json` of transformers' Marian models to the section `architecture` of a spec."""

from __future__ import annotations

from typing import Any

from zoo.interop.formats import PositionConvention
from zoo.interop.settings import Settings
from zoo.interop.tensors import SIDES

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
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "chunk_size_feed_forward": (0,),
    "pruned_heads": ({},),
    "tie_encoder_decoder": (False,),
    "quantization_config": (None,),
    "is_multilingual": (False, True),
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
_EPSILON = {"marian": 1e-6, "transformers": 1e-5}
"""Epsilon of layer norms in each toolkit."""


def architecture_fields(config: Settings, positions: PositionConvention) -> dict[str, Any]:
    """Return the fields of the spec's `architecture` without `tied_embeddings`.

    Args:
        config: The content of `config.json`.
        positions: The toolkit whose positions and epsilon the model was trained with.

    Raises:
        ZooError: A setting is not supported.
    """
    config.require(_ALLOWED)
    config.ignore(*NO_EFFECT)
    if not config.boolean("scale_embedding", False):  # the default of transformers
        raise config.error("scale_embedding", "leaves embeddings unscaled, but zoo multiplies them by sqrt(d_model)")
    return {
        **common_fields(config, activation="gelu", attention_dropout=0.0),
        # The sinusoids of transformers are those of the paper in another order (`weights.to_interleaved`).
        "positions": {"kind": "sinusoidal_halves" if positions == "marian" else "sinusoidal"},
        "norm": {"placement": "post", "epsilon": _EPSILON[positions]},
    }


def common_fields(config: Settings, *, activation: str, attention_dropout: float) -> dict[str, Any]:
    """Return the fields of `architecture` that Marian, M2M-100 and mBART models of transformers express equally.

    Args:
        config: The content of `config.json`.
        activation: The default of `activation_function`.
        attention_dropout: The default of `attention_dropout`.

    Raises:
        ZooError: A setting is not supported.
    """
    d_model, h = config.integer("d_model", 1024, minimum=1), same_integer(config, "attention_heads", 16)
    if d_model % h or d_model % 2 or d_model < 4:
        raise config.error("d_model", f"is odd, or cannot be divided among {h} heads")
    return {
        "N": {side: config.integer(f"{side}_layers", 12, minimum=1) for side in SIDES},
        "d_model": d_model,
        "d_ff": same_integer(config, "ffn_dim", 4096),
        "h": h,
        "d_k": d_model // h,
        "d_v": d_model // h,
        "dropout": config.number("dropout", 0.1),
        "attention_dropout": config.number("attention_dropout", attention_dropout),
        "activation_dropout": config.number("activation_dropout", 0.0),
        "activation": read_activation(config, "activation_function", activation),
        "projection_bias": True,
        "output_bias": True,
    }


def read_activation(config: Settings, key: str, default: str) -> str:
    """Return zoo's name of the activation in a setting. Raise ZooError if zoo does not support it."""
    name = config.text(key, default)
    if name not in ACTIVATIONS:
        raise config.error(key, "is an activation that zoo does not support")
    return ACTIVATIONS[name]


def has_common_embedding(config: Settings) -> bool:
    """Return whether source and target have the same embedding matrix."""
    return config.boolean("share_encoder_decoder_embeddings", True)


def same_integer(config: Settings, key: str, default: int) -> int:
    """Return an integer setting that the encoder and the decoder share. Raise ZooError if their values differ."""
    encoder, decoder = (config.integer(f"{side}_{key}", default, minimum=1) for side in SIDES)
    if encoder != decoder:
        raise config.error(f"decoder_{key}", f"differs from the encoder's value {encoder}, but zoo supports one value")
    return encoder

"""Conversion of a fairseq checkpoint: options to the `architecture` of a spec, and tensors to zoo's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import ZooError
from zoo.interop.settings import Settings
from zoo.interop.tables import FIRST_POSITION, Setting, read_settings
from zoo.interop.tensors import RESTORE, SIDES, EmbeddingTables, ForeignTensors

_SETTINGS = (
    Setting("{side}_layers", "N.{side}", int),
    Setting("{side}_embed_dim", "d_model", int),
    Setting("{side}_attention_heads", "h", int),
    Setting("{side}_ffn_embed_dim", "d_ff", int),
    Setting("dropout", "dropout", 0.1),
    Setting("attention_dropout", "attention_dropout", 0.0),
    Setting("activation_fn", "activation", "relu", {"relu": "relu", "swish": "silu", "gelu": "gelu"}),
)
_TENSORS_WITHOUT_EFFECT = re.compile(r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))")
_OLD_NORM = re.compile(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.(\d)\.(weight|bias)")
_OLD_PROJECTIONS = re.compile(r"(.+_attn)\.in_proj_(weight|bias)")
_PROJECTION_BIAS = re.compile(r".+_attn\.(q|k|v|out)_proj\.bias")
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


def flat_options(options: Mapping[str, Any], where: str) -> Settings:
    """Return the options of a checkpoint as one mapping without sections, for all versions of fairseq.

    Args:
        options: The options. Newer versions of fairseq put them into sections.
        where: The file, for error messages.
    """
    if not isinstance(options.get("model"), Mapping):
        return Settings({key: _name_or_value(value) for key, value in options.items()}, where)
    flat: dict[str, Any] = {}
    task = options.get("task")
    for section in (task if isinstance(task, Mapping) else {}, options["model"]):
        for key, value in section.items():
            if isinstance(value, Mapping) and key in (*SIDES, "quant_noise"):
                flat |= {f"{key}_{inner}": item for inner, item in value.items()}
            else:
                flat[key] = _name_or_value(value)
    if isinstance(task, Mapping):
        flat["task"] = task.get("_name")
    return Settings(flat, where)


def architecture_fields(options: Settings) -> dict[str, Any]:
    """Return the fields of `architecture`. Raise ZooError for an option that zoo does not support."""
    options.require_known("fairseq")
    fields = read_settings(options, _SETTINGS)
    d_model, h = fields["d_model"], fields["h"]
    for key in ("decoder_input_dim", "decoder_output_dim"):
        if options.integer(key, d_model) != d_model:
            raise options.error(key, f"differs from `decoder_embed_dim: {d_model}`, but zoo supports one `d_model`")
    if d_model % h:
        raise options.error("encoder_attention_heads", f"does not divide `encoder_embed_dim: {d_model}`")
    return {
        **fields,
        "d_k": d_model // h,
        "d_v": d_model // h,
        "activation_dropout": max(options.number(key, 0.0) for key in ("activation_dropout", "relu_dropout")),
        "norm": {"placement": "pre" if _same_boolean(options, "normalize_before") else "post", "epsilon": 1e-5},
        "initial_weights": "glorot_uniform_half_qkv",
    }


def _same_boolean(options: Settings, name: str) -> bool:
    """Return the value that the encoder and the decoder share. Raise ZooError if their values differ."""
    ((_, value),) = Setting(f"{{side}}_{name}", name, False).read(options)
    return bool(value)


def _name_or_value(value: Any) -> Any:
    """Return the value of an option. If the value is a Hydra section, return its `_name` instead."""
    return value.get("_name") if isinstance(value, Mapping) else value


def fields_of_tensors(source: ForeignTensors, options: Settings) -> dict[str, Any]:
    """Return the fields of `architecture` that follow from the tensors. Shorten learned positions to a common length.

    Raises:
        ZooError: The positions are missing.
    """
    positions: dict[str, Any] = {"kind": "sinusoidal_halves", "first": FIRST_POSITION}
    if _same_boolean(options, "learned_pos"):
        tables = {name: source.take(name) for name in (f"{side}.embed_positions.weight" for side in SIDES)}
        rows = min(map(len, tables.values()))
        source.left |= {name: table[:rows] for name, table in tables.items()}
        positions = {"kind": "learned", "rows": rows - FIRST_POSITION}
    return {"positions": positions, "projection_bias": any(map(_PROJECTION_BIAS.fullmatch, source.left))}


def read_embeddings(source: ForeignTensors, options: Settings) -> EmbeddingTables:
    """Remove the embeddings and the output projection from `source`, and return them.

    Raise ZooError if one is missing.
    """
    encoder, decoder = (source.take(f"{side}.embed_tokens.weight") for side in SIDES)
    tied = [options.boolean(f"share_{name}", False) for name in ("decoder_input_output_embed", "all_embeddings")]
    names = ("decoder.output_projection.weight", "decoder.embed_out")
    outputs = [source.take(name) for name in names if name in source.left]
    if not outputs and not any(tied):
        problem = f"`{source.file}` has no `{names[0]}`, but its options say that it is not tied to the embedding"
        raise ZooError(problem, hint=RESTORE)
    scale = 1.0 if options.boolean("no_scale_embedding", False) else float(decoder.shape[1]) ** 0.5
    return EmbeddingTables(encoder, decoder, outputs[0] if outputs else decoder, None, scale, scale)


def current_tensors(tensors: Mapping[str, Tensor], file: Path) -> ForeignTensors:
    """Return the tensors that affect the model, with the names that current versions of fairseq use."""
    renamed: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if norm := _OLD_NORM.fullmatch(name):
            layer, side, number, kind = norm.groups()
            known = int(number) < len(_NORMS[side])
            renamed[f"{layer}.{_NORMS[side][int(number)]}.{kind}" if known else name] = tensor
        elif projections := _OLD_PROJECTIONS.fullmatch(name):
            for part, chunk in zip("qkv", tensor.chunk(3) if tensor.dim() else (), strict=False):
                renamed[f"{projections[1]}.{part}_proj.{projections[2]}"] = chunk
        elif not _TENSORS_WITHOUT_EFFECT.fullmatch(name):
            renamed[name] = tensor
    return ForeignTensors(renamed, file)

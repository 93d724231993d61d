"""Export to transformers' T5GemmaForConditionalGeneration and GemmaTokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from specs import BOS, FeedForward, Rotary, Spec
from zoo.files.atomic import write_json
from zoo.interop.formats import Bundle, ImportFormat
from zoo.interop.huggingface.exporter import (
    WRITTEN_ACTIVATIONS,
    TransformersExport,
    require_layers,
    search_differences,
    unsupported,
)
from zoo.interop.huggingface.folder import CONFIG, GENERATION_CONFIG
from zoo.interop.huggingface.layers import written_layer_tensors
from zoo.interop.huggingface.t5_exporter import END, ExportedIds, generation_config, write_vocabulary
from zoo.interop.huggingface.t5gemma import SENTENCEPIECE, T5GemmaImport, layer_tensors
from zoo.interop.huggingface.weight_files import FILES
from zoo.interop.sentencepiece_model import SentencePieceModel
from zoo.interop.tensors import SIDES
from zoo.text.tokenizer import Tokenizer

_OWN_OPTIONS = {
    "self_attention": ("h", "kv_heads"),
    "cross_attention": ("h", "kv_heads"),
    "feed_forward": ("d_ff", "gated", "bias", "activation"),
}
_ACTIVATIONS = WRITTEN_ACTIVATIONS | {"gelu_tanh": "gelu_pytorch_tanh"}
_NO_WINDOW = 1 << 20  # positions; transformers demands a number even if no layer has a window


class T5GemmaExport(TransformersExport):
    """The export format `hf-t5gemma`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "hf-t5gemma"
    description = "a folder of transformers' T5GemmaForConditionalGeneration"
    model_class = "T5GemmaForConditionalGeneration"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format of the same name."""
        return T5GemmaImport()

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write weights, settings and the vocabulary. Return notes for the user.

        Raises:
            ZooError: T5Gemma cannot express the model.
        """
        spec, tensors = bundle.spec, bundle.tensors
        require_t5gemma(spec)
        _require_vocabulary(bundle)
        ids = ExportedIds.of(tensors["target_embedding"], tensors)
        written = dict(written_layer_tensors(tensors, layer_tensors(spec.architecture)))
        for each in layer_tensors(spec.architecture):
            if each.offset and not torch.equal(
                written[f"{each.foreign}.weight"] + each.offset, tensors[each.ours].float()
            ):
                raise unsupported(f"T5Gemma stores gains of norms minus 1, which rounds small ones (`{each.ours}`)")
        tables = dict(zip(SIDES, ("source_embedding", "target_embedding"), strict=True))
        for side, name in tables.items():
            written[f"model.{side}.embed_tokens.weight"] = tensors[name].float()[ids.order]
        if spec.architecture.tied_embeddings == "none":
            written["lm_head.out_proj.weight"] = tensors["output_projection"].float()[ids.order]
        safetensors.torch.save_file(written, folder / FILES[0], metadata={"format": "pt"})
        write_json(folder / CONFIG, _config(spec, ids))
        write_json(folder / GENERATION_CONFIG, generation_config(spec, ids))
        ends = bool(bundle.vocabulary.source_suffix)
        settings = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": False, "add_eos_token": ends}
        write_vocabulary(bundle, folder / SENTENCEPIECE, ids, settings)
        return list(search_differences(spec))

    def foreign_ids(self, bundle: Bundle) -> Tensor:
        """Return transformers' token IDs, in the order of zoo's IDs."""
        return ExportedIds.of(bundle.tensors["target_embedding"], bundle.tensors).foreign


def require_t5gemma(spec: Spec) -> None:
    """Raise ZooError if T5GemmaForConditionalGeneration cannot express the architecture of a spec."""
    a = spec.architecture
    require_layers(spec, "T5Gemma has")
    for side in SIDES:
        sublayers = getattr(a, side)
        for index, sublayer in enumerate(sublayers):
            if own := next((name for name in sublayer.own_options if name not in _OWN_OPTIONS[sublayer.kind]), None):
                raise unsupported(f"it has the option `{side}[{index}].{own}`, which T5Gemma does not have")
            if isinstance(sublayer, FeedForward) and (not sublayer.gated or sublayer.bias):
                raise unsupported("T5Gemma has gated feed-forward networks without biases")
        heads = {(a.option(each, "h"), each.kv_heads) for each in sublayers if not isinstance(each, FeedForward)}
        if len(heads) > 1:
            raise unsupported(f"all attentions of the {side} have the same numbers of heads in T5Gemma")
    if a.norm.kind != "rms_norm" or a.norm.placement != "both" or a.norm.embeddings:
        raise unsupported("T5Gemma has RMSNorm on both sides of each sub-layer, and no other norms")
    if not isinstance(a.positions, Rotary):
        raise unsupported(f"T5Gemma has rotary positions, and not `{a.positions.kind}`")
    if a.attention_score != "scaled_dot_product":
        raise unsupported(f"T5Gemma has `attention_score: scaled_dot_product`, and not `{a.attention_score}`")
    if a.d_k != a.d_v:
        raise unsupported(f"T5Gemma requires d_k = d_v, but d_k is {a.d_k} and d_v is {a.d_v}")
    if a.tied_embeddings not in ("target", "none"):
        raise unsupported("T5Gemma has two embeddings (`tied_embeddings: target` or `none`)")
    if not a.scale_embeddings or a.scale_logits or a.projection_bias:
        raise unsupported("T5Gemma has `scale_embeddings`, but neither `scale_logits` nor `projection_bias`")


def _require_vocabulary(bundle: Bundle) -> None:
    """Raise ZooError unless both sides have the tokens of one byte-pair encoding that keeps spaces as they are."""
    vocabulary = bundle.vocabulary
    if not isinstance(vocabulary.target, Tokenizer) or not vocabulary.same_on_both_sides:
        raise unsupported("T5Gemma has the same tokens on both sides")
    if bundle.spec.vocabulary.kind != "bpe":
        raise unsupported("GemmaTokenizer is a byte-pair encoding (`vocabulary.kind: bpe`)")
    SentencePieceModel(Path("the vocabulary"), vocabulary.target.content).require_spaces(added=False)


def _config(spec: Spec, ids: ExportedIds) -> dict[str, Any]:
    """Return the content of `config.json`."""
    a = spec.architecture
    special = {"pad_token_id": ids.pad, "eos_token_id": END, "bos_token_id": int(ids.foreign[BOS])}
    return {
        "architectures": ["T5GemmaForConditionalGeneration"],
        "model_type": "t5gemma",
        "is_encoder_decoder": True,
        **{side: {**_side_config(spec, side, len(ids.order)), **special} for side in SIDES},
        "vocab_size": len(ids.order),
        "dropout_rate": a.dropout,
        "attention_dropout": a.attention_dropout,
        "tie_word_embeddings": a.tied_embeddings == "target",
        **special,
        "decoder_start_token_id": ids.start,
        "dtype": "float32",
    }


def _side_config(spec: Spec, side: str, rows: int) -> dict[str, Any]:
    """Return the settings of the encoder or the decoder."""
    a = spec.architecture
    assert isinstance(a.positions, Rotary)
    attention, *_, feed_forward = getattr(a, side)
    h, depth = a.option(attention, "h"), getattr(a.depths, side)
    return {
        "model_type": "t5_gemma_module",
        "is_decoder": side == "decoder",
        "vocab_size": rows,
        "hidden_size": a.d_model,
        "intermediate_size": a.option(feed_forward, "d_ff"),
        "num_hidden_layers": depth,
        "num_attention_heads": h,
        "num_key_value_heads": attention.kv_heads or h,
        "head_dim": a.d_k,
        "query_pre_attn_scalar": a.d_k,
        "hidden_activation": _ACTIVATIONS[a.option(feed_forward, "activation")],
        "rms_norm_eps": a.norm.epsilon,
        "rope_parameters": {"rope_theta": a.positions.theta, "rope_type": "default"},
        "layer_types": ["full_attention"] * depth,
        "sliding_window": _NO_WINDOW,
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }

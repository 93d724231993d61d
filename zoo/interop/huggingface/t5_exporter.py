"""Export to transformers' T5ForConditionalGeneration and T5Tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from specs import BOS, EOS, PAD, UNK, FeedForward, Relative, Spec
from zoo.files.atomic import write_json
from zoo.interop.formats import Bundle, ImportFormat
from zoo.interop.huggingface.exporter import (
    WRITTEN_ACTIVATIONS,
    TransformersExport,
    require_layers,
    require_sentencepiece,
    search_differences,
    unsupported,
)
from zoo.interop.huggingface.folder import CONFIG, GENERATION_CONFIG, TOKENIZER_CONFIG
from zoo.interop.huggingface.layers import written_layer_tensors
from zoo.interop.huggingface.t5 import T5Import, layer_tensors
from zoo.interop.huggingface.t5_vocabulary import SENTENCEPIECE
from zoo.interop.huggingface.weight_files import FILES
from zoo.interop.numbering import NEVER
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.text.tokenizer import Tokenizer

END, _UNKNOWN = 1, 2
"""IDs in every exported model. T5Tokenizer has no other ID for the unknown token."""


class T5Export(TransformersExport):
    """The export format `hf-t5`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "hf-t5"
    description = "a folder of transformers' T5ForConditionalGeneration"
    model_class = "T5ForConditionalGeneration"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format of the same name."""
        return T5Import()

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write weights, settings and the vocabulary. Return notes for the user.

        Raises:
            ZooError: T5 cannot express the model.
        """
        spec = bundle.spec
        require_t5(spec)
        require_sentencepiece(bundle.vocabulary)
        if spec.vocabulary.kind != "unigram" or not bundle.vocabulary.shared:
            raise unsupported(
                "T5Tokenizer is one unigram model for both sides (`vocabulary.kind`, `vocabulary.shared`)"
            )
        ids = ExportedIds.of(bundle.tensors["embedding"], bundle.tensors)
        tensors = dict(written_layer_tensors(bundle.tensors, layer_tensors(spec.architecture)))
        tensors["shared.weight"] = bundle.tensors["embedding"].float()[ids.order]
        if spec.architecture.tied_embeddings == "embeddings":
            tensors["lm_head.weight"] = bundle.tensors["output_projection"].float()[ids.order]
        safetensors.torch.save_file(tensors, folder / FILES[0], metadata={"format": "pt"})
        write_json(folder / CONFIG, _config(spec, ids))
        write_json(folder / GENERATION_CONFIG, generation_config(spec, ids))
        settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": []}
        write_vocabulary(bundle, folder / SENTENCEPIECE, ids, settings)
        bytes_differ = (
            "zoo reads and writes characters without a token as bytes, but transformers reads them as <unk> and writes "
            "each byte as a token such as <0xE4>"
        )
        return [*([bytes_differ] if spec.vocabulary.byte_fallback else []), *search_differences(spec)]

    def foreign_ids(self, bundle: Bundle) -> Tensor:
        """Return transformers' token IDs, in the order of zoo's IDs."""
        return ExportedIds.of(bundle.tensors["embedding"], bundle.tensors).foreign


def require_t5(spec: Spec) -> None:
    """Raise ZooError if T5ForConditionalGeneration cannot express the architecture of a spec."""
    a = spec.architecture
    require_layers(spec, "T5 has")
    if own := next(
        (name for name in a.own_options if name.rpartition(".")[2] not in ("gated", "bias", "activation")), None
    ):
        raise unsupported(f"it has the option `{own}`, which T5 does not have")
    feed_forwards = {(each.gated, a.option(each, "activation"), each.bias) for each in _feed_forwards(spec)}
    if len(feed_forwards) > 1 or any(bias for _, _, bias in feed_forwards):
        raise unsupported("T5 has the same feed-forward networks without biases on both sides")
    if any(gated and activation == "gelu" for gated, activation, _ in feed_forwards):
        raise unsupported("T5 has no gated `activation: gelu`, but `gelu_tanh`")
    if a.norm.kind != "rms_norm" or a.norm.placement != "pre" or a.norm.embeddings:
        raise unsupported("T5 has RMSNorm before each sub-layer, and no other norms")
    if not isinstance(a.positions, Relative):
        raise unsupported(f"T5 has relative positions, and not `{a.positions.kind}`")
    if a.attention_score != "dot_product":
        raise unsupported(f"T5 has `attention_score: dot_product`, and not `{a.attention_score}`")
    if a.d_k != a.d_v:
        raise unsupported(f"T5 requires d_k = d_v, but d_k is {a.d_k} and d_v is {a.d_v}")
    if a.tied_embeddings not in ("all", "embeddings"):
        raise unsupported("T5 has one embedding for source and target (`tied_embeddings: all` or `embeddings`)")
    for name in ("scale_embeddings", "projection_bias"):
        if getattr(a, name):
            raise unsupported(f"T5 has no `{name}`")


def _feed_forwards(spec: Spec) -> list[FeedForward]:
    sides = (*spec.architecture.encoder, *spec.architecture.decoder)
    return [sublayer for sublayer in sides if isinstance(sublayer, FeedForward)]


@dataclass(frozen=True)
class ExportedIds:
    """Token IDs of an exported model. transformers' IDs differ from zoo's IDs of the same tokens."""

    order: Tensor
    """zoo's IDs in the order of transformers' IDs."""
    foreign: Tensor
    """transformers' IDs in the order of zoo's IDs."""
    start: int
    """transformers' ID of the token that decoding starts with."""
    pad: int
    """transformers' ID of the padding token."""

    @classmethod
    def of(cls, embedding: Tensor, tensors: Mapping[str, Tensor]) -> ExportedIds:
        """Return the IDs for a model. PAD and BOS get no ID of their own if the model cannot generate them.

        Args:
            embedding: The embedding of the target.
            tensors: The tensors of the model.

        Raises:
            ZooError: Another token has a logit bias, or the model cannot generate BOS and neither UNK nor EOS has its
                embedding.
        """
        bias = tensors.get("output_bias", torch.zeros(len(embedding))).float()
        never = bias == NEVER
        if bool(((bias != 0) & ~never).any()) or bool(never[[UNK, EOS]].any()) or bool(never[EOS + 1 :].any()):
            raise unsupported("T5 and T5Gemma have no bias of the logits (`output_bias`)")
        kept = [id for id in (PAD, BOS) if not never[id]]
        first, *others = [*kept, *range(EOS + 1, len(embedding))]
        order = torch.tensor([first, EOS, UNK, *others])
        foreign = torch.zeros(len(embedding), dtype=torch.long)
        foreign[order] = torch.arange(len(order))
        if never[BOS]:
            same = (id for id in (UNK, EOS) if torch.equal(embedding[BOS], embedding[id]))
            if (token := next(same, None)) is None:
                raise unsupported(
                    "T5 and T5Gemma give the token that decoding starts with (BOS) a share of the probability"
                )
            foreign[BOS] = foreign[token]
        pad = 0 if kept else END
        return cls(order, foreign, int(foreign[BOS]), pad)


def write_vocabulary(bundle: Bundle, file: Path, ids: ExportedIds, settings: Mapping[str, Any]) -> None:
    """Write the SentencePiece model and the settings of the tokenizer, which list the added tokens.

    Args:
        bundle: The published model. Both sides have the same tokens.
        file: The SentencePiece model to write.
        ids: The token IDs in zoo and transformers.
        settings: Further settings of the tokenizer.
    """
    tokenizer = bundle.vocabulary.target
    assert isinstance(tokenizer, Tokenizer)
    model = SentencePieceModel(file, tokenizer.content)
    pad_id = int(ids.order[ids.pad])
    languages = bundle.spec.languages
    of_languages = map(languages.token_of, languages.codes) if languages else ()
    tags = {name: id for name in of_languages if (id := tokenizer.id_of(name)) is not None}
    found = tokenizer.added.ids if tokenizer.added else {}
    added = {name: pad_id if id is None else id for name, id in found.items() if name not in tags}
    # Other tokens of languages are encoded as text, with a space before them.
    added |= {name: id for name, id in tags.items() if tokenizer.model.is_control(id)}
    names = {pad_id: "<pad>", UNK: "<unk>", EOS: "</s>"} | {id: name for name, id in added.items()}
    order = ids.order.tolist()
    while model.entries[order[-1]].name == f"<{len(order) - 1}>":  # a row of the embedding without a token
        order.pop()
    content = model.reordered(order, names, unknown=_UNKNOWN, end=END, pad=ids.pad)
    file.write_bytes(content)
    decoder = {}
    for name, token in added.items():
        special = model.entries[token].type in (TokenType.CONTROL, TokenType.UNKNOWN)
        flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        decoder[str(int(ids.foreign[token]))] = {"content": name, "special": special, **flags}
    tokens = {"pad_token": names[pad_id], "unk_token": names[UNK], "eos_token": names[EOS]}
    if pad_id != BOS and BOS in order:  # otherwise, each text that transformers generates would begin with `<s>`
        tokens["bos_token"] = names.get(BOS, model.entries[BOS].name)
    write_json(file.with_name(TOKENIZER_CONFIG), {**settings, "added_tokens_decoder": decoder, **tokens})


def _config(spec: Spec, ids: ExportedIds) -> dict[str, Any]:
    """Return the content of `config.json`."""
    a = spec.architecture
    assert isinstance(a.positions, Relative)
    feed_forward = _feed_forwards(spec)[0]
    activation = WRITTEN_ACTIVATIONS[a.option(feed_forward, "activation")]
    projection = f"gated-{activation}" if feed_forward.gated else activation
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": len(ids.order),
        "d_model": a.d_model,
        "d_kv": a.d_k,
        "d_ff": a.d_ff,
        "num_layers": a.depths.encoder,
        "num_decoder_layers": a.depths.decoder,
        "num_heads": a.h,
        "relative_attention_num_buckets": a.positions.buckets,
        "relative_attention_max_distance": a.positions.max_distance,
        "dropout_rate": a.dropout,
        "layer_norm_epsilon": a.norm.epsilon,
        "feed_forward_proj": "gated-gelu" if projection == "gated-gelu_new" else projection,
        "tie_word_embeddings": a.tied_embeddings == "all",
        "scale_decoder_outputs": a.scale_logits,
        "pad_token_id": ids.pad,
        "eos_token_id": END,
        "decoder_start_token_id": ids.start,
        "use_cache": True,
        "dtype": "float32",
    }


def generation_config(spec: Spec, ids: ExportedIds) -> dict[str, Any]:
    """Return the content of `generation_config.json`. `max_length` there counts BOS."""
    decoding = spec.decoding
    own = set(ids.order.tolist())
    suppressed = {int(ids.foreign[id]) for id in (PAD, BOS, *decoding.suppressed_tokens) if id in own}
    return {
        "num_beams": decoding.beam,
        "length_penalty": decoding.alpha,
        "early_stopping": decoding.stopping_rule == "full",
        "max_length": int(decoding.length_factor * decoding.max_source_length) + decoding.extra_length + 1,
        "bad_words_ids": [[id] for id in sorted(suppressed)],
        "pad_token_id": ids.pad,
        "eos_token_id": END,
        "decoder_start_token_id": ids.start,
    }

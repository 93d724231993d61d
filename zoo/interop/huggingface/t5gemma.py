"""Import of T5Gemma from transformers (Zhang et al. 2025), as far as zoo supports it.

The published models limit attention scores and logits by tanh ("soft-capping"), which zoo does not support.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from specs import BOS, Architecture, FeedForward, Spec, ZooError
from zoo.interop.formats import Bundle, Engine, ImportedModel, ImportRequest
from zoo.interop.huggingface.config import (
    ACTIVATIONS,
    TOKENIZER_CONFIG,
    WRITTEN,
    SpecialTokens,
    generation_settings,
    import_transformers,
    read_optional_json,
    special_tokens,
)
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.t5_vocabulary import (
    TokenizerTokens,
    convert_tokens,
    special_names,
    write_vocabulary,
    written_ids,
)
from zoo.interop.huggingface.weights import open_weights, take_tables
from zoo.interop.roundtrip import cannot_export
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.settings import Settings
from zoo.interop.tables import Setting, TensorRow, linear, read_settings, written_settings
from zoo.interop.tensors import SIDES, EmbeddingTables
from zoo.interop.vocabulary import ImportedVocabulary

SENTENCEPIECE = "tokenizer.model"
SPECIAL_NAMES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
_DEFAULT_WINDOW = 4_096
_THETA = 10_000.0
_MAX_SOURCE_LENGTH = 1_024  # of the spec `base`
_NO_WINDOW = 1 << 20  # positions; transformers demands a number even if no layer has a window
_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_tanh", **ACTIVATIONS}
_COMMON_SETTINGS = (
    Setting("hidden_size", "d_model", 2304),
    Setting("head_dim", "d_k", 256),
    Setting("rms_norm_eps", "norm.epsilon", 1e-6),
)
"""Settings of a side that must be the same on both sides."""
_OWN_SETTINGS = (
    Setting("num_hidden_layers", "depth", 26),
    Setting("num_attention_heads", "h", 8),
    Setting("num_key_value_heads", "kv_heads", 4),
    Setting("intermediate_size", "d_ff", 9216),
    Setting("hidden_activation", "activation", "gelu_pytorch_tanh", _ACTIVATIONS),
)
"""Settings of a side that may differ from those of the other side."""
_TABLES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.out_proj.weight",
}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "cross_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}


class T5Gemma(Family):
    """The format `hf-t5gemma`."""

    name = "hf-t5gemma"
    description = "a folder of transformers' T5Gemma: config.json, weights, tokenizer.model"
    model_types = ("t5gemma",)
    model_class = "T5GemmaForConditionalGeneration"

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        sides = [_side_settings(config, side) for side in SIDES]
        fields = _fields(config, sides)
        special = special_tokens(config, settings, end=1, pad=0, start=sides[1].integer("bos_token_id", 2))
        rows = sides[1].integer("vocab_size", 256_000, minimum=4)
        weights = open_weights(path)
        equal = ("target", "output") if fields["tied_embeddings"] == "target" else ()
        tables, scale = take_tables(weights, _TABLES, equal, rows, fields["d_model"]), fields["d_model"] ** 0.5
        vocabulary = _read_vocabulary(path, rows, special)
        search = generation_settings(settings, special.end, vocabulary.target, forces_end=False)
        _limit_to_window(search.decoding, sides)
        return self.imported(
            path,
            request,
            (config, settings, *sides),
            weights,
            fields,
            EmbeddingTables(**tables, output_bias=torch.zeros(rows), source_scale=scale, target_scale=scale),
            vocabulary,
            search,
        )

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in transformers, in float32."""
        transformers = import_transformers()
        tokenizer: Any = transformers.GemmaTokenizer.from_pretrained(str(path))
        network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(path), dtype=torch.float32)
        return TransformersEngine(tokenizer, network, model.spec.decoding.beam)

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        return {
            "architectures": [self.model_class],
            "model_type": "t5gemma",
            **WRITTEN,
            **{side: _written_side(a, side) for side in SIDES},
            "dropout_rate": a.dropout,
            "attention_dropout": a.attention_dropout,
            "tie_word_embeddings": a.tied_embeddings == "target",
        }

    def config(self, spec: Spec, ids: WrittenIds) -> dict[str, Any]:
        """Return the content of `config.json`, in which each side has the special tokens."""
        config = super().config(spec, ids)
        common = {"vocab_size": len(ids.order), **ids.settings, "bos_token_id": int(ids.foreign[BOS])}
        del common["decoder_start_token_id"]
        return {**config, **common, **{side: {**config[side], **common} for side in SIDES}}

    def architecture(self, config: Settings) -> dict[str, Any]:
        """Return the fields of `architecture`. Raise ZooError if a setting is not supported."""
        return _fields(config, [_side_settings(config, side) for side in SIDES])

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot express the tokens."""
        if not bundle.vocabulary.same_on_both_sides:
            raise cannot_export(self.name, "T5Gemma has the same tokens on both sides")
        if bundle.spec.vocabulary.kind != "bpe":
            raise cannot_export(self.name, "GemmaTokenizer is a byte-pair encoding (`vocabulary.kind: bpe`)")
        return written_ids(bundle, self.name)

    def layers(self, a: Architecture) -> Iterator[TensorRow]:
        """Yield all tensors except embeddings and output. The architecture is that of a T5Gemma."""
        return _layers(a)

    def written_tables(
        self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the embeddings and, unless it is tied, the output projection with their names in transformers."""
        yield _TABLES["source"], ids.select(tensors["source_embedding"])
        yield _TABLES["target"], ids.select(tensors["target_embedding"])
        if spec.architecture.tied_embeddings == "none":
            yield _TABLES["output"], ids.select(tensors["output_projection"])

    def write_vocabulary(self, bundle: Bundle, folder: Path, ids: WrittenIds) -> None:
        """Write the files of the tokenizer."""
        ends = bool(bundle.vocabulary.source_suffix)
        settings = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": False, "add_eos_token": ends}
        write_vocabulary(bundle, folder / SENTENCEPIECE, ids, settings)


def _side_settings(config: Settings, side: str) -> Settings:
    """Return the settings of the encoder or the decoder."""
    values = config.any(side)
    if not isinstance(values, dict):
        raise config.error(side, "is not a mapping of settings")
    return Settings(values, f"{config.where}, `{side}`")


def _fields(config: Settings, sides: list[Settings]) -> dict[str, Any]:
    """Return the fields of `architecture`.

    Args:
        config: The content of `config.json`.
        sides: The settings of the encoder and those of the decoder.

    Raises:
        ZooError: A setting is not supported.
    """
    config.require_known("transformers", "transformers.whole", "transformers.t5gemma")
    encoder, decoder = sides
    common = [_common_fields(side, decodes=side is decoder) for side in sides]
    for name, value in common[0].items():
        if common[1][name] != value:
            problem = f"the encoder and the decoder have different `{name}`, but a spec has one value"
            raise ZooError(problem, where=config.where)
    encoder.require({"cross_attention_hidden_size": (None,)})
    decoder.require({"cross_attention_hidden_size": (None, common[0]["d_model"])})
    own = {name: read_settings(side, _OWN_SETTINGS) for name, side in zip(SIDES, sides, strict=True)}
    dropout = config.number("dropout_rate", 0.0)
    tied = config.boolean("tie_word_embeddings", True)
    return {
        **common[0],
        "encoder": _sublayers(own["encoder"], ("self_attention",)),
        "decoder": _sublayers(own["decoder"], ("self_attention", "cross_attention")),
        "N": {side: own[side]["depth"] for side in SIDES},
        "d_ff": own["encoder"]["d_ff"],
        "h": own["encoder"]["h"],
        "dropout": dropout,
        "attention_dropout": config.number("attention_dropout", 0.0),
        "activation_dropout": dropout,
        "attention_score": "scaled_dot_product",
        "scale_embeddings": True,
        "scale_logits": False,
        "tied_embeddings": "target" if tied else "none",
        "projection_bias": False,
        "output_bias": True,
    }


def _common_fields(side: Settings, *, decodes: bool) -> dict[str, Any]:
    """Return the fields that must be the same on both sides."""
    side.require_known("transformers", "transformers.t5gemma", "transformers.t5gemma.side")
    side.require({"is_decoder": (decodes,)})
    for key, default in (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)):
        if key not in side.values or side.any(key) is not None:
            shown = side.any(key, default)
            problem = f"`{key}: {shown}` limits numbers by tanh, which zoo does not support"
            raise ZooError(problem, where=side.where, hint="choose a model without soft-capping")
    fields = read_settings(side, _COMMON_SETTINGS)
    d_k = fields["d_k"]
    if side.number("query_pre_attn_scalar", 256) != d_k:
        raise side.error("query_pre_attn_scalar", f"differs from `head_dim: {d_k}`, by which a spec scales scores")
    return {
        **fields,
        "d_v": d_k,
        "positions": {"kind": "rotary", "theta": _theta(side)},
        "norm": {"kind": "rms_norm", "placement": "both", **fields["norm"]},
    }


def _theta(side: Settings) -> float:
    """Return the base of the rotary angles. Older files store it as `rope_theta`."""
    parameters = side.any("rope_parameters") or {"rope_theta": side.number("rope_theta", _THETA)}
    if not isinstance(parameters, dict) or parameters.keys() - {"rope_theta", "rope_type"}:
        raise side.error("rope_parameters", "are positions that zoo does not support")
    if parameters.get("rope_type", "default") != "default":
        raise side.error("rope_parameters", "are positions that zoo does not support")
    return float(parameters.get("rope_theta", _THETA))


def _sublayers(own: Mapping[str, Any], attentions: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the sub-layers of a layer, given the values of `_OWN_SETTINGS`."""
    grouped = {} if own["kv_heads"] == own["h"] else {"kv_heads": own["kv_heads"]}
    feed_forward = {"gated": True, "bias": False, "activation": own["activation"], "d_ff": own["d_ff"]}
    return [
        *({"kind": kind, "h": own["h"], **grouped} for kind in attentions),
        {"kind": "feed_forward", **feed_forward},
    ]


def _limit_to_window(decoding: dict[str, Any], sides: list[Settings]) -> None:
    """Limit the lengths so that every position of a sentence is within the window of attention."""
    source, target = (
        _NO_WINDOW if window is None or (kinds is not None and "sliding_attention" not in kinds) else int(window)
        for window, kinds in ((side.any("sliding_window", _DEFAULT_WINDOW), side.any("layer_types")) for side in sides)
    )
    decoding["max_source_length"] = min(_MAX_SOURCE_LENGTH, source - 1)
    decoding["extra_length"] = min(decoding["extra_length"], target)


def _read_vocabulary(folder: Path, rows: int, special: SpecialTokens) -> ImportedVocabulary:
    """Read the SentencePiece model. Raise ZooError if the tokenizer has a property that zoo does not support."""
    config = {**SPECIAL_NAMES, **read_optional_json(folder / TOKENIZER_CONFIG)}
    if config.get("add_bos_token"):
        problem = (
            f"the tokenizer of `{folder}` puts `{SPECIAL_NAMES['bos_token']}` before each source (`add_bos_token`)"
        )
        raise ZooError(problem, hint="choose a model without it")
    tokens = TokenizerTokens.of(SentencePieceModel(folder / SENTENCEPIECE))
    tokens.model.require_spaces(added=False)
    control = tokens.model.names(TokenType.CONTROL)
    for name in (*control, *tokens.model.names(TokenType.USER_DEFINED)):
        tokens.add(name, special=name in control)
    for name in special_names(config):
        tokens.add(name)
    return convert_tokens(tokens, rows, special, folder, source_has_end=bool(config.get("add_eos_token", False)))


def _written_side(a: Architecture, side: str) -> dict[str, Any]:
    """Return the settings of the encoder or the decoder of an exported model."""
    attention, *_, feed_forward = getattr(a, side)
    own = SimpleNamespace(
        depth=getattr(a.depths, side),
        h=a.option(attention, "h"),
        kv_heads=attention.kv_heads or a.option(attention, "h"),
        d_ff=a.option(feed_forward, "d_ff"),
        activation=a.option(feed_forward, "activation"),
    )
    return {
        "model_type": "t5_gemma_module",
        "is_decoder": side == "decoder",
        **written_settings(a, _COMMON_SETTINGS),
        **written_settings(own, _OWN_SETTINGS),
        "query_pre_attn_scalar": a.d_k,
        "rope_parameters": {"rope_theta": getattr(a.positions, "theta", _THETA), "rope_type": "default"},
        "layer_types": ["full_attention"] * own.depth,
        "sliding_window": _NO_WINDOW,
        "attention_bias": False,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }


def _layers(a: Architecture) -> Iterator[TensorRow]:
    """Yield the tensors of all layers. The architecture is that of a T5Gemma."""
    for side in SIDES:
        for number in range(getattr(a.depths, side)):
            for sublayer in getattr(a, side):
                foreign, ours = f"model.{side}.layers.{number}", f"{side}.{number}.{sublayer.kind}"
                part = _ATTENTIONS.get(sublayer.kind, "feedforward")
                yield _gain(a, f"{foreign}.pre_{part}_layernorm", f"{ours}.norm_gain")
                if isinstance(sublayer, FeedForward):
                    d_ff = a.option(sublayer, "d_ff")
                    for name, matrix in (("gate_proj", "gate"), ("up_proj", "w1")):
                        yield from linear(f"{foreign}.mlp.{name}", f"{ours}.{matrix}", (d_ff, a.d_model))
                    yield from linear(f"{foreign}.mlp.down_proj", f"{ours}.w2", (a.d_model, d_ff))
                else:
                    h = a.option(sublayer, "h")
                    widths = {"query": h * a.d_k, "output": h * a.d_v}
                    for name, projection in _PROJECTIONS.items():
                        width = widths.get(name, (sublayer.kv_heads or h) * a.d_k)
                        shape = (a.d_model, width) if name == "output" else (width, a.d_model)
                        yield from linear(f"{foreign}.{part}.{projection}", f"{ours}.{name}", shape)
                yield _gain(a, f"{foreign}.post_{part}_layernorm", f"{ours}.post_norm_gain")
        yield _gain(a, f"model.{side}.norm", f"{side}.norm_gain")


def _gain(a: Architecture, foreign: str, ours: str) -> TensorRow:
    return TensorRow(f"{foreign}.weight", ours, (a.d_model,), offset=1.0)

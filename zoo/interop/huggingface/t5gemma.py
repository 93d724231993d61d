"""Import of T5Gemma from transformers (Zhang et al. 2025), as far as zoo supports it.

The published models limit attention scores and logits by tanh ("soft-capping"), which zoo does not support.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from specs import Architecture, FeedForward, ZooError
from zoo.interop.formats import Engine, ImportedModel, ImportRequest, imported_spec
from zoo.interop.huggingface.config import NO_EFFECT, read_activation
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.folder import TOKENIZER_CONFIG, ModelTypeImport, import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import LayerTensor, read_layer_tensors
from zoo.interop.huggingface.t5 import ALLOWED, special_tokens
from zoo.interop.huggingface.t5_vocabulary import TokenizerTokens, convert_tokens, read_optional_json, special_names
from zoo.interop.huggingface.vocabulary import SpecialTokens
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.sentencepiece_model import TokenType
from zoo.interop.settings import Settings
from zoo.interop.tensors import SIDES
from zoo.interop.vocabulary import ImportedVocabulary

SENTENCEPIECE = "tokenizer.model"
SPECIAL_NAMES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
_NO_EFFECT = (*NO_EFFECT, "initializer_range", "classifier_dropout_rate", "max_position_embeddings", "is_decoder")
_SIDE_NO_EFFECT = (
    *_NO_EFFECT,
    "dropout_rate",
    "attention_dropout",
    "tie_word_embeddings",
    "pad_token_id",
    "eos_token_id",
)
_DEFAULT_WINDOW = 4_096
_MAX_SOURCE_LENGTH = 1_024  # of the spec `base`
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "cross_attn"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "o_proj"}


class T5GemmaImport(ModelTypeImport):
    """The import format `hf-t5gemma`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "hf-t5gemma"
    description = "a folder of transformers' T5Gemma: config.json, weights, tokenizer.model"
    model_types = ("t5gemma",)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        sides = [_side_settings(config, side) for side in SIDES]
        architecture = architecture_fields(config, sides)
        special = special_tokens(config, settings, start=sides[1].integer("bos_token_id", 2))
        rows = sides[1].integer("vocab_size", 256_000, minimum=4)
        weights = open_weights(path)
        vocabulary = _read_vocabulary(path, rows, special)
        search = generation_settings(settings, special.end, vocabulary.target, forces_end=False)
        decoding = _within_window(search.decoding, sides)
        for file in {id(file): file for file in (config, settings, *sides)}.values():
            file.require_all_known()
        spec = imported_spec(
            request,
            f"Imported from the Hugging Face T5Gemma model {request.origin_name or path.absolute().name}.",
            architecture=architecture,
            vocabulary=vocabulary.fields,
            decoding=decoding,
        )
        tensors = read_layer_tensors(weights, layer_tensors(spec.architecture))
        table = rows, spec.architecture.d_model
        for side, name in zip(SIDES, ("source_embedding", "target_embedding"), strict=True):
            tensors[name] = vocabulary.target.rows(weights.take(f"model.{side}.embed_tokens.weight", *table))
        if "lm_head.out_proj.weight" in weights.left:
            tensors["output_projection"] = vocabulary.target.rows(weights.take("lm_head.out_proj.weight", *table))
            if spec.architecture.tied_embeddings == "target":
                if not torch.equal(tensors["output_projection"], tensors["target_embedding"]):
                    raise config.error("tie_word_embeddings", "contradicts the weights, where both are different")
                del tensors["output_projection"]
        tensors["output_bias"] = vocabulary.target.bias(None)
        weights.require_all_taken()
        origin = {"format": self.name, "source": path.name, "engine": "transformers"}
        return ImportedModel(spec, vocabulary.vocabulary, tensors, origin, (*search.notes, *vocabulary.notes))

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in transformers, in float32."""
        transformers = import_transformers()
        tokenizer: Any = transformers.GemmaTokenizer.from_pretrained(str(path))
        network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(path), dtype=torch.float32)
        return TransformersEngine(tokenizer, network, model.spec.decoding.beam)


def _side_settings(config: Settings, side: str) -> Settings:
    """Return the settings of the encoder or the decoder."""
    values = config.any(side)
    if not isinstance(values, dict):
        raise config.error(side, "is not a mapping of settings")
    return Settings(values, f"{config.where}, `{side}`")


def architecture_fields(config: Settings, sides: list[Settings]) -> dict[str, Any]:
    """Return the fields of `architecture`.

    Args:
        config: The content of `config.json`.
        sides: The settings of the encoder and those of the decoder.

    Raises:
        ZooError: A setting is not supported.
    """
    config.require({**ALLOWED, "is_decoder": (False,)})
    config.ignore(*_NO_EFFECT, "vocab_size", "bos_token_id")
    encoder, decoder = sides
    common = [_common_fields(side, decodes=side is decoder) for side in sides]
    for name, value in common[0].items():
        if common[1][name] != value:
            problem = f"the encoder and the decoder have different `{name}`, but a spec has one value"
            raise ZooError(problem, where=config.where)
    encoder.require({"cross_attention_hidden_size": (None,)})
    decoder.require({"cross_attention_hidden_size": (None, common[0]["d_model"])})
    dropout = config.number("dropout_rate", 0.0)
    tied = config.boolean("tie_word_embeddings", True)
    return {
        **common[0],
        "encoder": _sublayers(encoder, ("self_attention",)),
        "decoder": _sublayers(decoder, ("self_attention", "cross_attention")),
        "N": {name: side.integer("num_hidden_layers", 26, minimum=1) for name, side in zip(SIDES, sides, strict=True)},
        "d_ff": encoder.integer("intermediate_size", 9216, minimum=1),
        "h": encoder.integer("num_attention_heads", 8, minimum=1),
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
    elsewhere = ("is_encoder_decoder", "is_decoder", "cross_attention_hidden_size")
    allowed = {key: values for key, values in ALLOWED.items() if key not in elsewhere}
    side.require({**allowed, "model_type": ("t5_gemma_module",), "attention_bias": (False,), "is_decoder": (decodes,)})
    side.ignore(*_SIDE_NO_EFFECT, "vocab_size", "bos_token_id", "layer_types")
    for key, default in (("attn_logit_softcapping", 50.0), ("final_logit_softcapping", 30.0)):
        if key not in side.values or side.any(key) is not None:
            shown = side.any(key, default)
            problem = f"`{key}: {shown}` limits numbers by tanh, which zoo does not support"
            raise ZooError(problem, where=side.where, hint="choose a model without soft-capping")
    d_k = side.integer("head_dim", 256, minimum=1)
    if side.number("query_pre_attn_scalar", 256) != d_k:
        raise side.error("query_pre_attn_scalar", f"differs from `head_dim: {d_k}`, by which a spec scales scores")
    return {
        "d_model": side.integer("hidden_size", 2304, minimum=1),
        "d_k": d_k,
        "d_v": d_k,
        "positions": {"kind": "rotary", "theta": _theta(side)},
        "norm": {"kind": "rms_norm", "placement": "both", "epsilon": side.number("rms_norm_eps", 1e-6)},
    }


def _theta(side: Settings) -> float:
    """Return the base of the rotary angles, which older files have as `rope_theta`."""
    parameters = side.any("rope_parameters") or {"rope_theta": side.number("rope_theta", 10_000.0)}
    side.ignore("rope_theta")
    side.require({"rope_scaling": (None,)})
    if not isinstance(parameters, dict) or parameters.keys() - {"rope_theta", "rope_type"}:
        raise side.error("rope_parameters", "are positions that zoo does not support")
    if parameters.get("rope_type", "default") != "default":
        raise side.error("rope_parameters", "are positions that zoo does not support")
    return float(parameters.get("rope_theta", 10_000.0))


def _sublayers(side: Settings, attentions: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the sub-layers of a layer, with their own sizes."""
    activation = read_activation(side, "hidden_activation", "gelu_pytorch_tanh")
    heads, kv_heads = (
        side.integer("num_attention_heads", 8, minimum=1),
        side.integer("num_key_value_heads", 4, minimum=1),
    )
    grouped = {} if kv_heads == heads else {"kv_heads": kv_heads}
    d_ff = side.integer("intermediate_size", 9216, minimum=1)
    feed_forward = {"gated": True, "bias": False, "activation": activation, "d_ff": d_ff}
    return [
        *({"kind": kind, "h": heads, **grouped} for kind in attentions),
        {"kind": "feed_forward", **feed_forward},
    ]


def _within_window(decoding: dict[str, Any], sides: list[Settings]) -> dict[str, Any]:
    """Limit the lengths so that every position of a sentence is within the window of attention."""
    windows = [side.any("sliding_window", _DEFAULT_WINDOW) for side in sides]
    types = [side.any("layer_types") for side in sides]
    source, target = (
        None if window is None or (kinds is not None and "sliding_attention" not in kinds) else int(window)
        for window, kinds in zip(windows, types, strict=True)
    )
    limited = dict(decoding)
    if source is not None:
        limited["max_source_length"] = min(_MAX_SOURCE_LENGTH, source - 1)
    if target is not None:
        limited["extra_length"] = min(decoding["extra_length"], target)
    return limited


def _read_vocabulary(folder: Path, rows: int, special: SpecialTokens) -> ImportedVocabulary:
    """Read the SentencePiece model. Raise ZooError if the tokenizer has a property that zoo does not support."""
    config = {**SPECIAL_NAMES, **read_optional_json(folder / TOKENIZER_CONFIG)}
    if config.get("add_bos_token"):
        problem = (
            f"the tokenizer of `{folder}` puts `{SPECIAL_NAMES['bos_token']}` before each source (`add_bos_token`)"
        )
        raise ZooError(problem, hint="choose a model without it")
    tokens = TokenizerTokens.of(folder / SENTENCEPIECE)
    tokens.model.require_spaces(added=False)
    control = tokens.model.names(TokenType.CONTROL)
    for name in (*control, *tokens.model.names(TokenType.USER_DEFINED)):
        tokens.add(name, special=name in control)
    for name in special_names(config):
        tokens.add(name)
    return convert_tokens(tokens, rows, special, folder, source_has_end=bool(config.get("add_eos_token", False)))


def layer_tensors(a: Architecture) -> Iterator[LayerTensor]:
    """Yield the tensors of all layers. The architecture is that of a T5Gemma."""
    for side, depth in (("encoder", a.depths.encoder), ("decoder", a.depths.decoder)):
        for number in range(depth):
            for sublayer in getattr(a, side):
                foreign, ours = f"model.{side}.layers.{number}", f"{side}.{number}.{sublayer.kind}"
                part = _ATTENTIONS.get(sublayer.kind, "feedforward")
                yield _gain(a, f"{foreign}.pre_{part}_layernorm", f"{ours}.norm_gain")
                if isinstance(sublayer, FeedForward):
                    d_ff = a.option(sublayer, "d_ff")
                    for name, matrix in (("gate_proj", "gate"), ("up_proj", "w1")):
                        yield LayerTensor(f"{foreign}.mlp.{name}", f"{ours}.{matrix}", (d_ff, a.d_model))
                    yield LayerTensor(f"{foreign}.mlp.down_proj", f"{ours}.w2", (a.d_model, d_ff))
                else:
                    h = a.option(sublayer, "h")
                    widths = {"query": h * a.d_k, "output": h * a.d_v}
                    for name, projection in _PROJECTIONS.items():
                        width = widths.get(name, (sublayer.kv_heads or h) * a.d_k)
                        shape = (a.d_model, width) if name == "output" else (width, a.d_model)
                        yield LayerTensor(f"{foreign}.{part}.{projection}", f"{ours}.{name}", shape)
                yield _gain(a, f"{foreign}.post_{part}_layernorm", f"{ours}.post_norm_gain")
        yield _gain(a, f"model.{side}.norm", f"{side}.norm_gain")


def _gain(a: Architecture, foreign: str, ours: str) -> LayerTensor:
    return LayerTensor(foreign, ours, (a.d_model,), is_linear=False, offset=1.0)

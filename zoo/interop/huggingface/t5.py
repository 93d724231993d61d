"""Import of T5, mT5 and MADLAD-400 from transformers (Raffel et al. 2020; Xue et al. 2021; Kudugunta et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from specs import Architecture, Relative
from zoo.interop.formats import Engine, ImportedModel, ImportRequest, imported_spec
from zoo.interop.huggingface.config import ACTIVATIONS, NO_EFFECT
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.folder import ModelTypeImport, import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import LayerTensor, read_layer_tensors, tied_tables
from zoo.interop.huggingface.t5_vocabulary import LANGUAGE_TOKEN, language_codes, read_t5_vocabulary
from zoo.interop.huggingface.vocabulary import SpecialTokens
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.numbering import NEVER
from zoo.interop.settings import Settings

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
_NO_EFFECT = (
    *NO_EFFECT,
    "initializer_factor",
    "n_positions",
    "max_position_embeddings",
    "is_local",
    "decoder_layerdrop",
)
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Tensor of old files that transformers ignores."""


class T5Import(ModelTypeImport):
    """The import format `hf-t5`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "hf-t5"
    description = "a folder of transformers' T5 or mT5: config.json, weights, spiece.model or tokenizer.json"
    model_types = ("t5", "mt5")

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        special = special_tokens(config, settings)
        rows = config.integer("vocab_size", 32128, minimum=4)
        architecture = architecture_fields(config)
        weights = open_weights(path)
        weights.left.pop(_UNUSED, None)
        embedding, output = tied_tables(weights, rows, architecture["d_model"])
        architecture["tied_embeddings"] = "all" if output is None else "embeddings"
        vocabulary = read_t5_vocabulary(path, rows, special)
        codes = language_codes(vocabulary.target.names)
        search = generation_settings(settings, special.end, vocabulary.target, forces_end=False)
        for file in (config, settings):
            file.require_all_known()
        spec = imported_spec(
            request,
            f"Imported from the Hugging Face T5 model {request.origin_name or path.absolute().name}"
            + (f" for {len(codes)} languages." if codes else "."),
            architecture=architecture,
            vocabulary=vocabulary.fields,
            decoding=search.decoding,
            **({"languages": {"codes": codes, "token": LANGUAGE_TOKEN}} if codes else {}),
        )
        tensors = read_layer_tensors(weights, layer_tensors(spec.architecture))
        tensors["embedding"] = vocabulary.target.rows(embedding)
        if output is not None:
            tensors["output_projection"] = vocabulary.target.rows(output)
        # Tokens that transformers does not have get no share of the probability.
        tensors["output_bias"] = vocabulary.target.bias(None)
        for row in search.excluded:
            tensors["output_bias"][vocabulary.target.id(row)] = NEVER
        weights.require_all_taken()
        origin = {"format": self.name, "source": path.name, "engine": "transformers"}
        notes = (*search.notes, *vocabulary.notes)
        return ImportedModel(spec, vocabulary.vocabulary, tensors, origin, notes)

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in transformers, in float32. It translates in the default direction of the spec."""
        transformers = import_transformers()
        tokenizer: Any = transformers.T5Tokenizer.from_pretrained(str(path))
        network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(path), dtype=torch.float32)
        languages, beam = model.spec.languages, model.spec.decoding.beam
        prefix = f"{languages.token_of(model.spec.default_direction[1])} " if languages else ""
        return TransformersEngine(tokenizer, network, beam, prefix=prefix)


def special_tokens(config: Settings, settings: Settings, start: int | None = None) -> SpecialTokens:
    """Return the special tokens.

    Args:
        config: The content of `config.json`.
        settings: The settings of the search. Their start token replaces that of `config`.
        start: The token that decoding starts with if neither has one. Default: the padding token.
    """
    end, pad = config.integer("eos_token_id", 1), config.integer("pad_token_id", 0)
    has_start = (file for file in (settings, config) if file.any("decoder_start_token_id") is not None)
    default = pad if start is None else start
    return SpecialTokens(end, next((file.integer("decoder_start_token_id") for file in has_start), default), pad)


def architecture_fields(config: Settings) -> dict[str, Any]:
    """Return the fields of `architecture` without `tied_embeddings`.

    Raises:
        ZooError: A setting is not supported.
    """
    config.require(ALLOWED)
    config.ignore(*_NO_EFFECT)
    is_mt5 = config.text("model_type") == "mt5"
    feed_forward = {"kind": "feed_forward", "bias": False, **_activation(config, "gated-gelu" if is_mt5 else "relu")}
    attentions = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}
    layers = config.integer("num_layers", 8 if is_mt5 else 6, minimum=1)
    d_kv, dropout = config.integer("d_kv", 64, minimum=1), config.number("dropout_rate", 0.1)
    # Only the first T5 scales logits. Newer files say so, and older ones scale them if the embeddings are tied.
    tied = config.any("tie_word_embeddings", True)
    return {
        **{side: [*({"kind": kind} for kind in kinds), feed_forward] for side, kinds in attentions.items()},
        "N": {
            "encoder": layers,
            "decoder": layers
            if config.any("num_decoder_layers") is None
            else config.integer("num_decoder_layers", minimum=1),
        },
        "d_model": config.integer("d_model", 512, minimum=1),
        "d_ff": config.integer("d_ff", 1024 if is_mt5 else 2048, minimum=1),
        "h": config.integer("num_heads", 6 if is_mt5 else 8, minimum=1),
        "d_k": d_kv,
        "d_v": d_kv,
        "dropout": dropout,
        "attention_dropout": dropout,
        "activation_dropout": dropout,
        "attention_score": "dot_product",
        "positions": {
            "kind": "relative",
            "buckets": config.integer("relative_attention_num_buckets", 32, minimum=1),
            "max_distance": config.integer("relative_attention_max_distance", 128, minimum=1),
        },
        "norm": {"kind": "rms_norm", "placement": "pre", "epsilon": config.number("layer_norm_epsilon", 1e-6)},
        "scale_embeddings": False,
        "scale_logits": config.boolean("scale_decoder_outputs", tied is not False) and not is_mt5,
        "projection_bias": False,
        "output_bias": True,
    }


def _activation(config: Settings, default: str) -> dict[str, Any]:
    """Return the fields of a feed-forward network that `feed_forward_proj` describes, such as `gated-gelu`."""
    text = config.text("feed_forward_proj", default)
    gate, _, name = text.rpartition("-")
    name = "gelu_new" if text == "gated-gelu" else name
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise config.error("feed_forward_proj", "is a feed-forward network that zoo does not support")
    config.require({"dense_act_fn": (name,), "is_gated_act": (gate == "gated",)})
    return {"activation": ACTIVATIONS[name], **({"gated": True} if gate else {})}


def layer_tensors(a: Architecture) -> Iterator[LayerTensor]:
    """Yield the tensors of all layers. The architecture is that of a T5."""
    assert isinstance(a.positions, Relative)
    for side, depth in (("encoder", a.depths.encoder), ("decoder", a.depths.decoder)):
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias"
        yield LayerTensor(table, f"{side}.relative_positions", (a.positions.buckets, a.h), is_linear=False)
        for number in range(depth):
            for index, sublayer in enumerate(getattr(a, side)):
                foreign, ours = f"{side}.block.{number}.layer.{index}", f"{side}.{number}.{sublayer.kind}"
                yield LayerTensor(f"{foreign}.layer_norm", f"{ours}.norm_gain", (a.d_model,), is_linear=False)
                if sublayer.kind == "feed_forward":
                    yield from _feed_forward(a, f"{foreign}.DenseReluDense", ours, gated=sublayer.gated)
                else:
                    part = "SelfAttention" if sublayer.kind == "self_attention" else "EncDecAttention"
                    for name, letter in _PROJECTIONS.items():
                        shape = (a.d_model, a.h * a.d_v) if name == "output" else (a.h * a.d_k, a.d_model)
                        yield LayerTensor(f"{foreign}.{part}.{letter}", f"{ours}.{name}", shape)
        yield LayerTensor(f"{side}.final_layer_norm", f"{side}.norm_gain", (a.d_model,), is_linear=False)


def _feed_forward(a: Architecture, foreign: str, ours: str, *, gated: bool) -> Iterator[LayerTensor]:
    names = {"wi_0": "gate", "wi_1": "w1"} if gated else {"wi": "w1"}
    for name, matrix in names.items():
        yield LayerTensor(f"{foreign}.{name}", f"{ours}.{matrix}", (a.d_ff, a.d_model))
    yield LayerTensor(f"{foreign}.wo", f"{ours}.w2", (a.d_model, a.d_ff))

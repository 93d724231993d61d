"""Import of T5, mT5 and MADLAD-400 from transformers (Raffel et al. 2020; Xue et al. 2021; Kudugunta et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specs import Architecture, FeedForward, Relative, Spec
from zoo.interop.formats import Bundle, Engine, ImportedModel, ImportRequest, imported_spec
from zoo.interop.huggingface.config import ACTIVATIONS, ALLOWED, NO_EFFECT, WRITTEN
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.folder import import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import tied_tables
from zoo.interop.huggingface.t5_tokens import write_vocabulary, written_ids
from zoo.interop.huggingface.t5_vocabulary import LANGUAGE_TOKEN, SENTENCEPIECE, language_codes, read_t5_vocabulary
from zoo.interop.huggingface.vocabulary import SpecialTokens
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.numbering import NEVER
from zoo.interop.settings import Settings
from zoo.interop.tables import (
    Setting,
    TensorRow,
    linear,
    read_settings,
    read_tensors,
    written_settings,
    written_tensors,
)
from zoo.interop.tensors import SIDES

_NO_EFFECT = (
    *NO_EFFECT,
    "initializer_factor",
    "n_positions",
    "max_position_embeddings",
    "is_local",
    "decoder_layerdrop",
)
_GATED_GELU = "gated-gelu"
"""Value of `feed_forward_proj` for gated networks with the approximation of GELU by tanh."""
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Tensor of old files that transformers ignores."""


class T5(Family):
    """The format `hf-t5`."""

    name = "hf-t5"
    description = "a folder of transformers' T5 or mT5: config.json, weights, spiece.model or tokenizer.json"
    model_types = ("t5", "mt5")
    model_class = "T5ForConditionalGeneration"

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
        tensors = read_tensors(weights, _layers(spec.architecture))
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

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        return {
            "architectures": [self.model_class],
            "model_type": "t5",
            **WRITTEN,
            **written_settings(a, _settings(is_mt5=False)),
            "num_decoder_layers": a.depths.decoder,
            "feed_forward_proj": _feed_forward_name(a),
            "tie_word_embeddings": a.tied_embeddings == "all",
            "scale_decoder_outputs": a.scale_logits,
        }

    def architecture_of(self, config: Settings, spec: Spec) -> dict[str, Any]:
        """Return the fields of `architecture` that an import reads from the settings of an exported model."""
        tied = config.boolean("tie_word_embeddings", True)
        return {**architecture_fields(config), "tied_embeddings": "all" if tied else "embeddings"}

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot express the tokens."""
        return written_ids(bundle, self.name)

    def tensors_of(
        self, a: Architecture, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield each tensor of the exported model with its name in transformers."""
        yield from written_tensors(tensors, _layers(a))
        yield "shared.weight", ids.select(tensors["embedding"])
        if a.tied_embeddings == "embeddings":
            yield "lm_head.weight", ids.select(tensors["output_projection"])

    def write_vocabulary(self, bundle: Bundle, folder: Path, ids: WrittenIds) -> None:
        """Write the files of the tokenizer."""
        settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "additional_special_tokens": []}
        write_vocabulary(bundle, folder / SENTENCEPIECE, ids, settings)

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about an exported model."""
        if spec.vocabulary.byte_fallback:
            yield (
                "zoo reads and writes characters without a token as bytes, but transformers reads them as <unk> and "
                "writes each byte as a token such as <0xE4>"
            )
        yield from super().notes(spec)


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
    fields = read_settings(config, _settings(is_mt5))
    feed_forward = {"kind": "feed_forward", "bias": False, **_activation(config, "gated-gelu" if is_mt5 else "relu")}
    attentions = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}
    if config.any("num_decoder_layers") is None:
        decoder_layers = fields["N"]["encoder"]
    else:
        decoder_layers = config.integer("num_decoder_layers", minimum=1)
    # Only the first T5 scales logits. Newer files say so, and older ones scale them if the embeddings are tied.
    tied = config.any("tie_word_embeddings", True)
    return {
        **fields,
        **{side: [*({"kind": kind} for kind in kinds), feed_forward] for side, kinds in attentions.items()},
        "N": {**fields["N"], "decoder": decoder_layers},
        "d_v": fields["d_k"],
        "attention_dropout": fields["dropout"],
        "activation_dropout": fields["dropout"],
        "attention_score": "dot_product",
        "positions": {"kind": "relative", **fields["positions"]},
        "norm": {"kind": "rms_norm", "placement": "pre", **fields["norm"]},
        "scale_embeddings": False,
        "scale_logits": config.boolean("scale_decoder_outputs", tied is not False) and not is_mt5,
        "projection_bias": False,
        "output_bias": True,
    }


def _settings(is_mt5: bool) -> tuple[Setting, ...]:
    return (
        Setting("num_layers", "N.encoder", 8 if is_mt5 else 6),
        Setting("d_model", "d_model", 512),
        Setting("d_ff", "d_ff", 1024 if is_mt5 else 2048),
        Setting("num_heads", "h", 6 if is_mt5 else 8),
        Setting("d_kv", "d_k", 64),
        Setting("dropout_rate", "dropout", 0.1),
        Setting("relative_attention_num_buckets", "positions.buckets", 32),
        Setting("relative_attention_max_distance", "positions.max_distance", 128),
        Setting("layer_norm_epsilon", "norm.epsilon", 1e-6),
    )


def _activation(config: Settings, default: str) -> dict[str, Any]:
    """Return the fields of a feed-forward network that `feed_forward_proj` describes, such as `gated-gelu`."""
    text = config.text("feed_forward_proj", default)
    gate, _, name = text.rpartition("-")
    name = "gelu_new" if text == _GATED_GELU else name
    if gate not in ("", "gated") or name not in ACTIVATIONS:
        raise config.error("feed_forward_proj", "is a feed-forward network that zoo does not support")
    config.require({"dense_act_fn": (name,), "is_gated_act": (gate == "gated",)})
    return {"activation": ACTIVATIONS[name], **({"gated": True} if gate else {})}


def _feed_forward_name(a: Architecture) -> str:
    """Return `feed_forward_proj` for the feed-forward network of the encoder. This is the inverse of `_activation`."""
    network = next(each for each in a.encoder if isinstance(each, FeedForward))
    activation = a.option(network, "activation")
    name = next(name for name, ours in ACTIVATIONS.items() if ours == activation)
    if network.gated:
        return _GATED_GELU if name == "gelu_new" else f"gated-{name}"
    return name


def _layers(a: Architecture) -> Iterator[TensorRow]:
    """Yield the tensors of all layers. The architecture is that of a T5."""
    assert isinstance(a.positions, Relative)
    for side in SIDES:
        table = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield TensorRow(table, f"{side}.relative_positions", (a.positions.buckets, a.h))
        for number in range(getattr(a.depths, side)):
            for index, sublayer in enumerate(getattr(a, side)):
                foreign, ours = f"{side}.block.{number}.layer.{index}", f"{side}.{number}.{sublayer.kind}"
                yield TensorRow(f"{foreign}.layer_norm.weight", f"{ours}.norm_gain", (a.d_model,))
                if isinstance(sublayer, FeedForward):
                    inner = {"wi_0": "gate", "wi_1": "w1"} if sublayer.gated else {"wi": "w1"}
                    for name, matrix in inner.items():
                        yield from linear(f"{foreign}.DenseReluDense.{name}", f"{ours}.{matrix}", (a.d_ff, a.d_model))
                    yield from linear(f"{foreign}.DenseReluDense.wo", f"{ours}.w2", (a.d_model, a.d_ff))
                else:
                    part = "SelfAttention" if sublayer.kind == "self_attention" else "EncDecAttention"
                    for name, letter in _PROJECTIONS.items():
                        shape = (a.d_model, a.h * a.d_v) if name == "output" else (a.h * a.d_k, a.d_model)
                        yield from linear(f"{foreign}.{part}.{letter}", f"{ours}.{name}", shape)
        yield TensorRow(f"{side}.final_layer_norm.weight", f"{side}.norm_gain", (a.d_model,))

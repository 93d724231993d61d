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

from specs import BOS, Architecture, Spec, ZooError
from zoo.interop.formats import Bundle, ImportedModel, ImportRequest
from zoo.interop.huggingface.config import (
    ACTIVATIONS,
    WRITTEN,
    SpecialTokens,
    generation_settings,
    special_tokens,
)
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.t5_vocabulary import (
    TokenizerTokens,
    convert_tokens,
    special_names,
    write_vocabulary,
    written_ids,
)
from zoo.interop.huggingface.tokenizer_files import tokenizer_settings
from zoo.interop.huggingface.weights import open_weights, take_tables
from zoo.interop.roundtrip import cannot_export
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.settings import Settings
from zoo.interop.tables import Layout, Setting, attention_names, read_settings, written_settings
from zoo.interop.tensors import SIDES
from zoo.interop.vocabulary import ImportedVocabulary

SENTENCEPIECE = "tokenizer.model"
SPECIAL_NAMES = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
_DEFAULT_WINDOW = 4_096
_MAX_SOURCE_LENGTH = 1_024  # of the spec `base`
_NO_WINDOW = 1 << 20  # positions; transformers demands a number even if no layer has a window
_ACTIVATIONS = {"gelu_pytorch_tanh": "gelu_tanh", **ACTIVATIONS}
_SETTINGS = (
    Setting("{side}.num_hidden_layers", "N.{side}", 26),
    Setting("{side}.hidden_size", "d_model", 2304),
    Setting("{side}.head_dim", "d_k", 256),
    Setting("{side}.rms_norm_eps", "norm.epsilon", 1e-6),
    Setting("{side}.rope_parameters.rope_theta", "positions.theta", 10_000.0),
    Setting("dropout_rate", "dropout", 0.0),
    Setting("attention_dropout", "attention_dropout", 0.0),
)
_OWN_SETTINGS = (
    Setting("{side}.num_attention_heads", "{side}.h", 8),
    Setting("{side}.num_key_value_heads", "{side}.kv_heads", 4),
    Setting("{side}.intermediate_size", "{side}.d_ff", 9216),
    Setting("{side}.hidden_activation", "{side}.activation", "gelu_pytorch_tanh", _ACTIVATIONS),
)
"""Settings of the sub-layers, which may differ between the sides."""
_WRITTEN_SIDE = {
    "model_type": "t5_gemma_module",
    "rope_parameters.rope_type": "default",
    "sliding_window": _NO_WINDOW,
    "attention_bias": False,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}
"""Settings of both sides of an exported model."""
_TABLES = {
    "source": "model.encoder.embed_tokens.weight",
    "target": "model.decoder.embed_tokens.weight",
    "output": "lm_head.out_proj.weight",
}
_ATTENTIONS = {"self_attention": "self_attn", "cross_attention": "cross_attn"}


class T5Gemma(Family):
    """The format `hf-t5gemma`."""

    name = "hf-t5gemma"
    description = "a folder of transformers' T5Gemma: config.json, weights, tokenizer.model"
    model_types = ("t5gemma",)
    model_class = "T5GemmaForConditionalGeneration"
    tokenizer = "GemmaTokenizer"

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        fields = self.architecture(config)
        special = special_tokens(config, settings, end=1, pad=0, start=config.integer("decoder.bos_token_id", 2))
        rows = config.integer("decoder.vocab_size", 256_000, minimum=4)
        weights = open_weights(path)
        equal = ("target", "output") if fields["tied_embeddings"] == "target" else ()
        d_model, bias = fields["d_model"], torch.zeros(1).expand(rows)
        tables = take_tables(weights, _TABLES, equal, rows, d_model, bias=bias, scale=d_model**0.5)
        vocabulary = _read_vocabulary(path, rows, special)
        search = generation_settings(settings, special.end, vocabulary.target, forces_end=False)
        source, target = (_window(config, side) for side in SIDES)
        search.decoding["max_source_length"] = min(_MAX_SOURCE_LENGTH, source - 1)
        search.decoding["extra_length"] = min(search.decoding["extra_length"], target)
        return self.imported(
            path,
            request,
            (config, settings),
            weights,
            fields,
            tables,
            vocabulary,
            search,
        )

    def flat(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of both sides with keys such as `encoder.head_dim`."""
        flat = {key: value for key, value in values.items() if key not in SIDES}
        for side in SIDES:
            own = dict(values[side])
            theta = own.pop("rope_theta", None)  # in older files
            positions = own.pop("rope_parameters", None) or ({} if theta is None else {"rope_theta": theta})
            own |= {f"rope_parameters.{key}": value for key, value in positions.items()}
            flat |= {f"{side}.{key}": value for key, value in own.items()}
        return flat

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        flat = {**written_settings(a, _SETTINGS), **written_settings(_own_options(a), _OWN_SETTINGS)}
        sides: dict[str, dict[str, Any]] = {}
        for side in SIDES:
            common = {**_WRITTEN_SIDE, "is_decoder": side == "decoder", "query_pre_attn_scalar": a.d_k}
            own = {key.removeprefix(f"{side}."): flat.pop(key) for key in [*flat] if key.startswith(f"{side}.")}
            own |= common | {"layer_types": ["full_attention"] * getattr(a.depths, side)}
            names = [key for key in own if key.startswith("rope_parameters.")]
            own["rope_parameters"] = {name.rpartition(".")[2]: own.pop(name) for name in names}
            sides[side] = own
        return {
            "architectures": [self.model_class],
            "model_type": "t5gemma",
            **WRITTEN,
            **flat,
            **sides,
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
        config.require_known("transformers", "transformers.whole", "transformers.t5gemma")
        fields = read_settings(config, _SETTINGS)
        d_k = fields["d_k"]
        for side in SIDES:
            config.require_known("transformers", "transformers.t5gemma", "transformers.t5gemma.side", prefix=f"{side}.")
            width = (None, fields["d_model"]) if side == "decoder" else (None,)
            decodes = side == "decoder"
            config.require({f"{side}.is_decoder": (decodes,), f"{side}.cross_attention_hidden_size": width})
            for key in (f"{side}.attn_logit_softcapping", f"{side}.final_logit_softcapping"):
                if config.any(key, "a number") is not None:
                    hint = "choose a model without soft-capping"
                    raise config.error(key, "limits numbers by tanh, which zoo does not support", hint)
            if config.number(f"{side}.query_pre_attn_scalar", 256) != d_k:
                problem = f"differs from `head_dim: {d_k}`, by which a spec scales scores"
                raise config.error(f"{side}.query_pre_attn_scalar", problem)
        own = read_settings(config, _OWN_SETTINGS)
        return {
            **fields,
            "encoder": _sublayers(own["encoder"], ("self_attention",)),
            "decoder": _sublayers(own["decoder"], ("self_attention", "cross_attention")),
            "d_ff": own["encoder"]["d_ff"],
            "h": own["encoder"]["h"],
            "d_v": d_k,
            "activation_dropout": fields["dropout"],
            "attention_score": "scaled_dot_product",
            "positions": {"kind": "rotary", **fields["positions"]},
            "norm": {"kind": "rms_norm", "placement": "both", **fields["norm"]},
            "scale_embeddings": True,
            "scale_logits": False,
            "tied_embeddings": "target" if config.boolean("tie_word_embeddings", True) else "none",
            "projection_bias": False,
            "output_bias": True,
        }

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot express the tokens."""
        if not bundle.vocabulary.same_on_both_sides:
            raise cannot_export(self.name, "T5Gemma has the same tokens on both sides")
        if bundle.spec.vocabulary.kind != "bpe":
            raise cannot_export(self.name, "GemmaTokenizer is a byte-pair encoding (`vocabulary.kind: bpe`)")
        return written_ids(bundle, self.name)

    def layout(self, a: Architecture) -> Layout:
        """Return the names and the layout of all tensors except embeddings and output."""
        layer, parts = "model.{side}.layers.{number}", {**_ATTENTIONS, "feed_forward": "feedforward"}
        projections = ("q_proj", "k_proj", "v_proj", "o_proj")
        names = {
            **attention_names(_ATTENTIONS, projections, layer + ".{attention}.{projection}.{tensor}"),
            **{f"{kind}.norm": f"{layer}.pre_{part}_layernorm.{{tensor}}" for kind, part in parts.items()},
            **{f"{kind}.post_norm": f"{layer}.post_{part}_layernorm.{{tensor}}" for kind, part in parts.items()},
            "feed_forward.gate": layer + ".mlp.gate_proj.{tensor}",
            "feed_forward.w1": layer + ".mlp.up_proj.{tensor}",
            "feed_forward.w2": layer + ".mlp.down_proj.{tensor}",
            "norm": "model.{side}.norm.{tensor}",
        }
        return Layout(names, gain_offset=1.0)

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
        settings = {"tokenizer_class": self.tokenizer, "add_bos_token": False, "add_eos_token": ends}
        write_vocabulary(bundle, folder / SENTENCEPIECE, ids, settings)


def _own_options(a: Architecture) -> SimpleNamespace:
    """Return the options of the sub-layers of each side, for `_OWN_SETTINGS`."""
    sides = {}
    for side in SIDES:
        attention, *_, feed_forward = getattr(a, side)
        h = a.option(attention, "h")
        options = {name: a.option(feed_forward, name) for name in ("d_ff", "activation")}
        sides[side] = SimpleNamespace(h=h, kv_heads=attention.kv_heads or h, **options)
    return SimpleNamespace(**sides)


def _window(config: Settings, side: str) -> int:
    """Return the number of positions that attention sees."""
    window = config.any(f"{side}.sliding_window", _DEFAULT_WINDOW)
    kinds = config.any(f"{side}.layer_types")
    return _NO_WINDOW if window is None or (kinds is not None and "sliding_attention" not in kinds) else int(window)


def _sublayers(own: Mapping[str, Any], attentions: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the sub-layers of a layer, given the values of `_OWN_SETTINGS`."""
    grouped = {} if own["kv_heads"] == own["h"] else {"kv_heads": own["kv_heads"]}
    feed_forward = {"gated": True, "bias": False, "activation": own["activation"], "d_ff": own["d_ff"]}
    return [
        *({"kind": kind, "h": own["h"], **grouped} for kind in attentions),
        {"kind": "feed_forward", **feed_forward},
    ]


def _read_vocabulary(folder: Path, rows: int, special: SpecialTokens) -> ImportedVocabulary:
    """Read the SentencePiece model. Raise ZooError if the tokenizer has a property that zoo does not support."""
    config = {**SPECIAL_NAMES, **tokenizer_settings(folder)}
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

"""Import of T5, mT5 and MADLAD-400 from transformers (Raffel et al. 2020; Xue et al. 2021; Kudugunta et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from specs import Architecture, FeedForward, Spec
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.huggingface.config import ACTIVATIONS, generation_settings, special_tokens
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.t5_vocabulary import read_t5_vocabulary, write_vocabulary, written_ids
from zoo.interop.huggingface.tokenizer import WrittenIds
from zoo.interop.huggingface.weights import take_tables
from zoo.interop.tables import (
    TOOLKITS,
    NamedTensors,
    Settings,
    read_settings,
    tensor_layout,
    written_settings,
)
from zoo.models.loading import Model

_NETWORKS = {
    **{name: (activation, False) for name, activation in ACTIVATIONS.items()},
    **{f"gated-{name}": (activation, True) for name, activation in ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
"""Activation of a feed-forward network and whether the network is gated, keyed by the value of `feed_forward_proj`."""
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Tensor in old files. transformers ignores this tensor."""


class T5(Family):
    """The `hf-t5` format: T5 and mT5 models in transformers, including MADLAD-400."""

    name = "hf-t5"
    model_types: ClassVar[tuple[str, ...]] = ("t5", "mt5")
    model_class = "T5ForConditionalGeneration"
    tables: ClassVar[Mapping[str, str]] = TOOLKITS["transformers.t5"]["tables"]
    """Names of the embeddings and of the output projection."""

    layout = tensor_layout("transformers.t5")

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        files = self.open(path, request)
        config, weights = files.config, files.weights
        special = special_tokens(config, files.search, end=1, pad=0)
        rows = config.integer("vocab_size", 32128, minimum=4)
        fields = self.architecture(config)
        weights.pop(_UNUSED, None)
        # If the file has no separate output projection, transformers ties it, regardless of `tie_word_embeddings`.
        has_output = self.tables["output"] in weights and any(
            name in weights for key, name in self.tables.items() if key != "output"
        )
        equal = [key for key in self.tables if key != "output" or not has_output]
        tables = take_tables(weights, self.tables, equal, rows, fields["d_model"], bias=torch.zeros(1).expand(rows))
        vocabulary = read_t5_vocabulary(path, rows, special)
        search = generation_settings(files.search, special.end, vocabulary.target, forces_end=False)
        return self.imported(files, request, fields, tables, vocabulary, search)

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the exported model's `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        return {
            "architectures": [self.model_class],
            "model_type": self.model_types[0],
            **written_settings(a, "transformers", "transformers.t5"),
            "num_decoder_layers": a.depths.decoder,
            "feed_forward_proj": _feed_forward_name(a),
            "tie_word_embeddings": a.tied_embeddings == "all",
            "scale_decoder_outputs": a.scale_logits,
        }

    def architecture(self, config: Settings) -> dict[str, Any]:
        """Convert `config.json` to fields of `architecture`. Raise ZooError if a setting is not supported."""
        is_mt5 = config.text("model_type") == "mt5"
        fields = read_settings(config, "transformers", "transformers.mt5" if is_mt5 else "transformers.t5")
        feed_forward = _feed_forward(config, "gated-gelu" if is_mt5 else "relu")
        attentions = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}
        fields["N"]["decoder"] = config.integer("num_decoder_layers", fields["N"]["encoder"], minimum=1)
        tied = config.any("tie_word_embeddings", True) is not False
        return {
            **fields,
            **{side: [*({"kind": kind} for kind in kinds), feed_forward] for side, kinds in attentions.items()},
            "attention_dropout": fields["dropout"],
            "activation_dropout": fields["dropout"],
            # Only the first T5 scales logits. Newer files contain a setting for this. In older files, tied embeddings
            # mean that the model scales logits.
            "scale_logits": config.boolean("scale_decoder_outputs", tied) and not is_mt5,
            "tied_embeddings": "all" if tied else "embeddings",
        }

    def ids(self, model: Model) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot represent the tokens."""
        return written_ids(model, self.name)

    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield the embedding and, unless it is tied, the output projection with their names in transformers."""
        yield self.tables["shared"], ids.select(tensors["embedding"])
        if spec.architecture.tied_embeddings == "embeddings":
            yield self.tables["output"], ids.select(tensors["output_projection"])

    def write_vocabulary(self, model: Model, folder: Path, ids: WrittenIds) -> None:
        """Write the tokenizer files."""
        write_vocabulary(model, folder, ids)

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about an exported model."""
        if spec.vocabulary.byte_fallback:
            yield (
                "zoo reads and writes characters without a token as bytes, but transformers reads them as <unk> and "
                "writes each byte as a token such as <0xE4>"
            )
        yield from super().notes(spec)


def _feed_forward(config: Settings, default: str) -> dict[str, Any]:
    """Convert the `feed_forward_proj` setting, such as `gated-gelu`, to fields of a feed-forward sub-layer."""
    name = config.text("feed_forward_proj", default)
    if name not in _NETWORKS:
        raise config.error("feed_forward_proj", "is a feed-forward network that zoo does not support")
    activation, gated = _NETWORKS[name]
    names = [name for name, ours in ACTIVATIONS.items() if ours == activation]
    config.require({"dense_act_fn": names, "is_gated_act": (gated,)})
    return {"kind": "feed_forward", "bias": False, "activation": activation, "gated": gated}


def _feed_forward_name(a: Architecture) -> str:
    """Return the `feed_forward_proj` setting of the encoder. This is the inverse of `_feed_forward`."""
    network = next(each for each in a.encoder if isinstance(each, FeedForward))
    properties = a.option(network, "activation"), network.gated
    # transformers has no name for a gated network with the exact GELU. The import reads `gated-gelu` as a different
    # activation, so the export of such a network fails.
    return next((name for name, listed in _NETWORKS.items() if listed == properties), "gated-gelu")

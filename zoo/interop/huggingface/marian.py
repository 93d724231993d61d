"""transformers' Marian models.

All their norms are layer norms after the residual connection, and all their linear maps have biases. transformers
computes other sinusoids than zoo. An export therefore writes the model's positions as a table, which transformers uses
instead of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.lowering.positions import sinusoidal_encoding
from specs import EOS, PAD, Architecture, Learned, Sinusoidal, Spec
from zoo.files.reading import is_present, read_json
from zoo.interop.formats import (
    Bundle,
    Engine,
    ImportedModel,
    ImportRequest,
    PositionConvention,
    are_language_codes,
    imported_spec,
)
from zoo.interop.huggingface.config import ALLOWED, NO_EFFECT, WRITTEN, bart_settings, read_bart_settings
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.folder import TOKENIZER_CONFIG, import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import embedding_tensors, take_tables, tying, written_tables
from zoo.interop.huggingface.vocabulary import SpecialTokens, read_vocabulary, write_vocabulary
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.huggingface.weights import read_output_bias, take_positions, to_interleaved
from zoo.interop.roundtrip import cannot_export
from zoo.interop.sentencepiece_model import is_language_token
from zoo.interop.settings import Settings
from zoo.interop.tables import pytorch_layers, read_tensors, written_settings, written_tensors
from zoo.interop.tensors import SIDES

_ALLOWED: dict[str, tuple[Any, ...]] = {
    **ALLOWED,
    "scale_embedding": (True,),
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "add_bias_logits": (False, True),
    "static_position_embeddings": (True,),
    "is_multilingual": (False, True),
}
_SETTINGS = bart_settings(activation="gelu", attention_dropout=0.0)
_TIED = {(True, True): "all", (True, False): "embeddings", (False, True): "target", (False, False): "none"}
"""Value of `tied_embeddings` for each pair of `share_encoder_decoder_embeddings` and `tie_word_embeddings`."""
_EPSILON = {"marian": 1e-6, "transformers": 1e-5}
"""Epsilon of layer norms in each toolkit."""
_MAX_POSITIONS = 4_096
_MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows
_DEFAULT_START = 58_100
_MARIAN_POSITIONS = (
    "the model uses the positions of Marian, which such models were trained with. transformers computes slightly "
    "different positions and translations: choose these with `--positions transformers`"
)


class HuggingFaceMarian(Family):
    """The format `hf-marian`."""

    name = "hf-marian"
    description = "a folder of transformers' MarianMTModel: config.json, weights, vocab.json, source.spm, target.spm"
    model_types = ("marian",)
    model_class = "MarianMTModel"
    may_differ = ("norm.epsilon",)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        end = config.integer("eos_token_id", 0)
        start = config.integer("decoder_start_token_id", config.integer("pad_token_id", _DEFAULT_START))
        special = SpecialTokens(end, start, config.integer("pad_token_id", start))
        weights = open_weights(path)
        position_fields, position_tables = take_positions(weights, config.integer("d_model", 1024, minimum=1))
        convention = request.positions or ("transformers" if position_fields else "marian")
        source_rows = config.integer("vocab_size", 58101, minimum=5)
        rows = source_rows, config.integer("decoder_vocab_size", source_rows, minimum=5)
        architecture = {**architecture_fields(config, convention), **position_fields}
        common = architecture["tied_embeddings"] in ("all", "embeddings")
        tables = take_tables(weights, tied=architecture["tied_embeddings"] in ("all", "target"), common=common)
        architecture["tied_embeddings"] = tying(tables, common=common)
        vocabulary = read_vocabulary(path, rows, special, shared=common)
        search = generation_settings(settings, end, vocabulary.target, forces_end=settings is config)
        positions = config.integer("max_position_embeddings", 1024, minimum=2)
        for file in (config, settings):
            file.require_all_known()
        spec = imported_spec(
            _with_languages(request, path),
            f"Imported from the Hugging Face Marian model {request.origin_name or path.absolute().name}.",
            architecture=architecture,
            vocabulary=vocabulary.fields,
            decoding={**search.decoding, "max_source_length": min(positions - 1, _MAX_SOURCE_LENGTH)},
        )
        # Marian decodes from a zero vector. transformers uses the embedding of a token, which Marian never generates.
        excluded = [*search.excluded, *([start] if convention == "marian" and start == special.pad else [])]
        tensors = read_tensors(weights, pytorch_layers(spec.architecture, "model."))
        numberings = vocabulary.source, vocabulary.target
        tensors |= embedding_tensors(tables, spec.architecture.tied_embeddings, *numberings)
        tensors["output_bias"] = read_output_bias(weights, vocabulary.target, excluded)
        if convention == "transformers" and not position_fields:
            d_model = spec.architecture.d_model
            tensors = {name: to_interleaved(name, tensor, d_model) for name, tensor in tensors.items()}
        weights.require_all_taken()
        origin = {"format": self.name, "source": path.name, "engine": "transformers"}
        origin["positions"] = "its own" if position_fields else convention
        position_notes = [_MARIAN_POSITIONS] if convention == "marian" and not position_fields else []
        notes = (*position_notes, *search.notes, *vocabulary.notes)
        return ImportedModel(spec, vocabulary.vocabulary, {**tensors, **position_tables}, origin, notes)

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in transformers, in float32. It computes with the positions that were imported."""
        transformers = import_transformers()
        tokenizer: Any = transformers.MarianTokenizer.from_pretrained(str(path))
        network: Any = transformers.MarianMTModel.from_pretrained(str(path), dtype=torch.float32)
        generation = network.generation_config
        words = generation.bad_words_ids if generation.renormalize_logits else []
        excluded, variant = [id for word in words or [] for id in word], ""
        if model.origin["positions"] == "marian":
            variant = " with Marian's positions"
            excluded.append(network.config.decoder_start_token_id)
            _adapt_to_marian(network, model.spec.architecture.norm.epsilon)

        def decode(ids: list[int], names: list[str]) -> str:
            return str(tokenizer.spm_target.decode_pieces(names))

        return TransformersEngine(tokenizer, network, model.spec.decoding.beam, decode, variant, excluded)

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        common, tied = next(key for key, value in _TIED.items() if value == a.tied_embeddings)
        return {
            "architectures": [self.model_class],
            "model_type": "marian",
            **WRITTEN,
            **written_settings(a, _SETTINGS),
            "max_position_embeddings": _position_rows(spec),
            "scale_embedding": True,
            "static_position_embeddings": True,
            "share_encoder_decoder_embeddings": common,
            "tie_word_embeddings": tied,
            "bos_token_id": None,
        }

    def architecture_of(self, config: Settings, spec: Spec) -> dict[str, Any]:
        """Return the fields of `architecture` that an import reads from the settings of an exported model.

        The weights of the model contain its positions.
        """
        fields, positions = architecture_fields(config, "transformers"), spec.architecture.positions
        is_table = isinstance(positions, Sinusoidal | Learned)
        return {**fields, "positions": positions.model_dump()} if is_table else fields

    def config(self, spec: Spec, ids: WrittenIds) -> dict[str, Any]:
        """Return the content of `config.json`."""
        source_size, target_size = spec.vocabulary.sizes
        return {**super().config(spec, ids), "vocab_size": source_size, "decoder_vocab_size": target_size}

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation, including BOS and EOS."""
        return min(super().max_length(spec) + 1, _position_rows(spec))

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model, which are those of zoo. Raise ZooError for language tokens."""
        languages, size = bundle.spec.languages, max(bundle.spec.vocabulary.sizes)
        if languages and (languages.target_token or not is_language_token(languages.token_of(languages.codes[0]))):
            reason = "MarianTokenizer recognises only language tokens such as `>>de<<`, and only before sources"
            raise cannot_export(self.name, reason)
        return WrittenIds.of(list(range(size)), size, pad=PAD, end=EOS)

    def tensors_of(
        self, a: Architecture, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield each tensor of the exported model with its name in transformers."""
        yield from written_tensors(tensors, pytorch_layers(a, "model."))
        for side in SIDES:
            yield f"model.{side}.embed_positions.weight", _positions(spec, tensors, side)
        yield from written_tables(a, tensors, ids.select, common=a.tied_embeddings in ("all", "embeddings"))
        bias = tensors.get("output_bias", torch.zeros(spec.vocabulary.sizes[1]))
        yield "final_logits_bias", bias.float().reshape(1, -1).clone()

    def write_vocabulary(self, bundle: Bundle, folder: Path, ids: WrittenIds) -> None:
        """Write the files of the tokenizer."""
        write_vocabulary(bundle, folder, _position_rows(bundle.spec))

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about an exported model."""
        if (epsilon := spec.architecture.norm.epsilon) != _EPSILON["transformers"]:
            theirs = _EPSILON["transformers"]
            yield f"the epsilon of layer norms is {theirs:g} in transformers, and {epsilon:g} in the spec"
        yield from super().notes(spec)


def architecture_fields(config: Settings, positions: PositionConvention) -> dict[str, Any]:
    """Return the fields of the spec's `architecture`. `tied_embeddings` is the value that `config.json` suggests.

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
    common, tied = config.boolean("share_encoder_decoder_embeddings", True), config.boolean("tie_word_embeddings", True)
    return {
        **read_bart_settings(config, _SETTINGS),
        # The sinusoids of transformers are those of the paper in another order (`weights.to_interleaved`).
        "positions": {"kind": "sinusoidal_halves" if positions == "marian" else "sinusoidal"},
        "norm": {"placement": "post", "epsilon": _EPSILON[positions]},
        "tied_embeddings": _TIED[common, tied],
    }


def _position_rows(spec: Spec) -> int:
    """Return the number of rows of the table of positions. For sinusoids, it is the maximum source length plus EOS."""
    if (rows := spec.architecture.max_positions) is not None:
        return rows
    return min(spec.decoding.max_source_length, _MAX_POSITIONS - 1) + 1


def _positions(spec: Spec, tensors: Mapping[str, Tensor], side: str) -> Tensor:
    a = spec.architecture
    if not isinstance(a.positions, Sinusoidal):
        return tensors[f"{side}.positions"].float().clone()
    halves, first = a.positions.kind == "sinusoidal_halves", a.positions.first
    return torch.tensor([sinusoidal_encoding(first + row, a.d_model, halves) for row in range(_position_rows(spec))])


def _with_languages(request: ImportRequest, path: Path) -> ImportRequest:
    """Return the request, with the languages in `tokenizer_config.json` if the user did not choose languages."""
    if request.languages or not is_present(path / TOKENIZER_CONFIG):
        return request
    config: dict[str, Any] = read_json(path / TOKENIZER_CONFIG)
    source, target = (str(config.get(f"{side}_lang", "")).lower().replace("_", "-") for side in ("source", "target"))
    return replace(request, languages=(source, target)) if are_language_codes((source, target)) else request


def _adapt_to_marian(model: Any, epsilon: float) -> None:
    """Set the positions and the layer-norm epsilon of a transformers model to those of Marian, which trained it."""
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = epsilon
    for side in SIDES:
        table = getattr(model.model, side).embed_positions.weight
        rows, d_model = table.shape
        with torch.no_grad():
            table.copy_(torch.tensor([sinusoidal_encoding(position, d_model, halves=True) for position in range(rows)]))

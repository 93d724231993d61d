"""Import of transformers' Marian models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from compiler.lowering.positions import sinusoidal_encoding
from zoo.files.reading import is_present, read_json
from zoo.interop.formats import (
    Engine,
    ImportedModel,
    ImportRequest,
    are_language_codes,
    imported_spec,
)
from zoo.interop.huggingface.config import architecture_fields, has_common_embedding
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.folder import TOKENIZER_CONFIG, ModelTypeImport, import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import embedding_tensors, take_tables, tying
from zoo.interop.huggingface.vocabulary import SpecialTokens, read_vocabulary
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.huggingface.weights import read_layers, read_output_bias, take_positions, to_interleaved
from zoo.interop.tensors import SIDES

_MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows
_DEFAULT_START = 58_100
_MARIAN_POSITIONS = (
    "the model uses the positions of Marian, which such models were trained with. transformers computes slightly "
    "different positions and translations: choose these with `--positions transformers`"
)


class HuggingFaceMarianImport(ModelTypeImport):
    """The import format `hf-marian`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "hf-marian"
    description = "a folder of transformers' Marian: config.json, weights, vocab.json, source.spm, target.spm"
    model_types = ("marian",)

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
        common = has_common_embedding(config)
        tables = take_tables(weights, tied=config.boolean("tie_word_embeddings", True), common=common)
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
        tensors = read_layers(weights, spec.architecture)
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

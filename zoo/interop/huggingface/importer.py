"""Import of transformers' Marian models, and the engine that `--check` compares them with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.lower.positions import sinusoidal_encoding
from specs import ZooError
from zoo.files.reading import is_present, read_json
from zoo.interop.formats import (
    Engine,
    EngineTranslation,
    ImportedModel,
    ImportRequest,
    are_language_codes,
    imported_spec,
    require_folder,
)
from zoo.interop.huggingface.config import (
    GENERATION_KEYS,
    architecture_fields,
    generation_settings,
    has_common_embedding,
)
from zoo.interop.huggingface.vocabulary import TOKENIZER_CONFIG, SpecialTokens, read_vocabulary
from zoo.interop.huggingface.weights import (
    open_weights,
    read_embeddings,
    read_layers,
    take_positions,
    to_interleaved,
)
from zoo.interop.settings import Settings
from zoo.interop.tensors import SIDES

CONFIG, GENERATION_CONFIG = "config.json", "generation_config.json"
_MAX_SOURCE_LENGTH = 100_000  # tokens: the largest value that a spec allows
_DEFAULT_START = 58_100
_BATCH_SIZE = 16
_MARIAN_POSITIONS = (
    "the model uses the positions of Marian, which such models were trained with. transformers computes slightly "
    "different positions and translations: choose these with `--positions transformers`"
)


class HuggingFaceMarianImport:
    """The import format `hf-marian`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "hf-marian"
    description = "a folder of transformers' Marian: config.json, weights, vocab.json, source.spm, target.spm"
    engine = "transformers"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is a folder whose `config.json` has the model type `marian`."""
        if not is_present(path / CONFIG):
            return False
        try:
            return read_json(path / CONFIG).get("model_type") == "marian"
        except ZooError:
            return False

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        require_folder(path, self.name)
        config = Settings(read_json(path / CONFIG), str(path / CONFIG))
        end = config.integer("eos_token_id", 0)
        start = config.integer("decoder_start_token_id", config.integer("pad_token_id", _DEFAULT_START))
        special = SpecialTokens(end, start, config.integer("pad_token_id", start))
        weights = open_weights(path)
        position_fields, position_tables = take_positions(weights, config.integer("d_model", 1024, minimum=1))
        convention = request.positions or ("transformers" if position_fields else "marian")
        source_rows = config.integer("vocab_size", 58101, minimum=5)
        rows = source_rows, config.integer("decoder_vocab_size", source_rows, minimum=5)
        architecture = {**architecture_fields(config, convention), **position_fields}
        vocabulary = read_vocabulary(path, rows, special, shared=has_common_embedding(config))
        settings = _generation_file(path, config)
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
        tensors.update(read_embeddings(weights, spec.architecture, numberings, excluded))
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
        """Open the model in transformers, in float32."""
        return TransformersEngine(path, model)


def _generation_file(path: Path, config: Settings) -> Settings:
    """Return the file with the search settings: `generation_config.json` or, in older folders, `config.json`."""
    if is_present(path / GENERATION_CONFIG):
        config.ignore(*GENERATION_KEYS)
        return Settings(read_json(path / GENERATION_CONFIG), str(path / GENERATION_CONFIG))
    return config


def _with_languages(request: ImportRequest, path: Path) -> ImportRequest:
    """Return the request with the languages in `tokenizer_config.json`, unless the user chose languages."""
    if request.languages or not is_present(path / TOKENIZER_CONFIG):
        return request
    config: dict[str, Any] = read_json(path / TOKENIZER_CONFIG)
    source, target = (str(config.get(f"{side}_lang", "")).lower().replace("_", "-") for side in ("source", "target"))
    return replace(request, languages=(source, target)) if are_language_codes((source, target)) else request


class TransformersEngine:
    """transformers with an open model, in float32. Implements `zoo.interop.formats.Engine`.

    The model uses the same positions as the imported model.
    """

    def __init__(self, path: Path, model: ImportedModel) -> None:
        """Open the model in this folder."""
        transformers = import_transformers()
        self.version = f"transformers {transformers.__version__}"
        self._beam = model.spec.decoding.beam
        self._tokenizer: Any = transformers.MarianTokenizer.from_pretrained(str(path))
        self._model: Any = transformers.MarianMTModel.from_pretrained(str(path), dtype=torch.float32)
        generation = self._model.generation_config
        words = generation.bad_words_ids if generation.renormalize_logits else []
        self._excluded = [id for word in words or [] for id in word]
        """Tokens that are excluded from the softmax."""
        if model.origin["positions"] == "marian":
            self.version += " with Marian's positions"
            self._excluded.append(self._model.config.decoder_start_token_id)
            _adapt_to_marian(self._model, model.spec.architecture.norm.epsilon)

    @torch.inference_mode()
    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[EngineTranslation]:
        """Return the best translation of each text, with the search settings in the folder of the model."""
        longest_first = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        translations: dict[int, EngineTranslation] = {}
        for start in range(0, len(texts), _BATCH_SIZE):
            batch = longest_first[start : start + _BATCH_SIZE]
            results = self._translate_batch([texts[index] for index in batch], self._beam if beam is None else beam)
            translations.update(zip(batch, results, strict=True))
        return [translations[index] for index in range(len(texts))]

    def _translate_batch(self, texts: list[str], beam: int) -> Iterator[EngineTranslation]:
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True)
        output = self._model.generate(**inputs, num_beams=beam)
        end = self._model.config.eos_token_id
        for row, log_probability in zip(output.tolist(), self._log_probabilities(inputs, output), strict=True):
            ids = row[1:]
            names = self._tokenizer.convert_ids_to_tokens(ids[: ids.index(end)] if end in ids else ids)
            text = self._tokenizer.spm_target.decode_pieces(names)
            yield EngineTranslation(str(text), log_probability, names)

    def _log_probabilities(self, inputs: Any, output: Tensor) -> list[float]:
        """Return the log-probability of each translation, computed by the decoder with teacher forcing."""
        logits = self._model(**inputs, decoder_input_ids=output[:, :-1]).logits
        logits[..., self._excluded] = -torch.inf
        target = output[:, 1:]
        log_probabilities = logits.log_softmax(-1).gather(2, target[:, :, None])[:, :, 0]
        is_end = target == self._model.config.eos_token_id
        ends_so_far = is_end.cumsum(1)
        counted = (ends_so_far == 0) | ((ends_so_far == 1) & is_end)
        return [float(total) for total in log_probabilities.masked_fill(~counted, 0.0).sum(1)]


def import_transformers() -> Any:
    """Import the package `transformers`, and switch off its progress bars."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _adapt_to_marian(model: Any, epsilon: float) -> None:
    """Change a model of transformers to Marian's positions and epsilon of layer norms, as in its training."""
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = epsilon
    for side in SIDES:
        table = getattr(model.model, side).embed_positions.weight
        rows, d_model = table.shape
        with torch.no_grad():
            table.copy_(torch.tensor([sinusoidal_encoding(position, d_model, halves=True) for position in range(rows)]))

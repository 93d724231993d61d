"""Import of M2M-100, NLLB-200 and mBART-50 from transformers (Fan et al. 2020; NLLB team 2022; Tang et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specs import Architecture, Spec
from zoo.interop.formats import Bundle, Engine, ImportedModel, ImportRequest, imported_spec
from zoo.interop.huggingface.config import ALLOWED, NO_EFFECT, WRITTEN, bart_settings, read_bart_settings
from zoo.interop.huggingface.engine import TransformersEngine
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.folder import import_transformers
from zoo.interop.huggingface.generation import generation_settings
from zoo.interop.huggingface.layers import embedding_tensors, take_tables, tying, written_tables
from zoo.interop.huggingface.multilingual_tokens import fitting_class, write_vocabulary, written_ids
from zoo.interop.huggingface.multilingual_vocabulary import (
    END,
    PAD_ROW,
    START,
    MultilingualVocabulary,
    read_multilingual_vocabulary,
    tokenizer_class,
)
from zoo.interop.huggingface.weight_files import open_weights
from zoo.interop.numbering import NEVER
from zoo.interop.settings import Settings
from zoo.interop.tables import (
    FIRST_POSITION,
    Setting,
    TensorRow,
    learned_positions,
    pytorch_layers,
    read_tensors,
    written_settings,
    written_tensors,
)
from zoo.interop.tensors import SIDES

_ALLOWED: dict[str, tuple[Any, ...]] = {
    **ALLOWED,
    "normalize_before": (True,),
    "normalize_embedding": (True,),
    "add_final_layer_norm": (True,),
    "add_bias_logits": (False,),
    "static_position_embeddings": (False,),
    "pad_token_id": (PAD_ROW,),
    "eos_token_id": (END, [END]),
}
"""Supported values, for the settings that change the network."""
_BIAS = "final_logits_bias"
_SINUSOIDS = "model.{}.embed_positions.weights"
"""Tensor of old files that transformers ignores, because it computes sinusoids itself."""
_MAX_SOURCE_LENGTH = 100_000  # of a spec
_FORCED = "the model's files set a default target language, which zoo ignores: choose the language with `--to`"


class Multilingual(Family):
    """The format `hf-multilingual`."""

    name = "hf-multilingual"
    description = (
        "a folder of transformers' M2M-100, NLLB-200 or mBART-50: config.json, weights, sentencepiece.bpe.model or "
        "tokenizer.json"
    )
    model_types = ("m2m_100", "mbart")
    model_class = "AutoModelForSeq2SeqLM"
    hidden = ()

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        config, settings = self.settings(path)
        start = _start(config, settings)
        class_ = tokenizer_class(path, config)
        rows = config.integer("vocab_size", 128112 if config.text("model_type") == "m2m_100" else 50265, minimum=5)
        architecture = architecture_fields(config)
        weights = open_weights(path)
        tied = config.boolean("tie_word_embeddings", True)
        tables = take_tables(weights, rows, architecture["d_model"], tied=tied)
        architecture["tied_embeddings"] = tying(tables)
        vocabulary = read_multilingual_vocabulary(path, class_, rows, start)
        numbering = vocabulary.imported.target
        forces_end = settings is config and config.text("model_type") == "mbart"
        search = generation_settings(settings, END, numbering, forces_end=forces_end, is_multilingual=True)
        forced = settings.any("forced_bos_token_id")
        for file in (config, settings):
            file.require_all_known()
        positions = config.integer("max_position_embeddings", 1024, minimum=4)
        spec = imported_spec(
            _with_languages(request, vocabulary),
            f"Imported from the Hugging Face model {request.origin_name or path.absolute().name} for "
            f"{len(vocabulary.languages['codes'])} languages.",
            architecture=architecture,
            vocabulary=vocabulary.imported.fields,
            languages=vocabulary.languages,
            decoding={
                **search.decoding,
                # transformers counts the token of the language, and zoo does not.
                "extra_length": max(0, search.decoding["extra_length"] - 1),
                "max_source_length": min(positions - 2, _MAX_SOURCE_LENGTH),
            },
        )
        for side in SIDES:
            weights.left.pop(_SINUSOIDS.format(side), None)
        tensors = read_tensors(weights, _table(spec.architecture))
        tensors |= embedding_tensors(tables, spec.architecture.tied_embeddings, numbering, numbering)
        bias = weights.take(_BIAS, 1, rows) if _BIAS in weights.left else None
        tensors["output_bias"] = numbering.bias(bias)
        tensors["output_bias"][[numbering.id(row) for row in search.excluded]] = NEVER
        weights.require_all_taken()
        origin = {"format": self.name, "source": path.name, "engine": "transformers", "tokenizer": class_.name}
        notes = (*([] if forced is None else [_FORCED]), *search.notes, *vocabulary.imported.notes)
        return ImportedModel(spec, vocabulary.imported.vocabulary, tensors, origin, notes)

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in transformers, in float32. It translates in the default direction of the spec."""
        transformers = import_transformers()
        source, target = model.spec.default_direction
        assert model.spec.languages is not None
        tokenizer: Any = getattr(transformers, model.origin["tokenizer"]).from_pretrained(str(path), src_lang=source)
        network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(path), dtype=torch.float32)
        forced = tokenizer.convert_tokens_to_ids(model.spec.languages.token_of(target))
        return TransformersEngine(tokenizer, network, model.spec.decoding.beam, forced=forced)

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        is_mbart = a.norm.embeddings
        return {
            "architectures": [f"{'MBart' if is_mbart else 'M2M100'}ForConditionalGeneration"],
            "model_type": "mbart" if is_mbart else "m2m_100",
            **WRITTEN,
            **written_settings(a, _settings(is_mbart)),
            **{f"{side}_layerdrop": 0.0 for side in SIDES},
            "max_position_embeddings": a.max_positions or spec.decoding.max_source_length + FIRST_POSITION,
            "tie_word_embeddings": a.tied_embeddings == "all",
            "bos_token_id": START,
        }

    def architecture_of(self, config: Settings, spec: Spec) -> dict[str, Any]:
        """Return the fields of `architecture` that an import reads from the settings of an exported model."""
        return {**architecture_fields(config), "tied_embeddings": spec.architecture.tied_embeddings}

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot express the tokens."""
        fitting_class(bundle.spec)
        return written_ids(bundle)

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation, including BOS and the token of the language."""
        return super().max_length(spec) + 1

    def tensors_of(
        self, a: Architecture, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield each tensor of the exported model with its name in transformers."""
        yield from written_tensors(tensors, _table(a))
        yield from written_tables(a, tensors, ids.select)
        if a.norm.embeddings:  # M2M-100 has no bias of the logits
            bias = tensors.get("output_bias", torch.zeros(spec.vocabulary.size))
            yield _BIAS, ids.select(bias).reshape(1, -1)

    def write_vocabulary(self, bundle: Bundle, folder: Path, ids: WrittenIds) -> None:
        """Write the files of the tokenizer."""
        write_vocabulary(bundle, fitting_class(bundle.spec), folder, ids)


def _start(config: Settings, settings: Settings) -> int:
    """Return the ID of the token that decoding starts with. Raise ZooError if it is neither `<s>` nor `</s>`."""
    own = (file for file in (settings, config) if file.any("decoder_start_token_id") is not None)
    file = next(own, config)
    default = END if config.text("model_type") == "m2m_100" else None
    start = file.any("decoder_start_token_id", default)
    if start not in (START, END):
        raise file.error(
            "decoder_start_token_id",
            "is not `</s>` (2), with which translations begin in mBART-50, NLLB-200 and M2M-100",
            hint="choose one of these models: the first mBART (cc25) begins translations with a language token",
        )
    return int(start)


def architecture_fields(config: Settings) -> dict[str, Any]:
    """Return the fields of `architecture` without `tied_embeddings`.

    Raises:
        ZooError: A setting is not supported.
    """
    is_mbart = config.text("model_type") == "mbart"
    config.require(_ALLOWED)
    config.ignore(*NO_EFFECT)
    learned = {"kind": "learned", "rows": config.integer("max_position_embeddings", 1024, minimum=4)}
    return {
        **read_bart_settings(config, _settings(is_mbart)),
        "positions": learned if is_mbart else {"kind": "sinusoidal_halves", "first": FIRST_POSITION},
        "norm": {"placement": "pre", "epsilon": 1e-5, "embeddings": is_mbart},
    }


def _settings(is_mbart: bool) -> tuple[Setting, ...]:
    table = bart_settings("gelu", 0.0) if is_mbart else bart_settings("relu", 0.1)
    return (*table, Setting("scale_embedding", "scale_embeddings", not is_mbart))


def _table(a: Architecture) -> Iterator[TensorRow]:
    """Yield all tensors except embeddings and output."""
    yield from pytorch_layers(a, "model.")
    yield from learned_positions(a, "model.")


def _with_languages(request: ImportRequest, vocabulary: MultilingualVocabulary) -> ImportRequest:
    """Return the request with the languages of the default direction, if the user or the tokenizer names them."""
    source, target = vocabulary.direction
    codes = vocabulary.languages["codes"]
    if request.languages or source not in codes or target not in codes:
        return request
    return replace(request, languages=(str(source), str(target)))

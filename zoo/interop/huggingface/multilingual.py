"""Import of M2M-100, NLLB-200 and mBART-50 from transformers (Fan et al. 2020; NLLB team 2022; Tang et al. 2020)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specs import Architecture, Spec
from zoo.interop.formats import Bundle, ImportedModel, ImportRequest
from zoo.interop.huggingface.config import (
    MAX_SOURCE_LENGTH,
    WRITTEN,
    bart_settings,
    generation_settings,
    read_bart_settings,
    special_tokens,
)
from zoo.interop.huggingface.family import Family, WrittenIds
from zoo.interop.huggingface.multilingual_vocabulary import (
    END,
    PAD_ROW,
    START,
    fitting_class,
    read_multilingual_vocabulary,
    tokenizer_class,
    write_vocabulary,
    written_ids,
)
from zoo.interop.huggingface.weights import BART_TABLES, BIAS, open_weights, take_tables, written_bart_tables
from zoo.interop.tables import (
    FIRST_POSITION,
    Layout,
    NamedTensors,
    Setting,
    Settings,
    pytorch_layout,
    written_settings,
)
from zoo.interop.tensors import SIDES

_SINUSOIDS = "model.{}.embed_positions.weights"
"""Tensor in old files. transformers ignores this tensor, because it computes sinusoids itself."""
_FORCED = "the model's files set a default target language, which zoo ignores: choose the language with `--to`"


class Multilingual(Family):
    """The `hf-multilingual` format: M2M-100, NLLB-200 and mBART-50 models in transformers."""

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
        is_m2m = config.text("model_type") == "m2m_100"
        start = _start(config, settings, END if is_m2m else None)
        class_ = tokenizer_class(path, config)
        rows = config.integer("vocab_size", 128112 if is_m2m else 50265, minimum=5)
        fields = self.architecture(config)
        d_model, positions = fields["d_model"], config.integer("max_position_embeddings", 1024, minimum=4)
        tied = config.boolean("tie_word_embeddings", True)
        weights = open_weights(path)
        for side in SIDES:
            weights.left.pop(_SINUSOIDS.format(side), None)
        bias = weights.take(BIAS, 1, rows) if BIAS in weights.left else torch.zeros(1).expand(rows)
        scale, equal = d_model**0.5 if fields["scale_embeddings"] else 1.0, BART_TABLES if tied else ()
        tables = take_tables(weights, BART_TABLES, equal, rows, d_model, bias=bias, scale=scale)
        vocabulary, direction = read_multilingual_vocabulary(path, class_, rows, start)
        forces_end = settings is config and not is_m2m
        search = generation_settings(settings, END, vocabulary.target, forces_end=forces_end, is_multilingual=True)
        # transformers counts the language token, and zoo does not.
        search.decoding["extra_length"] = max(0, search.decoding["extra_length"] - 1)
        search.decoding["max_source_length"] = min(positions - 2, MAX_SOURCE_LENGTH)
        request = request if request.languages else replace(request, languages=direction)
        model = self.imported(
            path, request, (config, settings), weights, fields, tables, vocabulary, search, tokenizer=class_.name
        )
        forced = settings.any("forced_bos_token_id")
        return replace(model, notes=(*([] if forced is None else [_FORCED]), *model.notes))

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

    def architecture(self, config: Settings) -> dict[str, Any]:
        """Convert `config.json` to fields of `architecture`, except `tied_embeddings`.

        Raises:
            ZooError: A setting is not supported.
        """
        is_mbart = config.text("model_type") == "mbart"
        config.require_known("transformers", "transformers.multilingual")
        learned = {"kind": "learned", "rows": config.integer("max_position_embeddings", 1024, minimum=4)}
        return {
            **read_bart_settings(config, _settings(is_mbart)),
            "positions": learned if is_mbart else {"kind": "sinusoidal_halves", "first": FIRST_POSITION},
            "norm": {"placement": "pre", "epsilon": 1e-5, "embeddings": is_mbart},
        }

    def of_weights(self, a: Architecture) -> Collection[str]:
        """Return `tied_embeddings`, because the weights show which matrices are equal."""
        return ("tied_embeddings",)

    def layout(self, a: Architecture) -> Layout:
        """Return the names and the layout of all tensors except embeddings and output."""
        return pytorch_layout("model.")

    def ids(self, bundle: Bundle) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot express the tokens."""
        fitting_class(bundle.spec)
        return written_ids(bundle)

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation, including BOS and the language token."""
        return super().max_length(spec) + 1

    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield the embeddings, the output projection and its bias with their names in transformers."""
        a = spec.architecture  # M2M-100, which has no norm of the embeddings, has no bias on the logits
        yield from written_bart_tables(a, tensors, ids.select, common=True, biased=a.norm.embeddings)

    def write_vocabulary(self, bundle: Bundle, folder: Path, ids: WrittenIds) -> None:
        """Write the tokenizer files."""
        write_vocabulary(bundle, fitting_class(bundle.spec), folder, ids)


def _start(config: Settings, search: Settings, default: int | None) -> int:
    """Return the ID of the token that decoding starts with. Raise ZooError if it is neither `<s>` nor `</s>`."""
    start = special_tokens(config, search, END, PAD_ROW, default).start
    if start not in (START, END):
        file = config if search.any("decoder_start_token_id") is None else search
        raise file.error(
            "decoder_start_token_id",
            "is not `</s>` (2), the first token of translations in mBART-50, NLLB-200 and M2M-100",
            hint="choose one of these models: the first mBART (cc25) begins translations with a language token",
        )
    return start


def _settings(is_mbart: bool) -> tuple[Setting, ...]:
    table = bart_settings("gelu", 0.0) if is_mbart else bart_settings("relu", 0.1)
    return (*table, Setting("scale_embedding", "scale_embeddings", not is_mbart))

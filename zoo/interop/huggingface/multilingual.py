"""Import M2M-100, NLLB-200 and mBART-50 from transformers (Fan et al. 2020; NLLB team 2022; Tang et al. 2020)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import Architecture, Spec
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.huggingface.config import ModelFiles
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.multilingual_vocabulary import (
    fitting_class,
    read_multilingual_vocabulary,
    tokenizer_class,
    write_vocabulary,
    written_ids,
)
from zoo.interop.huggingface.tokenizer import WrittenIds
from zoo.interop.huggingface.weights import BART_TABLES, BIAS, take_tables, written_bart_tables
from zoo.interop.tables import (
    END,
    FIRST_POSITION,
    PAD_ROW,
    START,
    NamedTensors,
    Settings,
    read_settings,
    tensor_layout,
    written_settings,
)
from zoo.interop.tensors import STACKS
from zoo.models.loading import Model

_SINUSOIDS = "model.{}.embed_positions.weights"
"""Tensor in old files. transformers ignores this tensor, because it computes sinusoids itself."""
_FORCED = "the model's files set a default target language, which zoo ignores: choose the language with `--to`"


class Multilingual(Family):
    """The `hf-multilingual` format: M2M-100, NLLB-200 and mBART-50 models in transformers."""

    name = "hf-multilingual"
    model_types = ("m2m_100", "mbart")
    model_class = "AutoModelForSeq2SeqLM"
    layout = tensor_layout("transformers.multilingual")
    hidden = ()

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        files = self.open(path, request)
        config = files.config
        is_m2m = config.text("model_type") == "m2m_100"
        start = _start(files, END if is_m2m else None)
        class_ = tokenizer_class(path, config)
        rows = config.integer("vocab_size", 128112 if is_m2m else 50265, minimum=5)
        fields = self.architecture(config)
        d_model, positions = fields["d_model"], config.integer("max_position_embeddings", 1024, minimum=4)
        tied = config.boolean("tie_word_embeddings", True)
        weights = files.weights
        for side in STACKS:
            weights.pop(_SINUSOIDS.format(side), None)
        bias = weights.take(BIAS, 1, rows) if BIAS in weights else None
        scale, equal = d_model**0.5 if fields["scale_embeddings"] else 1.0, BART_TABLES if tied else ()
        tables = take_tables(weights, BART_TABLES, equal, rows, d_model, bias=bias, scale=scale)
        vocabulary = read_multilingual_vocabulary(path, class_, rows, start)
        search = files.generation_settings(
            END, vocabulary.target, forces_end=not is_m2m, source_positions=positions - 2, has_language_token=True
        )
        model = self.imported(files, request, fields, tables, vocabulary, search, tokenizer=class_.name)
        forced = files.search.any("forced_bos_token_id")
        return replace(model, notes=(*([] if forced is None else [_FORCED]), *model.notes))

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the exported model's `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        name, model_type = ("MBart", "mbart") if a.norm.embeddings else ("M2M100", "m2m_100")
        return {
            "architectures": [f"{name}ForConditionalGeneration"],
            "model_type": model_type,
            **written_settings(a, "transformers", "transformers.multilingual", f"transformers.{model_type}"),
            "max_position_embeddings": a.max_positions or spec.decoding.max_source_length + FIRST_POSITION,
            "tie_word_embeddings": a.tied_embeddings == "all",
        }

    def architecture(self, config: Settings) -> dict[str, Any]:
        """Convert `config.json` to fields of `architecture`, except `tied_embeddings`.

        Raises:
            ZooError: A setting is not supported.
        """
        section = f"transformers.{config.text('model_type')}"
        return read_settings(config, "transformers", "transformers.multilingual", section)

    def of_weights(self, a: Architecture) -> Collection[str]:
        """Return `("tied_embeddings",)`, because the weights show which matrices are equal."""
        return ("tied_embeddings",)

    def ids(self, model: Model) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot represent the tokens."""
        return written_ids(model, fitting_class(model.spec))

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation in tokens, including BOS and the language token."""
        return super().max_length(spec) + 1

    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield the embeddings, the output projection and its bias with their names in transformers."""
        a = spec.architecture  # M2M-100, which has no norm of the embeddings, has no bias on the logits
        yield from written_bart_tables(a, tensors, ids.select, common=True, biased=a.norm.embeddings)

    def write_vocabulary(self, model: Model, folder: Path, ids: WrittenIds) -> None:
        """Write the tokenizer files of the exported model into `folder`."""
        write_vocabulary(model, fitting_class(model.spec), folder, ids)


def _start(files: ModelFiles, default: int | None) -> int:
    """Return the ID of the decoder's start token. Raise ZooError if it is neither `<s>` nor `</s>`."""
    start = files.special_tokens(END, PAD_ROW, default).start
    if start not in (START, END):
        file = files.config if files.search.any("decoder_start_token_id") is None else files.search
        raise file.error(
            "decoder_start_token_id",
            "is not `</s>` (2), the first token of translations in mBART-50, NLLB-200 and M2M-100",
            hint="choose an mBART-50, NLLB-200 or M2M-100 model: zoo cannot import the first mBART (cc25)",
        )
    return start

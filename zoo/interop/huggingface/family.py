"""Base class for families of transformers' models. A family describes how its models are read and written."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import Tensor

import specs
from specs import BOS, PAD, Architecture, Spec, ZooError
from zoo.files.atomic import write_json
from zoo.interop.formats import (
    ExportCheck,
    ExportFormat,
    ImportedModel,
    ImportFormat,
    ImportRequest,
    assemble,
    cannot_export,
    require_folder,
    require_standard_layers,
)
from zoo.interop.huggingface.config import CONFIG, GENERATION_CONFIG, GenerationSettings, ModelFiles, model_type
from zoo.interop.huggingface.tokenizer import WrittenIds
from zoo.interop.huggingface.weights import FILES
from zoo.interop.tables import Layout, NamedTensors, Settings, read_tensors, written_tensors
from zoo.interop.tensors import NEVER, EmbeddingTables
from zoo.interop.text_rules import refuse_options
from zoo.interop.vocabulary import ImportedVocabulary
from zoo.models.loading import Model
from zoo.publishing.reference_results import ReferenceLogProbabilities
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary


class Family(ImportFormat, ExportFormat):
    """Base class for model families in transformers. Each family is an import format and an export format.

    The same tables describe how a family reads and writes settings and tensors (see `zoo.interop.tables`).
    """

    model_types: ClassVar[tuple[str, ...]]
    """The values of `model_type` in `config.json` that select the family."""
    model_class: ClassVar[str]
    """The transformers class that loads an exported model."""
    layout: ClassVar[Layout]
    """The names and the layout of all tensors except the embeddings and the output projection."""
    hidden: ClassVar[Collection[int]] = (PAD, BOS)
    """zoo's IDs of tokens that translations of the exported model never contain."""

    def recognises(self, path: Path) -> bool:
        """Return whether the path is a folder whose `config.json` has a `model_type` of this family."""
        return model_type(path) in self.model_types

    def open(self, path: Path, request: ImportRequest) -> ModelFiles:
        """Read a model's settings.

        Raises:
            ZooError: The path is not a folder, a file is damaged, or the user passed tokenisation options.
        """
        refuse_options(request.text, "transformers' models come with their tokenizers")
        require_folder(path, self.name)
        return ModelFiles.open(path, self.model_types)

    def imported(
        self,
        files: ModelFiles,
        request: ImportRequest,
        architecture: Mapping[str, Any],
        tables: EmbeddingTables,
        vocabulary: ImportedVocabulary,
        search: GenerationSettings,
        **origin: str,
    ) -> ImportedModel:
        """Assemble an imported model from its parts.

        Args:
            files: The settings, and the tensors of the layers.
            request: The user's options.
            architecture: The fields of `architecture`, except the fields that `tables` determines.
            tables: The embeddings and the output projection. After conversion, the output projection must have a bias.
            vocabulary: The converted vocabulary.
            search: The converted search settings.
            origin: Additional facts about the origin of the model.

        Raises:
            ZooError: There are unknown settings, or tensors that are missing, invalid or unknown.
        """
        # A `generation_config.json` overrides all search settings in `config.json`.
        files.config.ignore(*files.search.known)
        for file in (files.config, files.search):
            file.require_all_known()
        languages = f" for {len(vocabulary.languages['codes'])} languages" if vocabulary.languages else ""
        name = request.origin_name or files.path.absolute().name
        description = f"Imported from the Hugging Face model {name}{languages}."
        parts = description, architecture, tables, vocabulary, search.decoding, files.weights
        model = assemble(request, *parts, lambda source, spec: read_tensors(source, self.layout.rows(spec)))
        model.weights.tensors["output_bias"][[vocabulary.target.ids[row] for row in search.excluded]] = NEVER
        return ImportedModel(model, {"engine": "transformers", **origin}, (*search.notes, *vocabulary.notes))

    @abstractmethod
    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the exported model's `config.json`, except the IDs of the special tokens."""

    @abstractmethod
    def architecture(self, config: Settings) -> dict[str, Any]:
        """Convert the settings in `config.json` to fields of `architecture`.

        Raises:
            ZooError: A setting is not supported.
        """

    @abstractmethod
    def ids(self, model: Model) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if the format cannot represent the tokens."""

    @abstractmethod
    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield the embeddings, the output projection and its bias with their names in transformers."""

    @abstractmethod
    def write_vocabulary(self, model: Model, folder: Path, ids: WrittenIds) -> None:
        """Write the tokenizer files of the exported model into `folder`."""

    def of_weights(self, a: Architecture) -> Collection[str]:
        """Return the names of `architecture` fields whose values come from the weights instead of `config.json`."""
        return ()

    def tensors_of(self, a: Architecture, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield each tensor of the exported model with its name in transformers.

        Args:
            a: The architecture of the exported model.
            spec: The model's spec.
            tensors: The tensors of the model, keyed by zoo's names.
            ids: The token IDs of the exported model.
        """
        exported = spec.model_copy(update={"architecture": a})
        yield from written_tensors(tensors, self.layout.rows(exported))
        yield from self.written_tables(spec, tensors, ids)

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about how the search of an exported model differs from the search in the spec."""
        decoding = spec.decoding
        if decoding.length_penalty == "gnmt" and decoding.alpha and decoding.beam > 1:
            yield "the spec's length penalty is ((5 + length) / 6)^alpha, but transformers' is length^alpha"
        if decoding.stopping_rule != "full" and decoding.beam > 1:
            yield f"beam search follows transformers' stopping rule, not `stopping_rule: {decoding.stopping_rule}`"
        if decoding.length_factor:
            yield "transformers has the same maximum length for all sources: `max_length` in generation_config.json"

    def reader(self, model: Model) -> ImportFormat:
        """Return the format itself, because it can also import the models that it exports."""
        return self

    def written_architecture(self, spec: Spec) -> Architecture:
        """Return the architecture of the exported model. Raise ZooError if the format cannot represent it."""
        require_standard_layers(spec.architecture, self.name)
        of_weights = spec.architecture.model_dump(include={*self.of_weights(spec.architecture)})
        try:
            fields = self.architecture(Settings(self.settings_of(spec), CONFIG)) | of_weights
        except ZooError as error:
            raise cannot_export(self.name, error.problem) from None
        corpus = {"max_length": 1}  # all tables of position embeddings are long enough for this
        after = specs.load("base", {"architecture": fields, "corpus": corpus}).architecture
        self.require_same_architecture(spec.architecture, after)
        return after

    def write(self, model: Model, folder: Path) -> list[str]:
        """Write weights, settings and the vocabulary. Return notes for the user.

        Raises:
            ZooError: transformers cannot represent the model.
        """
        spec = model.spec
        a = self.written_architecture(spec)
        self.require_sentencepiece(model.vocabulary)
        ids = self.ids(model)
        tensors = dict(self.tensors_of(a, spec, model.weights.tensors, ids))
        safetensors.torch.save_file(tensors, folder / FILES[0], metadata={"format": "pt"})
        write_json(folder / CONFIG, self.config(spec, ids))
        write_json(folder / GENERATION_CONFIG, self._generation_config(spec, ids))
        self.write_vocabulary(model, folder, ids)
        return list(self.notes(spec))

    def config(self, spec: Spec, ids: WrittenIds) -> dict[str, Any]:
        """Return the complete content of the exported model's `config.json`."""
        return {"vocab_size": len(ids.order), **self.settings_of(spec), **ids.settings}

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation in tokens, including BOS."""
        decoding = spec.decoding
        return int(decoding.length_factor * decoding.max_source_length) + decoding.extra_length + 1

    def require_sentencepiece(self, vocabulary: Vocabulary) -> None:
        """Raise ZooError unless the source and target vocabularies are SentencePiece models."""
        if not isinstance(vocabulary.target, Tokenizer):
            raise cannot_export(self.name, "its target consists of parse trees with brackets, not of text")
        if vocabulary.source.is_word_level or vocabulary.target.is_word_level:
            problem = "its vocabulary is a list of words, but transformers requires a SentencePiece model"
            raise cannot_export(self.name, problem)

    def _generation_config(self, spec: Spec, ids: WrittenIds) -> dict[str, Any]:
        decoding, own = spec.decoding, set(ids.order)
        hidden = {int(ids.foreign[id]) for id in (*self.hidden, *decoding.suppressed_tokens) if id in own}
        return {
            "num_beams": decoding.beam,
            "length_penalty": decoding.alpha,
            "early_stopping": decoding.stopping_rule == "full",
            "max_length": self.max_length(spec),
            "bad_words_ids": [[id] for id in sorted(hidden)] or None,
            **ids.settings,
        }

    def check(self, model: Model, references: ReferenceLogProbabilities, folder: Path) -> ExportCheck | None:
        """Compare transformers' log-probabilities with the reference log-probabilities.

        Return None if transformers is not installed.
        """
        if find_spec("transformers") is None:
            return None
        transformers, ids = import_module("transformers"), self.ids(model).foreign
        transformers.utils.logging.disable_progress_bar()
        network: Any = getattr(transformers, self.model_class).from_pretrained(folder)
        network.eval()
        source, target = references.stream, references.target
        with torch.no_grad():
            mask = (torch.arange(source.values.shape[1]) < source.lengths[:, None]).long()
            inputs = {"input_ids": ids[source.values], "attention_mask": mask, "decoder_input_ids": ids[target[:, :-1]]}
            logits = network(**inputs).logits
        log_probabilities = logits.log_softmax(-1).gather(2, ids[target[:, 1:]].unsqueeze(2)).squeeze(2)
        difference = (log_probabilities - references.log_probabilities).masked_fill(target[:, 1:] == PAD, 0)
        return ExportCheck(f"transformers {transformers.__version__}", float(difference.abs().max()))

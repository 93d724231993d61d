"""Import of models of CTranslate2, and the engine that `--check` compares them with."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor

from specs import ZooError
from zoo.files.reading import file_exists
from zoo.interop.ctranslate2.binary import Binary, read
from zoo.interop.ctranslate2.config import read_config, read_token_lists
from zoo.interop.ctranslate2.network import read_network
from zoo.interop.formats import (
    Engine,
    EngineTranslation,
    ImportedModel,
    ImportRequest,
    imported_spec,
    require_folder,
)
from zoo.interop.vocabulary import convert_vocabulary, find_model_files, find_models
from zoo.text.lines import clean
from zoo.text.tokenizer import SPACE

MODEL = "model.bin"
_KINDS = ("", "TransformerBase", "TransformerBig", "TransformerSpec")
_REVISIONS = range(2, 8)
_DECODING: dict[str, Any] = {
    "beam": 2,
    "alpha": 1.0,
    "length_penalty": "power",
    "stopping_rule": "full",
    "length_factor": 0.0,
    "extra_length": 256,
    "min_length": 1,
}
"""Default search options of CTranslate2, because a model does not contain any.

Two details differ from zoo. CTranslate2 truncates a translation at the maximum length, and zoo ends it with EOS. Below
`min_length`, CTranslate2 excludes EOS from the softmax, and zoo does not.
"""


class CTranslate2Import:
    """The import format `ctranslate2`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "ctranslate2"
    description = "a folder of CTranslate2: model.bin and its vocabularies"
    engine = "ctranslate2"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is a folder with `model.bin`."""
        return file_exists(path / MODEL)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        require_folder(path, self.name)
        binary = read(path / MODEL)
        _require_transformer(binary)
        config = read_config(path, binary)
        network = read_network(binary, config.norm_epsilon)
        source, target = read_token_lists(path, config, starts_from_zeros=network.starts_from_zeros)
        source.require_rows("source", len(network.tables.source))
        target.require_rows("target", len(network.tables.target))
        vocabulary = convert_vocabulary(
            find_models(path),
            source,
            target,
            shared=source == target,
            where=path,
            source_has_end=config.source_has_end,
        )
        embeddings, fields = network.tables.converted(vocabulary.source, vocabulary.target)
        spec = imported_spec(
            request,
            f"Imported from CTranslate2 ({binary.name or 'Transformer'}, revision {binary.revision}).",
            architecture={**network.architecture, **fields},
            vocabulary=vocabulary.fields,
            decoding=_DECODING,
        )
        notes = [*vocabulary.notes]
        if not config.source_has_end:
            notes.append("The model reads no EOS after a source, so none is added.")
        if file_exists(path / "vmap.txt"):
            notes.append("`vmap.txt`, with which CTranslate2 can restrict the vocabulary, is not imported.")
        origin = {"format": self.name, "source": path.name, "engine": "CTranslate2", "numbers": binary.number_type}
        tensors = {**network.tensors, **embeddings}
        return ImportedModel(spec, vocabulary.vocabulary, tensors, origin, tuple(notes))

    def open_engine(self, path: Path, model: ImportedModel) -> Engine:
        """Open the model in CTranslate2, in float32."""
        return CTranslate2Engine(path, model)


def open_translator(folder: Path) -> Any:
    """Return CTranslate2's `Translator` of a folder, in float32 on one thread of the CPU."""
    ctranslate2 = import_module("ctranslate2")
    threads = torch.get_num_threads()
    translator = ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
    )
    torch.set_num_threads(threads)  # loading the model changes OpenMP's number of threads in this process
    return translator


class CTranslate2Engine:
    """CTranslate2 with an open model, in float32 on one thread. Implements `zoo.interop.formats.Engine`."""

    def __init__(self, path: Path, model: ImportedModel) -> None:
        """Open the model in this folder."""
        self.version = f"CTranslate2 {import_module('ctranslate2').__version__}"
        self.decoding = model.spec.decoding
        self.unknown = read_config(path, read(path / MODEL)).unknown
        files = find_model_files(path) or (None, None)
        self.source, self.target = (SentencePieceProcessor(model_file=str(file)) if file else None for file in files)
        self.translator = open_translator(path)

    def translate(self, texts: Sequence[str], beam: int | None = None) -> Sequence[EngineTranslation]:
        """Return the best translation of each text, found with the imported model's decoding settings."""
        sources = [self._tokens(text) for text in texts]
        results = self.translator.translate_batch(
            sources,
            beam_size=self.decoding.beam if beam is None else beam,
            length_penalty=self.decoding.alpha,
            max_decoding_length=self.decoding.extra_length,
            max_input_length=0,
        )
        best = [result.hypotheses[0] for result in results]
        scores = self.translator.score_batch(sources, best, max_input_length=0)
        return [
            EngineTranslation(self._text(tokens), float(sum(score.log_probs)), self._names(tokens))
            for tokens, score in zip(best, scores, strict=True)
        ]

    def _tokens(self, text: str) -> list[str]:
        return clean(text).split() if self.source is None else list(self.source.encode(clean(text), out_type=str))

    def _text(self, tokens: Sequence[str]) -> str:
        return " ".join(tokens) if self.target is None else str(self.target.decode(list(tokens)))

    def _names(self, tokens: Sequence[str]) -> list[str]:
        """Return the names that CTranslate2's tokens have in zoo's vocabulary."""
        space = SPACE if self.target is None else ""
        return ["⁇" if token == self.unknown else space + token for token in tokens]


def _require_transformer(binary: Binary) -> None:
    if binary.name not in _KINDS:
        raise ZooError(f"cannot import a `{binary.name}` of CTranslate2: zoo only imports Transformers that translate")
    if binary.revision not in _REVISIONS:
        raise ZooError(
            f"the model has revision {binary.revision} of CTranslate2's Transformer, but zoo reads revisions "
            f"{_REVISIONS[0]} to {_REVISIONS[-1]}",
            hint="convert the model again with a current converter of CTranslate2",
        )

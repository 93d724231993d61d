"""Import and export of transformers' Marian models.

These models are post-norm Transformers with layer norm, and all their linear maps have biases. transformers computes
sinusoids that differ from zoo's. An export therefore writes the positional encodings as a table, which transformers
uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.lowering.positions import sinusoidal_encoding
from specs import EOS, PAD, Architecture, Learned, Sinusoidal, Spec
from zoo.files.atomic import write_json
from zoo.files.reading import damaged, read_bytes, read_json
from zoo.interop.formats import (
    ImportedModel,
    ImportRequest,
    PositionConvention,
    cannot_export,
    language_codes,
)
from zoo.interop.huggingface.config import SpecialTokens
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.tokenizer import TOKENIZER_CONFIG, WrittenIds, read_optional_json
from zoo.interop.huggingface.weights import (
    BART_TABLES,
    BIAS,
    take_positions,
    take_tables,
    to_interleaved,
    written_bart_tables,
)
from zoo.interop.sentencepiece_model import SentencePieceModel, foreign_name, is_language_token
from zoo.interop.tables import NamedTensors, Settings, read_settings, tensor_layout, written_settings
from zoo.interop.tensors import STACKS, TIES, TokenList
from zoo.interop.vocabulary import ImportedVocabulary, convert_vocabulary
from zoo.models.loading import Model
from zoo.models.weights import Weights
from zoo.text.tokenizer import Tokenizer

_EPSILON = {"marian": 1e-6, "transformers": 1e-5}
"""Epsilon of layer norms in each toolkit."""
_MAX_POSITIONS = 4_096
_SOURCE, _TARGET = "vocab.json", "target_vocab.json"
_UNKNOWN = "<unk>"
_DEFAULT_START = 58_100
_MARIAN_POSITIONS = (
    "the model uses Marian's positions, because such models were trained with Marian. transformers computes slightly "
    "different positions and translations: to use its positions, add `--positions transformers`"
)


class HuggingFaceMarian(Family):
    """The `hf-marian` format: Marian models in transformers."""

    name = "hf-marian"
    model_types = ("marian",)
    model_class = "MarianMTModel"
    takes_positions = True
    may_differ = ("norm.epsilon",)
    layout = tensor_layout("transformers.marian")

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        files = self.open(path, request)
        config, weights = files.config, files.weights
        pad = config.integer("decoder_start_token_id", _DEFAULT_START)
        special = files.special_tokens(end=0, pad=pad)
        d_model = config.integer("d_model", 1024, minimum=1)
        position_fields, position_tables = take_positions(weights, d_model)
        is_scaled = config.boolean("scale_embedding", False)  # always true in models that Marian trained
        convention = request.positions or ("marian" if is_scaled and not position_fields else "transformers")
        fields = {**self.architecture(config, convention), **position_fields}
        common, tied = TIES[fields["tied_embeddings"]]
        names = {key: name for key, name in BART_TABLES.items() if common or key != "shared"}
        equal = [key for key in names if common or key != "source"] if tied else []
        size = config.integer("vocab_size", 58101, minimum=5)
        rows = size, config.integer("decoder_vocab_size", size, minimum=5)
        bias = weights.take(BIAS) if BIAS in weights else None
        tables = take_tables(weights, names, equal, bias=bias, scale=d_model**0.5 if is_scaled else 1.0)
        if rows != (len(tables.source), len(tables.target)):
            problem = f"is not the number of rows in the embedding, {len(tables.source):,}"
            raise config.error("vocab_size", problem)
        vocabulary = replace(_read_vocabulary(path, rows, special, shared=common), direction=_direction(path))
        positions = config.integer("max_position_embeddings", 1024, minimum=2) - 1
        search = files.generation_settings(special.end, vocabulary.target, forces_end=True, source_positions=positions)
        if convention == "marian" and special.start == special.pad:
            # Marian starts from a zero vector. transformers starts from a token that Marian never generates.
            search = replace(search, excluded=(*search.excluded, special.start))
        positions_of = "its own" if position_fields else convention
        imported = self.imported(files, request, fields, tables, vocabulary, search, positions=positions_of)
        tensors = {**imported.model.weights.tensors, **position_tables}
        if convention == "transformers" and not position_fields:
            tensors = {name: to_interleaved(name, tensor, d_model) for name, tensor in tensors.items()}
        position_notes = [_MARIAN_POSITIONS] if convention == "marian" and not position_fields else []
        model = replace(imported.model, weights=Weights(tensors))
        return replace(imported, model=model, notes=(*position_notes, *imported.notes))

    def architecture(self, config: Settings, positions: PositionConvention = "transformers") -> dict[str, Any]:
        """Convert `config.json` to fields of `architecture`. The weights may later change `tied_embeddings`.

        Args:
            config: The content of `config.json`.
            positions: The toolkit that trained the model. It determines the sinusoids and the layer norm epsilon.

        Raises:
            ZooError: A setting is not supported.
        """
        fields = read_settings(config, "transformers", "transformers.marian")
        ties = tuple(config.boolean(key, True) for key in ("share_encoder_decoder_embeddings", "tie_word_embeddings"))
        return {
            **fields,
            # transformers' sinusoids are the paper's sinusoids in a different order (`weights.to_interleaved`).
            "positions": {"kind": "sinusoidal_halves" if positions == "marian" else "sinusoidal"},
            "norm": {**fields["norm"], "epsilon": _EPSILON[positions]},
            "tied_embeddings": next(name for name, values in TIES.items() if values == ties),
        }

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the exported model's `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        common, tied = TIES[a.tied_embeddings]
        source_size, target_size = spec.vocabulary.sizes
        return {
            "architectures": [self.model_class],
            "model_type": "marian",
            **written_settings(a, "transformers", "transformers.marian"),
            "max_position_embeddings": _position_rows(spec),
            "share_encoder_decoder_embeddings": common,
            "tie_word_embeddings": tied,
            "vocab_size": source_size,
            "decoder_vocab_size": target_size,
        }

    def of_weights(self, a: Architecture) -> Collection[str]:
        """Return `("positions",)` if the exported weights contain the model's positional encodings, otherwise `()`."""
        return ("positions",) if isinstance(a.positions, Sinusoidal | Learned) else ()

    def max_length(self, spec: Spec) -> int:
        """Return the maximum length of a translation in tokens, including BOS and EOS."""
        return min(super().max_length(spec) + 1, _position_rows(spec))

    def ids(self, model: Model) -> WrittenIds:
        """Return zoo's token IDs unchanged. Raise ZooError if MarianTokenizer cannot read the language tokens."""
        languages, size = model.spec.languages, max(model.spec.vocabulary.sizes)
        if languages and (languages.target_token or not is_language_token(languages.token_of(languages.codes[0]))):
            reason = "MarianTokenizer recognises only language tokens such as `>>de<<`, and only before sources"
            raise cannot_export(self.name, reason)
        return WrittenIds(list(range(size)), size, pad=PAD, end=EOS)

    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield all embeddings, the output projection and its bias with their names in transformers.

        The embeddings include the position embeddings.
        """
        a = spec.architecture
        for side in STACKS:
            yield f"model.{side}.embed_positions.weight", _positions(spec, tensors, side)
        common, _ = TIES[a.tied_embeddings]
        yield from written_bart_tables(a, tensors, ids.select, common=common, biased=True)

    def write_vocabulary(self, model: Model, folder: Path, ids: WrittenIds) -> None:
        """Write the source and target SentencePiece models, the token IDs and the tokenizer's settings."""
        corpus, (one_list, _) = model.spec.corpus, TIES[model.spec.architecture.tied_embeddings]
        for side, list_name, file_name in (
            (model.vocabulary.source, _SOURCE, "source.spm"),
            (model.vocabulary.target, _TARGET, "target.spm"),
        ):
            assert isinstance(side, Tokenizer)
            (folder / file_name).write_bytes(side.content)
            if list_name == _SOURCE or not one_list:
                names = map(side.model.id_to_piece, range(side.size))
                write_json(folder / list_name, {foreign_name(name): id for id, name in enumerate(names)})
        settings = {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": corpus.source,
            "target_lang": corpus.target,
            "separate_vocabs": not one_list,
            "model_max_length": _position_rows(model.spec),
        }
        write_json(folder / TOKENIZER_CONFIG, settings)

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about how an exported model behaves differently in transformers."""
        if (epsilon := spec.architecture.norm.epsilon) != _EPSILON["transformers"]:
            theirs = _EPSILON["transformers"]
            yield f"the epsilon of layer norms is {theirs:g} in transformers, and {epsilon:g} in the spec"
        yield from super().notes(spec)


def _position_rows(spec: Spec) -> int:
    """Return the number of rows in the exported table of positional encodings.

    For sinusoidal positional encodings, this is the maximum source length plus 1 for EOS, but at most `_MAX_POSITIONS`.
    """
    if (rows := spec.architecture.max_positions) is not None:
        return rows
    return min(spec.decoding.max_source_length, _MAX_POSITIONS - 1) + 1


def _positions(spec: Spec, tensors: Mapping[str, Tensor], side: str) -> Tensor:
    a = spec.architecture
    if not isinstance(a.positions, Sinusoidal):
        return tensors[f"{side}.positions"].float().clone()
    halves, first = a.positions.kind == "sinusoidal_halves", a.positions.first
    return torch.tensor([sinusoidal_encoding(first + row, a.d_model, halves) for row in range(_position_rows(spec))])


def _direction(folder: Path) -> tuple[str, str] | None:
    """Return the source and target languages in `tokenizer_config.json`, or None if one is missing or invalid."""
    config = read_optional_json(folder / TOKENIZER_CONFIG)
    source, target = (str(config.get(f"{side}_lang", "")).lower() for side in ("source", "target"))
    return language_codes(source, target)


def _read_vocabulary(
    folder: Path, rows: tuple[int, int], special: SpecialTokens, *, shared: bool
) -> ImportedVocabulary:
    """Read the source and target vocabularies.

    Args:
        folder: The folder of the model.
        rows: The numbers of rows in the source and target embeddings.
        special: The IDs of the special tokens in the Hugging Face vocabulary.
        shared: Whether both sides have the same token IDs.

    Raises:
        ZooError: A file is missing or damaged.
    """
    files = folder / "source.spm", folder / "target.spm"
    models = [SentencePieceModel(file) for file in files]
    if shared:
        tokens = _token_list(folder / _SOURCE, rows[0], special)
        if read_bytes(files[0]) == read_bytes(files[1]):
            models = models[:1]
        return convert_vocabulary(models, tokens, tokens, shared=True, where=folder)
    lists = zip((_SOURCE, _TARGET), rows, strict=True)
    source, target = (_token_list(folder / name, count, special) for name, count in lists)
    # The token that decoding starts with never occurs in sources. In the source's list, another token may have its ID.
    start = slice(special.start, special.start + 1)
    if source.names[start] != target.names[start]:
        source = replace(source, start=None)
    return convert_vocabulary(models, source, target, shared=False, where=folder)


def _token_list(file: Path, rows: int, special: SpecialTokens) -> TokenList:
    ids = read_json(file)
    names = {id: name for name, id in ids.items()}
    if len(names) != len(ids) or _UNKNOWN not in ids:
        raise damaged(file, f"it has no `{_UNKNOWN}`, or two tokens share an ID")
    listed = tuple(names.get(id, "") for id in range(rows))
    return TokenList(listed, unknown=ids[_UNKNOWN], end=special.end, start=special.start, pad=special.pad)

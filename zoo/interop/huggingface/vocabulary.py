"""Reader and writer of the vocabulary files of transformers' Marian models, such as `vocab.json` and `source.spm`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zoo.files.atomic import write_json
from zoo.files.reading import read_bytes, read_json
from zoo.interop.formats import Bundle
from zoo.interop.huggingface.config import TOKENIZER_CONFIG, SpecialTokens
from zoo.interop.sentencepiece_model import SentencePieceModel, is_language_token
from zoo.interop.vocabulary import ImportedVocabulary, TokenList, convert_vocabulary
from zoo.text.tokenizer import SPACE, Tokenizer, damaged_vocabulary

_SOURCE, _TARGET = "vocab.json", "target_vocab.json"
_UNKNOWN = "<unk>"
_MAX_TOKENS = 1 << 20


def read_vocabulary(folder: Path, rows: tuple[int, int], special: SpecialTokens, *, shared: bool) -> ImportedVocabulary:
    """Read the vocabularies of the source and the target.

    Args:
        folder: The folder of the model.
        rows: The number of rows of the source embedding and of the target embedding.
        special: The IDs of the special tokens in the Hugging Face vocabulary.
        shared: Whether both sides have the same token IDs.

    Raises:
        ZooError: A file is missing or damaged.
    """
    files = folder / "source.spm", folder / "target.spm"
    models = [SentencePieceModel(file) for file in files]
    if shared:
        tokens = _token_list(folder / _SOURCE, rows[0], special, special.start)
        if read_bytes(files[0]) == read_bytes(files[1]):
            models = models[:1]
        return convert_vocabulary(models, tokens, tokens, shared=True, where=folder)
    # The token that decoding starts with never occurs in sources. In the source's list, another token may have its ID.
    source_name, target_name = (_name_of(folder / file, special.start) for file in (_SOURCE, _TARGET))
    source_start = special.start if source_name == target_name else None
    source = _token_list(folder / _SOURCE, rows[0], special, source_start)
    target = _token_list(folder / _TARGET, rows[1], special, special.start)
    return convert_vocabulary(models, source, target, shared=False, where=folder)


def _token_list(file: Path, rows: int, special: SpecialTokens, start: int | None) -> TokenList:
    names: dict[int, str] = {}
    for name, id in read_json(file).items():
        if not _is_id(id) or id in names:
            raise damaged_vocabulary(str(file), f"`{name}` has no ID, or shares its ID with another token")
        names[id] = name
    unknown = next((id for id, name in names.items() if name == _UNKNOWN), None)
    if rows > _MAX_TOKENS:
        raise damaged_vocabulary(str(file), f"it does not have {rows:,} tokens, as `config.json` says"[:200])
    if unknown is None or unknown >= rows or special.end >= rows or (start is not None and start >= rows):
        raise damaged_vocabulary(str(file), f"it has no `{_UNKNOWN}`, or the embedding has too few rows ({rows:,})")
    listed = tuple(names.get(id, "") for id in range(rows))
    return TokenList(listed, unknown=unknown, end=special.end, start=start, pad=special.pad)


def _name_of(file: Path, id: int) -> str | None:
    return next((name for name, other in read_json(file).items() if other == id), None)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_TOKENS


def write_vocabulary(bundle: Bundle, folder: Path, max_length: int) -> None:
    """Write both SentencePiece models, the token IDs and the settings of the tokenizer.

    Args:
        bundle: The published model. Its vocabularies are SentencePiece models.
        folder: The folder to write to.
        max_length: The number of positions of the model.
    """
    vocabulary, corpus = bundle.vocabulary, bundle.spec.corpus
    one_list = bundle.spec.architecture.tied_embeddings in ("all", "embeddings")
    for side, list_name, model in (
        (vocabulary.source, _SOURCE, "source.spm"),
        (vocabulary.target, _TARGET, "target.spm"),
    ):
        assert isinstance(side, Tokenizer)
        (folder / model).write_bytes(side.content)
        if list_name == _SOURCE or not one_list:
            ids = {_foreign_name(side, id): id for id in range(side.size)}
            (folder / list_name).write_text(json.dumps(ids, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    write_json(
        folder / TOKENIZER_CONFIG,
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": corpus.source,
            "target_lang": corpus.target,
            "separate_vocabs": not one_list,
            "model_max_length": max_length,
        },
    )


def _foreign_name(side: Tokenizer, id: int) -> str:
    """Return the name of a token in transformers, where language tokens have no leading space."""
    name = str(side.model.id_to_piece(id))
    bare = name.removeprefix(SPACE)
    return bare if is_language_token(bare) else name

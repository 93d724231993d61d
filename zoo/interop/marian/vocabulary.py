"""Readers for Marian's vocabularies and shortlists.

Vocabularies are SentencePiece models (.spm), or lists of tokens (.yml) with SentencePiece models.

Firefox Translations publishes binary shortlists, such as `lex.50.50.deen.s2t.bin`. Such a file begins with six
integers: a magic number, a checksum of the rest of the file, the number of target tokens that are always included, the
maximum length of a list, the number of offsets, and the number of tokens in all lists. The next part contains the
offsets, which delimit the list of each source token. The lists are the last part. Integers are 8 bytes long, and
tokens 4 bytes, in little-endian order. Target tokens are numbered by frequency. The tokens that are always included are
the most frequent tokens, so they have the lowest IDs.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import yaml

from specs import UNK, ZooError
from zoo.files.reading import damaged, read_bytes
from zoo.interop.formats import ImportRequest
from zoo.interop.marian.files import begins_with
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.tensors import TokenList
from zoo.interop.text_rules import ModelText, find_rules
from zoo.interop.vocabulary import ImportedVocabulary, convert_vocabulary, find_models
from zoo.models.shortlist import MAX_BYTES, Shortlist, invalid_reason

_LISTS = (".yml", ".yaml", ".json")
MAGIC = 0xF11A48D5013417F5
_HEADER = struct.Struct("<6Q")
_CHECKED_FROM = 16  # the checksum covers the file from this byte on
_MASK = (1 << 64) - 1
_END, _UNKNOWN = "</s>", "<unk>"


def read_vocabulary(files: tuple[Path, Path], rows: tuple[int, int], request: ImportRequest) -> ImportedVocabulary:
    """Read the source and target vocabularies of a Marian model.

    Args:
        files: The vocabulary files of the source and the target.
        rows: The numbers of rows in the source and target embeddings.
        request: The user's import options.

    Raises:
        ZooError: A file is damaged or belongs to a different model, or the vocabularies are token lists without
            SentencePiece models or text rules.
    """
    source, target = files
    shared = source == target or read_bytes(source) == read_bytes(target)
    has_lists = any(file.suffix in _LISTS for file in files)
    if has_lists:
        models = find_models(source.parent, request.languages)
    else:
        models = [SentencePieceModel(file) for file in (files[:1] if shared else files)]
    rules = find_rules(models, source.parent, request.text, ModelText(request.languages))
    if not models and not rules and not request.text.tokenizer:
        lacking = f"`{source.parent}` lacks `source.spm` or `target.spm`, which split text into these tokens"
        hint = "add these SentencePiece models, or specify how texts are split: `--tokenizer moses --bpe FILE`"
        raise ZooError(f"`{source.name}` is a list of tokens, but {lacking}", hint=hint)
    if has_lists:
        lists = [_read_list(file, count) for file, count in zip(files, rows, strict=True)]
    else:
        lists = [_tokens_of_model(model, count) for model, count in zip(models, rows, strict=False)]
    return convert_vocabulary(models, lists[0], lists[-1], shared=shared, where=source.parent, rules=rules)


def _tokens_of_model(model: SentencePieceModel, rows: int) -> TokenList:
    names = model.names()
    if _END not in names or len(names) != rows:
        reason = f"it has {len(names):,} tokens but the embedding has {rows:,} rows, or it lacks `{_END}`"
        raise damaged(model.file, reason)
    types = [entry.type for entry in model.entries]
    unknown = types.index(TokenType.UNKNOWN) if TokenType.UNKNOWN in types else UNK
    return TokenList(tuple(names), unknown=unknown, end=names.index(_END))


def _read_list(file: Path, rows: int) -> TokenList:
    ids = _parse_list(file)
    names = {id: name for name, id in ids.items() if id < rows}
    # As in lists of Nematus, the first two names may be empty or different.
    end = 0 if names.get(0, "") in ("", "eos", _END) else ids.get(_END)
    unknown = 1 if names.get(1, "") in ("", "UNK", _UNKNOWN) else ids.get(_UNKNOWN)
    if end is None or unknown is None:
        raise damaged(file, f"it lacks `{_END}` or `{_UNKNOWN}`")
    return TokenList(tuple(names.get(id, "") for id in range(rows)), unknown=unknown, end=end)


def _parse_list(file: Path) -> dict[str, int]:
    """Read a YAML file that maps tokens to IDs. Raise ZooError if the file contains anything else."""
    scalars: list[str] = []
    try:
        for event in yaml.parse(read_bytes(file).decode("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(event, yaml.ScalarEvent):
                scalars.append(event.value)
            elif isinstance(event, yaml.AliasEvent | yaml.SequenceStartEvent):
                raise ValueError
        names, ids = scalars[::2], [int(number) for number in scalars[1::2]]
    except (yaml.YAMLError, ValueError):
        names, ids = [], []
    if not names or len(names) != len(ids) or len({*names}) != len(names) or min(ids) < 0:
        raise damaged(file, "it is not a list of tokens and their IDs")
    return dict(zip(names, ids, strict=True))


def shortlist_files(folder: Path) -> list[Path]:
    """Return the paths of the binary shortlists in a folder, judging by file names and first bytes."""
    return [file for file in sorted(folder.glob("*.bin")) if begins_with(file, MAGIC)]


def read_shortlist(file: Path, vocabulary: ImportedVocabulary, rows: tuple[int, int]) -> Shortlist:
    """Read a shortlist, and convert it to zoo's token IDs.

    If source and target have the same vocabulary, the list of each source token also contains the token itself, as in
    Marian.

    Args:
        file: The shortlist file.
        vocabulary: The converted vocabulary.
        rows: The numbers of source and target tokens in the original model.

    Raises:
        ZooError: The file is damaged, or it was made for a different vocabulary.
    """
    content = read_bytes(file, MAX_BYTES)
    if len(content) < _HEADER.size:
        raise damaged(file, "it is truncated")
    _, checksum, frequent, _, offset_count, token_count = _HEADER.unpack_from(content)
    if len(content) != _HEADER.size + 8 * offset_count + 4 * token_count or not offset_count:
        raise damaged(file, f"its {len(content):,} bytes do not match its header")
    if _checksum(content) != checksum:
        raise damaged(file, "its checksum does not match its content")
    written = np.frombuffer(content, "<u8", offset_count, _HEADER.size).astype(np.int64)
    # The file contains no offsets after the last source token that has a list.
    offsets = np.pad(written, (0, max(0, rows[0] + 1 - offset_count)), mode="edge")
    tokens = np.frombuffer(content, "<u4", token_count, _HEADER.size + 8 * offset_count).astype(np.int64)
    common = np.arange(min(frequent, rows[1]))
    if problem := invalid_reason(common, offsets, tokens, rows):
        raise damaged(file, problem)
    ids = np.full(rows[1], -1)  # zoo's ID of each token, or -1 for a token that zoo does not have
    for original, id in vocabulary.target.ids.items():
        ids[original] = id
    lists = []
    for token in vocabulary.source.tokens:
        row = token.row
        own = [] if row is None else ids[tokens[offsets[row] : offsets[row + 1]]].tolist()
        lists.append([*own, int(ids[row])] if vocabulary.vocabulary.shared and row is not None else own)
    known = (np.unique([each for each in own if each >= 0]).astype(np.int64) for own in lists)
    return Shortlist.from_lists(ids[common][ids[common] >= 0], known)


def _checksum(content: bytes) -> int:
    """Compute a shortlist's checksum by combining its 8-byte integers as `boost::hash_combine` does."""
    words = np.frombuffer(content, "<u8", (len(content) - _CHECKED_FROM) // 8, _CHECKED_FROM)
    state = 0
    for word in words.tolist():
        state ^= (word + 0x9E3779B9 + (state << 6) + (state >> 2)) & _MASK
    return state
